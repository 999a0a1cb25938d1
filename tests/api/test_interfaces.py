"""os-interface: ports plugged and unplugged while the server is there, and what their addresses look like."""

from typing import Any

import pytest

from tests.api.devices import network, port
from tests.api.front import OTHER_PROJECT, Front, fault
from whimbrel.domain.ids import ProviderId, ServerId
from whimbrel.ports.services.network import PortRequest
from whimbrel.sim.cloud.cloud import CELL, PROJECT
from whimbrel.sim.world import equipment

NOWHERE = "99999999-9999-4999-8999-999999999999"


async def plugged(front: Front, server_id: str) -> tuple[str, ...]:
    """Return the ports that its guest has."""
    return (await front.guest(server_id)).ports


async def attach(front: Front, server_id: str, **requested: Any) -> Any:
    answer = await front.ask("POST", f"/servers/{server_id}/os-interface", {"interfaceAttachment": requested})
    assert answer.status_code == 200, answer.text
    return answer.json()["interfaceAttachment"]


async def test_an_interface_comes_by_network_by_address_by_port_and_goes_again(front: Front) -> None:
    a = network(front)
    mine = port(front, a)
    server_id = await front.boot()
    by_network = await attach(front, server_id, net_id=a, tag="nic")
    await front.settle()
    by_address = await attach(front, server_id, net_id=a, fixed_ips=[{"ip_address": "10.0.0.77"}])
    await front.settle()
    by_port = await attach(front, server_id, port_id=mine.id)
    await front.settle()
    assert by_network["tag"] == "nic"
    assert [ip["ip_address"] for ip in by_address["fixed_ips"]] == ["10.0.0.77"]
    assert (by_port["port_id"], by_port["mac_addr"], by_port["net_id"]) == (mine.id, mine.mac, a)
    ids = [each["port_id"] for each in (by_network, by_address, by_port)]
    assert list(await plugged(front, server_id)) == ids
    listed = (await front.get(f"/servers/{server_id}/os-interface"))["interfaceAttachments"]
    assert [each["port_id"] for each in listed] == ids
    assert {each["port_state"] for each in listed} == {"ACTIVE"}
    assert (await front.get(f"/servers/{server_id}/os-interface/{mine.id}"))["interfaceAttachment"] == listed[2]
    addresses = (await front.show(server_id))["addresses"]["private"]
    assert [each["OS-EXT-IPS-MAC:mac_addr"] for each in addresses][2] == mine.mac
    for port_id in ids:
        answer = await front.ask("DELETE", f"/servers/{server_id}/os-interface/{port_id}")
        assert (answer.status_code, answer.content) == (202, b"")
        await front.settle()
    assert await plugged(front, server_id) == ()
    assert (await front.show(server_id))["addresses"] == {}
    assert [one.id for one in await front.world.cloud.network.ports_of([ServerId(server_id)])] == []
    assert (await front.world.cloud.network.port(mine.id)).device_id == ""
    names = [each["action"] for each in await history(front, server_id)]
    assert names == ["detach_interface"] * 3 + ["attach_interface"] * 3 + ["create"]


async def history(front: Front, server_id: str) -> list[Any]:
    actions: list[Any] = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]
    return actions


async def test_without_a_word_it_is_the_only_network(front: Front) -> None:
    server_id = await front.boot()
    path = f"/servers/{server_id}/os-interface"
    for body in ({}, {"interfaceAttachment": {}}):
        assert "none are available" in fault(await front.ask("POST", path, body), "badRequest", 400)
    a = network(front)
    assert (await attach(front, server_id))["net_id"] == a
    await front.settle()
    network(front, "second")
    assert "Multiple" in fault(await front.ask("POST", path, {"interfaceAttachment": {}}), "badRequest", 400)


async def test_what_cannot_be_attached_is_refused_and_leaves_nothing(front: Front) -> None:
    a, bare = network(front), network(front, "bare", subnets=())
    theirs = network(front, "theirs", project_id=OTHER_PROJECT)
    busy, foreign = port(front, a, device_id="somebody"), port(front, theirs, project_id=OTHER_PROJECT)
    wide = port(front, a, (PortRequest(id="r", resources={"NET_BW_EGR_KILOBIT_PER_SEC": 1}),))
    direct, mine = port(front, a, vnic_type="direct"), port(front, a)
    outside = network(front, "outside", is_external=True)
    server_id = await front.boot()

    async def no(requested: dict[str, Any], name: str, code: int, *, minor: int = 104) -> str:
        body = {"interfaceAttachment": requested}
        return fault(await front.ask("POST", f"/servers/{server_id}/os-interface", body, minor=minor), name, code)

    taken = {"ip_address": mine.addresses[0].address}
    await no({"net_id": a, "port_id": mine.id}, "badRequest", 400)
    await no({"port_id": mine.id, "fixed_ips": [taken]}, "badRequest", 400)
    await no({"net_id": bare}, "badRequest", 400)
    await no({"net_id": a, "fixed_ips": [taken]}, "badRequest", 400)
    await no({"net_id": a, "fixed_ips": [taken, taken]}, "badRequest", 400)
    await no({"net_id": a, "tag": "t"}, "badRequest", 400, minor=48)
    await no({"net_id": a, "unknown": 1}, "badRequest", 400)
    assert "cannot serve the requests of port" in await no({"port_id": wide.id}, "badRequest", 400)
    assert "direct" in await no({"port_id": direct.id}, "badRequest", 400)
    await no({"net_id": outside}, "forbidden", 403)
    await no({"net_id": theirs}, "itemNotFound", 404)
    await no({"port_id": foreign.id}, "itemNotFound", 404)
    await no({"port_id": NOWHERE}, "itemNotFound", 404)
    await no({"port_id": busy.id}, "conflictingRequest", 409)
    await front.settle()
    assert (await front.get(f"/servers/{server_id}/os-interface"))["interfaceAttachments"] == []
    assert (await front.show(server_id))["status"] == "ACTIVE"
    path = f"/servers/{server_id}/os-interface/"
    for other in (mine.id, busy.id, NOWHERE):
        fault(await front.ask("DELETE", path + other), "itemNotFound", 404)
        fault(await front.ask("GET", path + other), "itemNotFound", 404)


async def test_a_detached_port_gives_its_virtual_function_back(front: Front) -> None:
    world = front.world
    equipment.add_services(world.remains.network, world.remains.volumes, PROJECT)
    equipment.add_direct_port(world.remains.network, PROJECT)
    for host in await world.cloud.cell(CELL).hosts.all():
        await equipment.add_host_nic(world.placement, host.name, host.id, ProviderId(world.cloud.ids.uuid()))
        await equipment.add_functions(world.cloud.cell(CELL), world.placement, host, world.cloud.ids)
    server_id = await front.boot(networks=[{"port": equipment.DIRECT_PORT}])

    async def held() -> list[str | None]:
        of_hosts = [await world.cloud.cell(CELL).devices.of(host) for host in world.hypervisors]
        return [one.request for devices in of_hosts for one in devices if one.holder]

    assert await held() == [equipment.DIRECT_PORT]
    answer = await front.ask("DELETE", f"/servers/{server_id}/os-interface/{equipment.DIRECT_PORT}")
    assert answer.status_code == 202
    await front.settle()
    assert await held() == []
    assert (await front.show(server_id))["status"] == "ACTIVE"


@pytest.mark.parametrize("state", ["resized", "error", "locked", "rebooting"])
async def test_a_server_in_another_state_keeps_its_interfaces(front: Front, state: str) -> None:
    a = network(front)
    server_id = await front.boot(networks=[{"uuid": a}])
    [mine] = await plugged(front, server_id)
    if state == "resized":
        await front.act(server_id, {"resize": {"flavorRef": "2"}})
        await front.settle()
    if state == "error":
        await front.act(server_id, {"os-resetState": {"state": "error"}}, who="admin")
    if state == "locked":
        await front.act(server_id, {"lock": None})
    if state == "rebooting":
        await front.act(server_id, {"reboot": {"type": "HARD"}})
    path = f"/servers/{server_id}/os-interface"
    body = {"interfaceAttachment": {"net_id": a}}
    fault(await front.ask("POST", path, body), "conflictingRequest", 409)
    fault(await front.ask("DELETE", f"{path}/{mine}"), "conflictingRequest", 409)


async def test_a_stopped_server_gets_interfaces_too(front: Front) -> None:
    a = network(front)
    server_id = await front.boot()
    await front.act(server_id, {"os-stop": None})
    await front.settle()
    made = await attach(front, server_id, net_id=a)
    await front.settle()
    assert await plugged(front, server_id) == (made["port_id"],)
    assert (await front.show(server_id))["status"] == "SHUTOFF"


async def test_what_is_shown_grows_with_the_version(front: Front) -> None:
    a = network(front)
    server_id = await front.boot(networks=[{"uuid": a, "tag": "t"}])
    path = f"/servers/{server_id}/os-interface"
    [old] = (await front.get(path, minor=69))["interfaceAttachments"]
    [new] = (await front.get(path, minor=70))["interfaceAttachments"]
    assert set(old) == {"net_id", "port_id", "mac_addr", "port_state", "fixed_ips"}
    assert new == old | {"tag": "t"}
    assert (await front.get(f"{path}?x=1", minor=101))["interfaceAttachments"]
    fault(await front.ask("GET", f"{path}?x=1", minor=102), "badRequest", 400)


async def test_addresses_are_shown_and_servers_are_found_by_them(front: Front) -> None:
    a, b = network(front), network(front, "six", "fd00::/120")
    server_id = await front.boot(networks=[{"uuid": a, "fixed_ip": "10.0.0.9"}, {"uuid": b, "fixed_ip": "fd00::7"}])
    await front.boot("other")
    addresses = (await front.show(server_id))["addresses"]
    [four], [six] = addresses["private"], addresses["six"]
    assert (four["addr"], four["version"], four["OS-EXT-IPS:type"]) == ("10.0.0.9", 4, "fixed")
    assert (six["addr"], six["version"]) == ("fd00::7", 6)
    assert (await front.get(f"/servers/{server_id}/ips"))["addresses"] == {
        "private": [{"version": 4, "addr": "10.0.0.9"}],
        "six": [{"version": 6, "addr": "fd00::7"}],
    }
    assert await front.get(f"/servers/{server_id}/ips/six") == {"six": [{"version": 6, "addr": "fd00::7"}]}
    fault(await front.ask("GET", f"/servers/{server_id}/ips/other"), "itemNotFound", 404)
    for query, found in (("ip=10.0.0", 1), ("ip=^10.0.0.9$", 1), ("ip=fd00", 0), ("ip6=fd00", 1), ("ip6=10", 0)):
        assert len((await front.get(f"/servers?{query}"))["servers"]) == found, query


async def test_a_servers_security_groups_are_those_of_its_ports(front: Front) -> None:
    web = front.world.remains.network.add_security_group(PROJECT, "web")
    a = network(front)
    server_id = await front.boot(networks=[{"uuid": a}], security_groups=[{"name": "web"}])
    [group] = (await front.get(f"/servers/{server_id}/os-security-groups"))["security_groups"]
    assert (group["id"], group["name"]) == (web, "web")
    bare = await front.boot("bare")
    assert (await front.get(f"/servers/{bare}/os-security-groups"))["security_groups"] == []
    assert "security_groups" not in await front.show(bare)


async def test_a_security_group_is_added_to_all_ports_and_taken_off_again(front: Front) -> None:
    web = front.world.remains.network.add_security_group(PROJECT, "web")
    a = network(front)
    server_id, bare = await front.boot(networks=[{"uuid": a}, {"uuid": a}]), await front.boot("bare")

    async def groups() -> list[set[str]]:
        names = await front.world.cloud.network.security_groups(PROJECT)
        ports = await front.world.cloud.network.ports_of([ServerId(server_id)])
        return [{names[group] for group in one.security_groups} for one in ports]

    for _ in range(2):  # again is fine
        assert (await front.act(server_id, {"addSecurityGroup": {"name": "web"}})).status_code == 202
        assert await groups() == [{"default", "web"}] * 2
    assert (await front.show(server_id))["security_groups"] == [{"name": "default"}, {"name": "web"}]
    assert (await front.act(server_id, {"removeSecurityGroup": {"name": "default"}})).status_code == 202
    assert await groups() == [{"web"}] * 2
    assert (await front.show(server_id))["security_groups"] == [{"name": "web"}]
    gone = await front.act(server_id, {"removeSecurityGroup": {"name": "default"}})
    assert "not associated" in fault(gone, "itemNotFound", 404)
    ports = await front.world.cloud.network.ports_of([ServerId(server_id)])
    for one in ports:  # as when it was taken off them, and the record could not be written
        await front.world.cloud.network.set_security_groups(one, ())
    assert (await front.act(server_id, {"removeSecurityGroup": {"name": "web"}})).status_code == 202
    assert "security_groups" not in await front.show(server_id)
    fault(await front.act(server_id, {"addSecurityGroup": {"name": "nothing"}}), "itemNotFound", 404)
    fault(await front.act(server_id, {"addSecurityGroup": {"name": " blank "}}), "itemNotFound", 404)
    fault(await front.act(bare, {"addSecurityGroup": {"name": web}}), "badRequest", 400)
    fault(await front.act(server_id, {"addSecurityGroup": {}}), "badRequest", 400)
    front.world.remains.network.add_security_group(PROJECT, "web")
    fault(await front.act(server_id, {"addSecurityGroup": {"name": "web"}}), "conflictingRequest", 409)


async def test_below_2_75_a_change_shows_addresses_in_short(front: Front) -> None:
    server_id = await front.boot(networks=[{"uuid": network(front)}])
    extended = {"OS-EXT-IPS:type", "OS-EXT-IPS-MAC:mac_addr"}
    for minor, more in ((74, set()), (75, extended)):
        answer = await front.ask("PUT", f"/servers/{server_id}", {"server": {"name": "two"}}, minor=minor)
        [[address]] = answer.json()["server"]["addresses"].values()
        assert set(address) == {"version", "addr"} | more
