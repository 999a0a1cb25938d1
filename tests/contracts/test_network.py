"""What every network service does for servers: the simulated one, the embedded one over HTTP, a real Neutron."""

import asyncio

import httpx
import pytest
from msgspec.structs import replace

from tests.contracts.http_statuses import EVERYWHERE
from tests.contracts.network_services import MISSING, NOWHERE, OWNER, Around
from tests.httpx_service import HttpxService
from whimbrel.adapters.openstack.network import HttpNetwork
from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.domain.server_devices import FixedIp
from whimbrel.ports.services import network_errors
from whimbrel.ports.services.network import Port
from whimbrel.ports.services.network_proxies import SecurityGroupRule


async def test_a_project_finds_its_networks(around: Around) -> None:
    [found] = await around.network.networks(around.project, [around.id, MISSING])
    assert (found.id, found.name, found.project_id, found.is_shared) == (around.id, "net", around.project, False)
    assert len(found.subnets) == 1
    assert around.id in [each.id for each in await around.network.networks(around.project)]
    assert await around.network.networks(around.project, []) == []
    assert await around.network.networks(around.other_project, [around.id]) == []


async def test_a_network_in_use_is_found_whoever_owns_it(around: Around) -> None:
    """An administrator creates a port for a project in a private network of another one."""
    network = around.network
    port = await network.create_port(around.requested(around.server, project_id=around.other_project))
    assert (port.project_id, port.network_id) == (around.other_project, around.id)
    [found] = await network.networks(None, [port.network_id, MISSING])
    assert (found.id, found.name, found.project_id) == (around.id, "net", around.project)
    assert await network.networks(None, []) == []
    assert around.id in [each.id for each in await network.networks(None)]
    assert around.id not in [each.id for each in await network.networks(around.other_project)]
    bound = await network.bind(port, around.hosts[0], {}, OWNER)
    assert (bound.host, bound.is_connected) == (around.hosts[0], True)


async def test_subnets_of_a_routed_network_are_of_segments(around: Around) -> None:
    assert await around.network.segments(around.id) == {}
    assert await around.network.segments(MISSING) == {}
    routed = await around.route()
    assert len(routed) == 1
    assert await around.network.segments(around.id) == routed


async def test_every_project_has_a_security_group(around: Around) -> None:
    groups = await around.network.security_groups(around.project)
    assert "default" in groups.values()
    assert await around.network.security_groups(around.project) == groups


async def test_a_ports_security_groups_are_set_as_it_was_seen(around: Around) -> None:
    network = around.network
    port = await network.create_port(around.requested(around.server))
    [group] = port.security_groups
    await network.set_security_groups(port, [])
    bare = await network.port(port.id)
    assert bare.security_groups == ()
    if port.revision is not None:
        with pytest.raises(Conflict):
            await network.set_security_groups(port, [group])
    with pytest.raises(Refused):
        await network.set_security_groups(bare, [MISSING])
    await network.set_security_groups(bare, [group])
    assert (await network.port(port.id)).security_groups == (group,)
    await network.delete_port(port.id)
    with pytest.raises(NotFound):
        await network.set_security_groups(bare, [group])


async def test_many_who_ask_first_find_the_same_group(around: Around) -> None:
    found = await asyncio.gather(*(around.network.security_groups(around.other_project) for _ in range(6)))
    assert len({group for groups in found for group in groups}) == 1


async def test_a_port_is_made_once(around: Around) -> None:
    requested = around.requested(around.server)
    port = await around.network.create_port(requested)
    assert (port.mac, port.device_id, port.device_owner, port.host) == (requested.mac, around.server, OWNER, "")
    assert (port.network_id, port.project_id) == (around.id, around.project)
    assert [address.address for address in port.addresses] == [port.addresses[0].address]
    assert (await around.network.create_port(requested)).id == port.id
    assert [each.id for each in await around.network.ports_of([around.server, around.other])] == [port.id]
    bound = await around.network.bind(port, around.hosts[0], {"pci_slot": "a"}, OWNER)
    [listed] = await around.network.ports_of([around.server], with_requests=False)
    assert replace(listed, revision=bound.revision, status=bound.status) == bound
    [group] = port.security_groups
    assert (await around.network.security_groups(around.project))[group] == "default"
    shown = await around.network.port(port.id)
    assert replace(shown, revision=bound.revision, status=bound.status) == bound


async def test_an_address_is_given_once(around: Around) -> None:
    requested = around.requested(around.server, fixed_ip="10.20.30.5")
    port = await around.network.create_port(requested)
    assert port.addresses[0].address == "10.20.30.5"
    assert (await around.network.create_port(requested)).id == port.id
    with pytest.raises(Refused, match=r"10\.20\.30\.5"):
        await around.network.create_port(around.requested(around.other, fixed_ip="10.20.30.5"))
    assert await around.network.ports_of([around.other]) == []


async def test_when_no_address_is_left(around: Around) -> None:
    made = [await around.network.create_port(around.requested(around.server)) for _ in range(5)]
    assert len({port.addresses[0].address for port in made}) == 5
    with pytest.raises(Refused, match="No more IP addresses"):
        await around.network.create_port(around.requested(around.server))
    await around.network.delete_port(made[0].id)
    [address] = (await around.network.create_port(around.requested(around.server))).addresses
    assert address == made[0].addresses[0]


async def test_who_binds_too_late_changes_nothing(around: Around) -> None:
    seen = await around.network.create_port(around.requested(around.server))
    if seen.revision is None:
        pytest.skip("this service does not count changes")
    first = await around.network.bind(seen, around.hosts[0], {}, OWNER)
    with pytest.raises(Conflict):
        await around.network.bind(seen, around.hosts[1], {}, OWNER)
    await around.network.free_port(seen.id, around.server)
    with pytest.raises(Conflict):
        await around.network.bind(first, around.hosts[1], {}, OWNER)
    assert (await around.network.port(seen.id)).host == ""


async def test_what_is_not_there(around: Around) -> None:
    network = around.network
    gone = await network.create_port(around.requested(around.server))
    await network.delete_port(gone.id)
    await network.delete_port(MISSING)
    await network.free_port(MISSING, around.server)
    await network.delete_bindings([MISSING], around.hosts[0])
    await network.delete_bindings([], around.hosts[0])
    assert await network.ports_of([]) == []
    with pytest.raises(Refused):
        await network.create_port(around.requested(around.server, network_id=MISSING))
    for call in (
        network.port(MISSING),
        network.take_port(MISSING, around.server, OWNER),
        network.bind(gone, around.hosts[0], {}, OWNER),
        network.unbind(gone, {}, OWNER),
        network.bindings(MISSING),
        network.create_binding(MISSING, around.hosts[0], "normal", {}),
        network.activate_binding(MISSING, around.hosts[0]),
    ):
        with pytest.raises(NotFound):
            await call


async def test_a_port_is_taken_and_released(around: Around) -> None:
    network = around.network
    port = await network.create_port(around.requested(around.server))
    for _ in range(2):
        await network.free_port(port.id, around.server)
        freed = await network.port(port.id)
        assert (freed.device_id, freed.device_owner, freed.host) == ("", "", "")
    for _ in range(2):
        taken = await network.take_port(port.id, around.other, OWNER)
        assert (taken.device_id, taken.device_owner) == (around.other, OWNER)
    with pytest.raises(Refused):
        await network.take_port(port.id, around.server, OWNER)
    await network.free_port(port.id, around.server)  # it is not this server's
    assert (await network.port(port.id)).device_id == around.other


async def test_two_servers_that_want_a_port(around: Around) -> None:
    port = await around.network.create_port(around.requested(around.server))
    await around.network.free_port(port.id, around.server)
    servers = [ServerId(MISSING[:-1] + str(number)) for number in range(1, 7)]
    calls = [around.network.take_port(port.id, server, OWNER) for server in servers]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    winners = [outcome.device_id for outcome in outcomes if isinstance(outcome, Port)]
    assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 6 - len(winners)
    assert (await around.network.port(port.id)).device_id in winners
    assert len(winners) == 1 or around.is_real


# What is said over HTTP


@pytest.mark.parametrize(("status", "error"), [*EVERYWHERE, (409, Refused)])
@pytest.mark.parametrize("body", ['{"NeutronError": {"type": "Any", "message": "<no>", "detail": ""}}', "<no>"])
async def test_what_an_http_status_means(status: int, error: type[Exception], body: str) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, text=body))
    async with httpx.AsyncClient(transport=transport, base_url="http://network") as client:
        with pytest.raises(error, match=f"{status}: <no>"):
            await HttpNetwork(HttpxService(client, "network")).port(MISSING)


async def test_a_host_that_cannot_connect_a_port_is_a_no() -> None:
    """Neutron says it with a 500."""
    body = {"NeutronError": {"type": "PortBindingError", "message": "Binding failed", "detail": ""}}
    transport = httpx.MockTransport(lambda request: httpx.Response(500, json=body))
    async with httpx.AsyncClient(transport=transport, base_url="http://network") as client:
        with pytest.raises(Refused, match="Binding failed"):
            await HttpNetwork(HttpxService(client, "network")).create_binding(MISSING, NOWHERE, "normal", {})


@pytest.mark.parametrize("answer", ["nothing", "nonsense"])
async def test_no_answer_is_unavailable(answer: str) -> None:
    def reply(request: httpx.Request) -> httpx.Response:
        if answer == "nothing":
            raise httpx.ReadError("connection reset")
        return httpx.Response(200, text="[]")

    async with httpx.AsyncClient(transport=httpx.MockTransport(reply), base_url="http://network") as client:
        network = HttpNetwork(HttpxService(client, "network"))
        for call in (
            network.port(MISSING),
            network.ports_of([ServerId(MISSING)]),
            network.networks(ProjectId(MISSING)),
        ):
            with pytest.raises(Unavailable):
                await call


async def test_both_forms_of_a_request_are_read() -> None:
    port = {"id": MISSING, "network_id": "n", "project_id": "p", "mac_address": "m"}
    group = {"id": "g", "required": ["T"], "resources": {"R": 1}}
    forms = [
        {"request_groups": [group], "same_subtree": ["g"]},
        {"required": ["T"], "resources": {"R": 1}},
        None,
    ]
    shown = iter(forms)
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, json={"port": {**port, "resource_request": next(shown)}})
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://network") as client:
        grouped, alone, nothing = [await HttpNetwork(HttpxService(client, "network")).port(MISSING) for _ in forms]
    assert (grouped.has_groups, grouped.same_subtree, [each.id for each in grouped.requests]) == (
        True,
        ("g",),
        ["g"],
    )
    assert (alone.has_groups, alone.same_subtree, [each.id for each in alone.requests]) == (False, (), [MISSING])
    assert alone.requests[0].resources == grouped.requests[0].resources == {"R": 1}
    assert nothing.requests == ()


async def test_whose_ports_there_are_comes_page_by_page(around: Around) -> None:
    network = around.network
    for server, owner in ((around.server, OWNER), (around.other, OWNER), (around.other, "network:other")):
        await network.create_port(around.requested(server, device_owner=owner))
    told: list[ServerId] = []
    after: str | None = None
    while True:
        page = await network.port_holders(after, 2)
        told += page.items
        if page.after is None:
            break
        after = page.after
    ours = sorted((around.server, around.other))
    assert sorted(one for one in told if one in ours) == ours  # of servers alone


async def test_addresses_of_a_port_are_set_as_it_was_seen(around: Around) -> None:
    network = around.network
    port = await network.create_port(around.requested(around.server))
    [first] = port.addresses
    await network.set_fixed_ips(port, (first, FixedIp("", first.subnet_id)))
    more = await network.port(port.id)
    assert first in more.addresses
    assert len({each.address for each in more.addresses}) == 2
    if port.revision is not None:
        with pytest.raises(Conflict):
            await network.set_fixed_ips(port, (first,))
    with pytest.raises(Refused):
        await network.set_fixed_ips(more, (*more.addresses, *[FixedIp("", first.subnet_id)] * 9))


async def test_security_groups_and_their_rules(around: Around) -> None:
    network = around.network
    group = await network.create_group(around.project, "web", "of the web")
    assert (group.name, group.description, group.project_id, group.rules) == ("web", "of the web", around.project, ())
    rule = SecurityGroupRule(group_id=group.id, protocol="tcp", first_port=80, last_port=80, remote_prefix="10.0.0.0/8")
    made = await network.create_rule(around.project, rule)
    assert replace(made, id="") == rule
    with pytest.raises(network_errors.SecurityGroupRuleExists):
        await network.create_rule(around.project, rule)
    assert await network.rule(made.id) == made
    assert [each.rules for each in await network.groups(ids=[group.id])] == [(made,)]
    changed = await network.change_group(group, "new", "")
    assert (changed.id, changed.name, changed.description) == (group.id, "new", "")
    assert {each.name for each in await network.groups(project=around.project)} == {"default", "new"}
    assert await network.groups(project=around.other_project, ids=[group.id]) == []
    await network.delete_rule(made)
    with pytest.raises(NotFound):
        await network.rule(made.id)
    await network.delete_group(changed)
    assert await network.groups(ids=[group.id]) == []
