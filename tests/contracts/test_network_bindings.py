"""Bindings of ports to hosts, in every network service."""

import pytest

from tests.contracts.network_services import MISSING, NOWHERE, OWNER, Around
from whimbrel.domain.errors import Conflict, NotFound, Refused


async def test_a_port_is_bound(around: Around) -> None:
    port = await around.bound()
    assert (port.host, port.profile) == (around.hosts[0], {"pci_slot": "a"})
    port = await around.plugged(port.id)
    assert port.vif_type not in ("unbound", "binding_failed")
    again = await around.rebound(port.id, around.hosts[0], {"more": 1, "pci_slot": None})
    assert again.profile == {"more": 1}
    [binding] = await around.network.bindings(port.id)
    assert (binding.host, binding.is_active, binding.profile) == (around.hosts[0], True, {"more": 1})
    with pytest.raises(Refused):
        await around.rebound(again.id, NOWHERE, {})
    await around.network.free_port(port.id, around.server)
    freed = await around.network.port(port.id)
    assert (freed.host, freed.vif_type, "pci_slot" in freed.profile) == ("", "unbound", False)
    assert await around.network.bindings(port.id) == []


async def test_a_port_is_unbound_and_stays_its_servers(around: Around) -> None:
    network, (here, there) = around.network, around.hosts
    port = await around.bound()
    await network.create_binding(port.id, there, "normal", {})
    seen = await network.port(port.id)
    await around.plugged(port.id)
    for _ in range(2):
        await around.unbound(port.id, {"pci_slot": None})
        unbound = await network.port(port.id)
        assert (unbound.device_id, unbound.device_owner, unbound.host) == (around.server, OWNER, "")
        assert (unbound.vif_type, "pci_slot" in unbound.profile) == ("unbound", False)
        assert [one for one in await network.bindings(port.id) if one.host] == []
    for call in (network.bind(seen, here, {}, OWNER), network.unbind(seen, {}, OWNER)):
        with pytest.raises(Conflict):
            await call
    first = await network.port(port.id)
    await network.unbind(first, {}, OWNER)
    with pytest.raises(Conflict):  # the one that changed nothing counts too
        await network.bind(first, here, {}, OWNER)
    assert (await network.bind(await network.port(port.id), here, {}, OWNER)).host == here


async def test_a_binding_waits_at_another_host(around: Around) -> None:
    network, (here, there) = around.network, around.hosts
    port = await around.bound()
    for profile in ({"pci_slot": "b"}, {"pci_slot": "c", "nothing": None}):
        made = await network.create_binding(port.id, there, "normal", profile)
        assert (made.host, made.is_active) == (there, False)
        assert made.vif_type not in ("unbound", "binding_failed")
    assert (await network.port(port.id)).host == here
    bindings = {binding.host: binding for binding in await network.bindings(port.id)}
    assert {host: binding.is_active for host, binding in bindings.items()} == {here: True, there: False}
    assert bindings[there].profile == {"pci_slot": "c"}
    with pytest.raises(Refused):
        await network.create_binding(port.id, NOWHERE, "normal", {})
    still = await network.create_binding(port.id, here, "normal", {"pci_slot": "d"})
    assert (still.is_active, still.profile) == (True, {"pci_slot": "d"})


async def test_the_binding_that_loses_activity_is_cleared(around: Around) -> None:
    network, (here, there) = around.network, around.hosts
    port = await around.bound()
    await around.plugged(port.id)
    await network.create_binding(port.id, there, "normal", {"pci_slot": "b"})
    for _ in range(2):
        await network.activate_binding(port.id, there)
    shown = await around.plugged(port.id)
    assert (shown.host, shown.profile, shown.vif_type) == (there, {"pci_slot": "b"}, port.vif_type)
    bindings = {binding.host: binding for binding in await network.bindings(port.id)}
    assert {host: (one.is_active, one.is_connected) for host, one in bindings.items()} == {
        here: (False, False),
        there: (True, True),
    }
    await network.activate_binding(port.id, here)  # it is not made anew by that
    shown = await network.port(port.id)
    assert (shown.host, shown.vif_type, shown.status) == (here, "unbound", "DOWN")


async def test_a_binding_is_handed_over_and_back(around: Around) -> None:
    network, (here, there) = around.network, around.hosts
    port = await around.bound()
    await network.create_binding(port.id, there, "normal", {"pci_slot": "b"})
    for host, slot in ((there, "b"), (here, "a"), (there, "c")):
        for _ in range(2):
            made = await network.create_binding(port.id, host, "normal", {"pci_slot": slot})
            assert made.is_connected
        for _ in range(2):
            await network.activate_binding(port.id, host)
        shown = await around.plugged(port.id)
        assert (shown.host, shown.profile) == (host, {"pci_slot": slot})
        assert shown.vif_type == port.vif_type
        assert [b.host for b in await network.bindings(port.id) if b.is_active] == [host]
    with pytest.raises(NotFound):
        await network.activate_binding(port.id, NOWHERE)
    with pytest.raises(Refused):
        await network.delete_bindings([port.id], there)
    for _ in range(2):
        await network.delete_bindings([MISSING, port.id], here)
    assert [binding.host for binding in await network.bindings(port.id)] == [there]
    assert (await network.port(port.id)).addresses == port.addresses


async def test_an_active_binding_that_was_cleared_is_made_anew(around: Around) -> None:
    network, (here, there) = around.network, around.hosts
    port = await around.bound()
    await network.create_binding(port.id, there, "normal", {})
    for host in (there, here):
        await network.activate_binding(port.id, host)
    assert not (await network.create_binding(port.id, there, "normal", {})).is_active
    made = await network.create_binding(port.id, here, "normal", {"pci_slot": "a"})
    assert (made.is_active, made.is_connected) == (True, True)
    assert (await around.plugged(port.id)).vif_type == port.vif_type


async def test_a_port_is_bound_where_a_binding_waits(around: Around) -> None:
    network, (here, there) = around.network, around.hosts
    port = await around.bound()
    await network.create_binding(port.id, there, "normal", {"pci_slot": "b"})
    await around.rebound(port.id, there, {"pci_slot": "c"})
    shown = await around.plugged(port.id)
    assert (shown.host, shown.profile) == (there, {"pci_slot": "c"})
    assert [(b.host, b.is_active) for b in await network.bindings(port.id)] == [(there, True)]
    assert (await around.rebound(port.id, here, {})).host == here


async def test_a_port_without_an_active_binding(around: Around) -> None:
    """A late request deleted the active one: what waits is made active all the same."""
    network, (here, there) = around.network, around.hosts
    if around.client is None:
        pytest.skip("this service does not delete active bindings")
    port = await around.plugged((await around.bound()).id)
    await network.create_binding(port.id, there, "normal", {"pci_slot": "b"})
    gone = await around.client.delete(f"/v2.0/ports/{port.id}/bindings/{here}")
    assert gone.status_code == 204
    assert (await network.port(port.id)).host == ""
    answer = await around.client.put(f"/v2.0/ports/{port.id}/bindings/{there}/activate")
    assert answer.status_code == 500
    for _ in range(2):
        await network.activate_binding(port.id, there)
    shown = await around.plugged(port.id)
    assert (shown.host, shown.profile) == (there, {"pci_slot": "b"})


async def test_a_cleared_binding_is_not_changed(around: Around) -> None:
    here, there = around.hosts
    if around.client is None:
        pytest.skip("this service is not reached over HTTP")
    port = await around.bound()
    await around.network.create_binding(port.id, there, "normal", {})
    await around.network.activate_binding(port.id, there)
    body = {"binding": {"profile": {"pci_slot": "c"}}}
    changed = await around.client.put(f"/v2.0/ports/{port.id}/bindings/{here}", json=body)
    assert changed.status_code == 500
    [cleared] = [b for b in await around.network.bindings(port.id) if b.host == here]
    assert (cleared.profile, cleared.is_connected) == ({"pci_slot": "a"}, False)


async def test_how_a_host_that_cannot_connect_is_answered(around: Around) -> None:
    """A request of bindings fails; a change of the port succeeds, and says it in its answer."""
    if around.client is None:
        pytest.skip("this service is not reached over HTTP")
    port = await around.bound()
    body = {"binding": {"host": NOWHERE}}
    answer = await around.client.post(f"/v2.0/ports/{port.id}/bindings", json=body)
    assert (answer.status_code, answer.json()["NeutronError"]["type"]) == (500, "PortBindingError")
    foreign = {"binding": {"host": around.hosts[1], "profile": {"allocation": {MISSING: MISSING}}}}
    answer = await around.client.post(f"/v2.0/ports/{port.id}/bindings", json=foreign)
    assert (answer.status_code, answer.json()["NeutronError"]["type"]) == (500, "PortBindingError")
    body = {"port": {"binding:host_id": NOWHERE}}
    changed = await around.client.put(f"/v2.0/ports/{port.id}", json=body)
    shown = changed.raise_for_status().json()["port"]
    assert (shown["binding:host_id"], shown["binding:vif_type"], shown["status"]) == (NOWHERE, "binding_failed", "DOWN")


async def test_what_waits_is_gone_with_the_port_or_its_server(around: Around) -> None:
    network, (_, there) = around.network, around.hosts
    port = await around.bound()
    await network.create_binding(port.id, there, "normal", {})
    await network.free_port(port.id, around.server)
    assert await network.bindings(port.id) == []
    for _ in range(2):
        await network.delete_port(port.id)
    with pytest.raises(NotFound):
        await network.bindings(port.id)
