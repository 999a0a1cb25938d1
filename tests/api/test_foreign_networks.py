"""Servers in a private network of another project, where an administrator placed them, as Neutron lets them."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.api.devices import network, port
from tests.api.front import OTHER_PROJECT, Front, fault
from tests.api.live_moves import migrate_live
from tests.api.test_evacuations import die
from tests.api.test_interfaces import attach
from tests.api.test_lost_ports import equipped
from tests.api.test_maintenances import URL, plan
from whimbrel.domain.ids import CellName, ServerId
from whimbrel.guest_data.reading import describe
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import IMAGE, PROJECT
from whimbrel.sim.world.equipment import DIRECT_PORT

ROOMY = Rules(cpu_allocation_ratio=16.0)
ADMIN = "admin"


def theirs(front: Front, **fields: Any) -> str:
    return network(front, "theirs", project_id=OTHER_PROJECT, **fields)


async def booted(front: Front, network_id: str) -> str:
    """Return a server of an administrator in this network, on h1."""
    server_id = await front.boot(who=ADMIN, networks=[{"uuid": network_id}], host="h1")
    await is_whole(front, server_id, network_id)
    return server_id


async def is_whole(front: Front, server_id: str, network_id: str) -> None:
    """Check that a server is active with its port, and that users and its guest see it in its network."""
    shown = await front.show(server_id, who=ADMIN)
    assert shown["status"] == "ACTIVE", shown.get("fault")
    assert {label: len(addresses) for label, addresses in shown["addresses"].items()} == {"theirs": 1}
    ports = await front.world.cloud.network.ports_of([ServerId(server_id)])
    assert [(each.network_id, each.host) for each in ports] == [(network_id, shown["OS-EXT-SRV-ATTR:host"])]
    described = await describe(front.world.cloud, await lookup.find(front.world.cloud, ServerId(server_id)))
    assert [each.network.id for each in described.networks if each.network] == [network_id]


async def act(front: Front, server_id: str, action: dict[str, Any], code: int = 202) -> None:
    answer = await front.act(server_id, action, who=ADMIN)
    assert answer.status_code == code, answer.text
    await front.settle()


@pytest.mark.cloud(rules=ROOMY)
async def test_a_server_moves_with_its_port_in_a_network_of_another_project(front: Front) -> None:
    there = theirs(front)
    server_id = await booted(front, there)
    await act(front, server_id, {"resize": {"flavorRef": "2"}})
    await act(front, server_id, {"confirmResize": None}, 204)
    await is_whole(front, server_id, there)
    assert (await migrate_live(front, server_id)).status_code == 202
    await front.settle()
    await is_whole(front, server_id, there)
    await act(front, server_id, {"shelve": None})
    await act(front, server_id, {"unshelve": None})
    await is_whole(front, server_id, there)
    await die(front, (await front.show(server_id, who=ADMIN))["OS-EXT-SRV-ATTR:host"])
    assert (await front.act(server_id, {"evacuate": {}}, who=ADMIN, minor=68)).status_code == 200
    await front.settle()
    await is_whole(front, server_id, there)


async def test_an_administrator_attaches_an_interface_in_such_a_network(front: Front) -> None:
    there = theirs(front)
    server_id = await front.boot()
    path, body = f"/servers/{server_id}/os-interface", {"interfaceAttachment": {"net_id": there}}
    fault(await front.ask("POST", path, body), "itemNotFound", 404)
    answer = await front.ask("POST", path, body, who=ADMIN)
    assert answer.status_code == 200, answer.text
    await front.settle()
    shown = await front.show(server_id)
    assert list(shown["addresses"]) == ["theirs"]
    assert (await front.act(server_id, {"addFixedIp": {"networkId": there}}, minor=43)).status_code == 202
    assert len((await front.show(server_id))["addresses"]["theirs"]) == 2
    assert (await front.ask("DELETE", f"{path}/{answer.json()['interfaceAttachment']['port_id']}")).status_code == 202
    await front.settle()
    assert (await front.show(server_id))["addresses"] == {}
    assert await front.world.cloud.network.ports_of([ServerId(server_id)]) == []


async def test_a_port_of_ones_own_in_such_a_network_has_its_name(front: Front) -> None:
    """An administrator creates a port for a project in any network: the server that uses it is in that network."""
    mine = port(front, theirs(front))
    server_id = await front.boot()
    await attach(front, server_id, port_id=mine.id)
    await front.settle()
    assert list((await front.show(server_id))["addresses"]) == ["theirs"]


async def test_a_port_and_its_server_are_of_one_project_also_for_an_administrator(front: Front) -> None:
    """As in Nova: 400 for an administrator, who sees the port, and 404 for others."""
    there = theirs(front)
    foreign, mine = port(front, there, project_id=OTHER_PROJECT), port(front, there)
    server_id = await front.boot()
    path, body = f"/servers/{server_id}/os-interface", {"interfaceAttachment": {"port_id": foreign.id}}
    sentence = f"Port {foreign.id} not usable for instance"
    assert sentence in fault(await front.ask("POST", path, body, who=ADMIN), "badRequest", 400)
    fault(await front.ask("POST", path, body), "itemNotFound", 404)
    requested = {"name": "one", "flavorRef": "1", "imageRef": IMAGE, "networks": [{"port": foreign.id}]}
    refused = await front.ask("POST", "/servers", {"server": requested}, who=ADMIN)
    assert sentence in fault(refused, "badRequest", 400)
    body = {"interfaceAttachment": {"port_id": mine.id}}
    assert (await front.ask("POST", path, body, who=f"{ADMIN}@{OTHER_PROJECT}")).status_code == 200


async def test_others_name_no_private_network_of_another_project(front: Front) -> None:
    there = theirs(front)
    requested = {"name": "one", "flavorRef": "1", "imageRef": IMAGE, "networks": [{"uuid": there}]}
    for who in ("member", "manager"):
        answer = await front.ask("POST", "/servers", {"server": requested}, who=who)
        assert "could not be found" in fault(answer, "badRequest", 400)


async def test_old_clients_list_for_an_administrator_the_networks_of_all(front: Front) -> None:
    there = theirs(front)
    for path in ("/os-networks", "/os-tenant-networks"):
        assert [each["id"] for each in (await front.get(path, who=ADMIN, minor=35))["networks"]] == [there]
        assert (await front.get(f"{path}/{there}", who=ADMIN, minor=35))["network"]["label"] == "theirs"
        assert (await front.get(path, minor=35))["networks"] == []
        fault(await front.ask("GET", f"{path}/{there}", minor=35), "itemNotFound", 404)


async def test_a_virtual_function_is_on_the_physical_network_of_such_a_network(front: Front) -> None:
    await equipped(front.world)
    [known] = await front.world.cloud.network.networks(PROJECT)
    front.world.remains.network.add_network(replace(known, project_id=OTHER_PROJECT), "10.0.0.0/24")
    server_id = await front.boot(networks=[{"port": DIRECT_PORT}])
    await act(front, server_id, {"resize": {"flavorRef": "2"}})
    [run] = await front.world.cloud.journal.find(RunFilter(subject=server_id, sagas=["resize"]))
    assert [each.physnet for each in run.facts.ports] == ["physnet0"]


async def test_a_snapshot_of_a_maintenance_has_such_a_network(front: Front) -> None:
    there = theirs(front)
    await booted(front, there)
    maintenance = await plan(front, hosts=["h1"])
    snapshot = (await front.get(f"{URL}/{maintenance['id']}/snapshot", who=ADMIN))["snapshot"]
    assert [each["id"] for each in snapshot["networks"]] == [there]


@pytest.mark.cloud(cells={"c1": ("h1",), "c2": ("h2",)})
async def test_a_cell_that_does_not_reach_such_a_network_is_no_target(front: Front) -> None:
    for cell, reached in (("c1", None), ("c2", frozenset({"physnet7"}))):
        await front.world.cloud.cell_infos.ensure(CellInfo(name=CellName(cell), physnets=reached))
    there = theirs(front, physnets=("physnet0",))
    server_id = await front.boot(who=ADMIN, networks=[{"uuid": there}], host="h2")
    shown = await front.show(server_id, who=ADMIN)
    assert shown["status"] == "ERROR"
    assert "network theirs" in shown["fault"]["message"]
