"""What servers hold for their ports is compared with what the ports ask for, and healed: by operators."""

from typing import Any

from tests import broken_ports
from tests.api import devices
from tests.api.front import Front, fault
from tests.broken_ports import BANDWIDTH
from whimbrel.domain.ids import HostName, ProviderId, ServerId
from whimbrel.domain.pci import PciDevice
from whimbrel.ports.services.network import Port, PortRequest
from whimbrel.sim.cloud.cloud import CELL
from whimbrel.sim.world import equipment

URL = "/whimbrel/port-healings"
NOWHERE = "99999999-9999-4999-8999-999999999999"


async def a_server(front: Front, name: str = "web", host: str = "h1") -> tuple[ServerId, Port, ProviderId]:
    """Create a server with a port that asks for bandwidth: the server, its port, and the card of its host."""
    world = front.world
    card = ProviderId(world.cloud.ids.uuid())
    root = (await world.cloud.cell(CELL).hosts.get(HostName(host))).id
    await equipment.add_host_nic(world.placement, HostName(host), root, card)
    network = devices.network(front, name)
    request = PortRequest(
        id=world.cloud.ids.uuid(), resources=BANDWIDTH, required=(equipment.PHYSNET, equipment.NORMAL)
    )
    port = devices.port(front, network, [request])
    server = ServerId(await front.boot(name, networks=[{"port": port.id}], host=host, who="admin"))
    assert (await front.show(server, who="admin"))["status"] == "ACTIVE"
    return server, port, card


async def drop(front: Front, server: ServerId, card: ProviderId) -> None:
    """Make a server hold nothing for its port any more."""
    left = await broken_ports.held(front.world, server)
    del left[card]
    await broken_ports.hold(front.world, server, left)


async def found(front: Front, query: str = "") -> Any:
    return (await front.get(f"{URL}{query}", who="admin"))["port_healings"]


async def heal(front: Front, server: str, who: str = "admin") -> Any:
    return await front.ask("POST", URL, {"healing": {"server_id": server}}, who=who)


async def test_where_all_is_right_nothing_is_found_and_nothing_can_be_healed(front: Front) -> None:
    assert await found(front) == []
    server, _, _ = await a_server(front)
    bare = await front.boot("bare")
    assert await found(front) == []
    assert await found(front, f"?server_id={server}") == []
    for one in (server, bare):
        assert "Nothing is wrong" in fault(await heal(front, one), "badRequest", 400)


async def test_what_was_dropped_is_found_and_healed(front: Front) -> None:
    server, port, card = await a_server(front)
    other, _, _ = await a_server(front, "other", "h2")
    before = await broken_ports.held(front.world, server)
    await drop(front, server, card)
    [root] = await broken_ports.held(front.world, server)
    own = {"provider": root, "provider_name": "h1", "resources": before[root]}
    bandwidth = {"provider": card, "provider_name": equipment.host_nic_of(HostName("h1")), "resources": BANDWIDTH}
    lacks = f"1000 {equipment.EGRESS}, 1000 {equipment.INGRESS} is not claimed where it could be served"
    [one] = await found(front)
    assert one["due"] == sorted([own, bandwidth], key=lambda each: each["provider"])
    assert one | {"due": None} == {
        "server_id": server,
        "server_name": "web",
        "host": "h1",
        "problems": [{"port_id": port.id, "problem": lacks}],
        "obstacle": None,
        "held": [own],
        "due": None,
        "profiles": [],
    }
    assert await found(front, f"?server_id={server}") == [one]
    assert await found(front, f"?server_id={other}") == []
    answer = await heal(front, server)
    assert answer.status_code == 202, answer.text
    healing = answer.json()["healing"]
    assert healing == one | {"move_id": healing["move_id"]}
    await front.settle()
    assert await found(front) == []
    assert await broken_ports.held(front.world, server) == before
    move = (await front.get(f"/whimbrel/moves/{healing['move_id']}", who="admin"))["move"]
    assert (move["saga"], move["state"], move["server_id"]) == ("heal_ports", "done", server)
    [action, *_] = (await front.get(f"/servers/{server}/os-instance-actions", who="admin"))["instanceActions"]
    assert action["action"] == "heal_ports"
    assert (await front.show(server, who="admin"))["status"] == "ACTIVE"


async def test_what_the_profile_says_is_shown_before_and_after(front: Front) -> None:
    server, port, card = await a_server(front)
    right = (await front.world.remains.network.port(port.id)).profile["allocation"]
    wrong = dict.fromkeys(right, NOWHERE)
    await broken_ports.say(front.world, port.id, wrong)
    [one] = await found(front)
    assert one["profiles"] == [{"port_id": port.id, "allocation": wrong, "due": right}]
    assert one["held"] == one["due"]
    assert NOWHERE in one["problems"][0]["problem"]
    assert (await heal(front, server)).status_code == 202
    await front.settle()
    assert (await front.world.remains.network.port(port.id)).profile["allocation"] == dict.fromkeys(right, card)


async def test_what_cannot_be_healed_says_why(front: Front) -> None:
    server, port, card = await a_server(front)
    await drop(front, server, card)
    await broken_ports.say(front.world, port.id, None)
    somebody = ServerId(front.world.cloud.ids.uuid())
    await broken_ports.hold(front.world, somebody, {card: {name: 4 * amount for name, amount in BANDWIDTH.items()}})
    [one] = await found(front)
    assert one["obstacle"].startswith(f"host h1 has no room for 1000 {equipment.EGRESS}")
    assert one["held"] == one["due"]
    assert one["profiles"] == []
    assert "no room" in fault(await heal(front, server), "conflictingRequest", 409)


async def test_a_port_with_a_virtual_function_is_healed_on_the_card_that_it_is_of(front: Front) -> None:
    world, host = front.world, HostName("h1")
    root = (await world.cloud.cell(CELL).hosts.get(host)).id
    cards = {name: ProviderId(world.cloud.ids.uuid()) for name in ("eth0", "eth1")}
    for name, card in cards.items():
        await equipment.add_host_nic(world.placement, host, root, card)
        await world.placement.rename_provider(card, f"h1:NIC Switch agent:{name}")
    functions = [
        PciDevice(
            address=f"0000:8{n}:00.1", vendor_id="8086", product_id="154c", physnet="physnet0", parent_ifname=name
        )
        for n, name in enumerate(cards)
    ]
    await world.cloud.cell(CELL).devices.register(host, functions)
    network = devices.network(front, physnets=("physnet0",))
    request = PortRequest(id=world.cloud.ids.uuid(), resources=BANDWIDTH, required=(equipment.PHYSNET,))
    port = devices.port(front, network, [request], vnic_type="direct")
    server = ServerId(await front.boot(networks=[{"port": port.id}], host=host, who="admin"))
    before = await broken_ports.held(world, server)
    [right] = [card for card in cards.values() if card in before]
    [wrong] = [card for card in cards.values() if card not in before]
    await broken_ports.hold(world, server, {root: before[root], wrong: before[right]})
    await broken_ports.say(world, port.id, {request.id: wrong})
    said = (await world.remains.network.port(port.id)).profile
    assert (await heal(front, server)).status_code == 202
    await front.settle()
    assert await found(front) == []
    assert await broken_ports.held(world, server) == before
    assert (await world.remains.network.port(port.id)).profile == said | {"allocation": {request.id: right}}


async def test_a_busy_server_is_left_alone(front: Front) -> None:
    server, _, card = await a_server(front)
    assert (await front.act(server, {"os-stop": None}, who="admin")).status_code == 202
    await drop(front, server, card)
    assert await found(front) == []
    assert "busy" in fault(await heal(front, server), "conflictingRequest", 409)
    await front.settle()
    [one] = await found(front)
    assert one["server_id"] == server
    assert (await heal(front, server)).status_code == 202
    await front.settle()
    assert await found(front) == []
    assert (await front.show(server, who="admin"))["status"] == "SHUTOFF"


async def test_a_server_that_waits_for_a_verdict_is_left_alone(front: Front) -> None:
    server = await front.boot("one")
    await front.act(server, {"resize": {"flavorRef": "2"}})
    await front.settle()
    assert await found(front) == []
    fault(await heal(front, server), "conflictingRequest", 409)


async def test_who_is_no_administrator_may_not(front: Front) -> None:
    server = await front.boot("one")
    for who in ("reader", "member", "manager"):
        fault(await front.ask("GET", URL, who=who), "forbidden", 403)
        fault(await heal(front, server, who), "forbidden", 403)


async def test_what_is_not_there_is_not_found_and_nonsense_is_refused(front: Front) -> None:
    fault(await front.ask("GET", f"{URL}?server_id={NOWHERE}", who="admin"), "itemNotFound", 404)
    fault(await heal(front, NOWHERE), "itemNotFound", 404)
    fault(await heal(front, "x"), "badRequest", 400)
    fault(await front.ask("POST", URL, {"healing": {}}, who="admin"), "badRequest", 400)
    fault(await front.ask("GET", f"{URL}?server_id=x", who="admin"), "badRequest", 400)
    fault(await front.ask("GET", f"{URL}?host=h1", who="admin"), "badRequest", 400)
