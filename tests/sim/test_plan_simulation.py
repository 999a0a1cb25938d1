"""A maintenance is simulated on a copy of the cloud: what it predicts is what happens, and the cloud is only read."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.booting import boot_server
from tests.stories.maintaining import boot, items_of, planned, rounds
from whimbrel.domain.errors import Conflict
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import GroupId, HostName
from whimbrel.domain.maintenance_plan import Budgets, Maintenance, MaintenanceOptions
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.domain.time_windows import Windows
from whimbrel.maintenance import cloud_snapshot, operator_requests
from whimbrel.maintenance.cloud_snapshot import MIB, CloudSnapshot
from whimbrel.moves import live_requests
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.servers.lifecycle import power
from whimbrel.sim.cloud.cloud import LARGE, PROJECT, SMALL, USER, World
from whimbrel.sim.maintenances.copied_cloud import Assumed
from whimbrel.sim.maintenances.network_links import Flow, Links
from whimbrel.sim.maintenances.plan_simulation import Simulation, simulate
from whimbrel.sim.world.equipment import GPU, GPUS, with_devices
from whimbrel.sim.world.loop import new_loop
from whimbrel.sim.world.phases import Times

RULES = Rules(cpu_allocation_ratio=1.0, pci_alias=(GPU,))
ASSUMED = Assumed(link_mib_s=100.0, dirty_mib_s=0.0, start_s=5.0, stop_s=10.0)
WITH_GPU = Flavor(
    flavor_id="9", name="gpu", vcpus=1, memory_mib=512, root_gib=1, extra_specs={"pci_passthrough:alias": "gpu:1"}
)
GROUP = GroupId("99999999-9999-4999-8999-999999999999")


async def simulated(world: World, found: Maintenance, assumed: Assumed = ASSUMED) -> Simulation:
    return await asyncio.to_thread(simulate, await taken(world, found), assumed)


async def taken(world: World, found: Maintenance) -> CloudSnapshot:
    """Take a snapshot, as it arrives where it is simulated."""
    document = msgspec.json.encode(await cloud_snapshot.take(world.cloud, found.id))
    return msgspec.json.decode(document, type=CloudSnapshot)


async def start(world: World, server: Server, host: str) -> Server:
    engine = world.engine("setup")
    return await boot_server(world, engine, server, host)


async def busy_cloud() -> World:
    """Return a cloud with a host that has servers of all kinds: some move live, some cold, some have no place."""
    world = await World.build(hosts=("h1", "h2", "h3"), rules=RULES, equipped=True, vcpus=6)
    group = ServerGroup(
        id=GROUP, name="apart", project_id=PROJECT, user_id=USER, policy="anti-affinity", created_at=0.0
    )
    await world.cloud.server_groups.create(group, -1)
    for host in ("h1", "h2"):
        await world.cloud.cell(next(iter(world.cloud.cells))).devices.register(HostName(host), GPUS[:1])
    await start(world, with_devices(world.new_server("devices", LARGE)), "h1")
    stopped = await boot(world, "stopped", "h1")
    await power.stop(world.cloud, world.engine("setup"), world.requester(), stopped)
    await world.settle(world.engine("setup"))
    await start(world, world.new_server("gpu", WITH_GPU), "h1")
    for name, host in (("apart1", "h1"), ("apart2", "h2"), ("apart3", "h3")):
        await start(world, replace(world.new_server(name), spec=RequestSpec(hints={"group": GROUP})), host)
    await boot(world, "other2", "h2", LARGE)
    await boot(world, "other3", "h3", LARGE)
    return world


@pytest.mark.parametrize("downtime", [False, True], ids=["live only", "with downtime"])
async def test_what_is_simulated_is_what_happens(downtime: bool) -> None:
    world = await busy_cloud()
    options = MaintenanceOptions(allow_downtime=downtime, budgets=Budgets(at_once=2))
    found = await planned(world, options)
    told = await simulated(world, found)
    await operator_requests.start(world.cloud, found.id)
    ended = await rounds(world, found)
    items = await items_of(world, found)
    assert (told.state, told.message) == (ended.state, ended.message)
    assert {one.name: (one.state, one.kind, one.target, one.reason) for one in told.servers} == {
        item.server_name: (item.state, item.kind, item.target, item.reason) for item in items
    }
    states = {one.name: one.state for one in told.servers}
    assert states["apart1"] == "stays", "each other host has a server of its group"
    assert states["gpu"] == ("moved" if downtime else "stays"), "a device is passed through to it"
    assert states["devices"] == states["stopped"] == "moved"
    began = sorted((item for item in items if item.started_at), key=lambda item: (item.started_at, item.position))
    assert [one.name for one in told.servers if one.turn] == [item.server_name for item in began]
    await world.close()


async def test_a_simulation_waits_for_a_window() -> None:
    world = await busy_cloud()
    now = world.cloud.clock.now()
    minute = int(now // 60 + 5 * 60) % (24 * 60)
    clock = f"{minute // 60:02}:{minute % 60:02}"
    found = await planned(world, MaintenanceOptions(windows=Windows(texts=(f"{clock}-24:00",))))
    told = await simulated(world, found)
    assert told.state == "done"
    assert 5 * 3600 - 60 <= told.duration_s < 6 * 3600
    await world.close()


async def test_a_simulation_changes_nothing() -> None:
    world = await busy_cloud()
    found = await planned(world)
    before = contents(world)
    runs = await world.cloud.journal.find(RunFilter())
    told = await simulated(world, found)
    assert Counter(one.state for one in told.servers)["moved"]
    assert contents(world) == before
    assert await world.cloud.journal.find(RunFilter()) == runs
    assert (await world.cloud.maintenances.get(found.id)).state == "planned"
    await world.close()


def contents(world: World) -> Mapping[str, Any]:
    """Return all that a cloud stores: the rows of its databases, its hosts, networks and volumes."""
    rows = {name: sorted(database._write_driver.iterdump()) for name, database in world.remains.databases.items()}
    network, volumes = world.remains.network, world.remains.volumes
    return rows | {
        "hosts": world.remains.store._spaces,
        "ports": network.everything(),
        "attachments": volumes.everything(),
    }


async def test_the_servers_of_a_lost_host_are_counted_as_they_fit() -> None:
    """All servers have one processor, and all hosts four: what fits is a sum. Three servers of h1 fill others."""
    hosts = [f"h{number}" for number in range(1, 7)]
    world = await World.build(hosts=hosts, rules=RULES)
    await world.cloud.quotas.set_limits(PROJECT, {"instances": -1, "cores": -1, "ram": -1})
    for number in range(3):
        await boot(world, f"leaving{number}", "h1")
    for host, servers in {"h2": 4, "h3": 3, "h4": 3, "h5": 3, "h6": 1}.items():
        for number in range(servers):
            await boot(world, f"{host}-{number}", host)
    told = await simulated(world, await planned(world))
    assert all(one.state == "moved" for one in told.servers)
    on = Counter({"h2": 4, "h3": 3, "h4": 3, "h5": 3, "h6": 1}) + Counter(one.target for one in told.servers)
    free = {host: 4 - on[host] for host in hosts[1:]}
    expected = {host: max(0, on[host] - (sum(free.values()) - free[host])) for host in free}
    assert sum(expected.values()) > 0
    assert {loss.host: (loss.servers, len(loss.without_place)) for loss in told.losses} == {
        host: (on[host], lacking) for host, lacking in expected.items()
    }
    worst = told.losses[0]
    assert len(worst.without_place) == max(expected.values())
    assert all("it is the host that is lost" in left.reason for left in worst.without_place)
    names = {left.name for left in worst.without_place}
    assert all(name.startswith((f"{worst.host}-", "leaving")) for name in names)
    await world.close()


async def test_durations_and_bytes_follow_from_the_links() -> None:
    """A cold move of a disk of 1 GiB, and a live one of that with 512 MiB of memory, one after the other."""
    world = await World.build(hosts=("h1", "h2"), rules=RULES)
    await boot(world, "running", "h1")
    stopped = await boot(world, "stopped", "h1")
    await power.stop(world.cloud, world.engine("setup"), world.requester(), stopped)
    await world.settle(world.engine("setup"))
    told = await simulated(world, await planned(world, MaintenanceOptions(budgets=Budgets(at_once=1))))
    live, cold = sorted(told.servers, key=lambda one: one.name)
    assert (live.copied_bytes, cold.copied_bytes) == (1536 * MIB, 1024 * MIB)
    assert live.takes_s == pytest.approx(15.36, abs=1.0)
    assert cold.takes_s == pytest.approx(10.24, abs=2.0), "it does not stop or start, and is confirmed by a round"
    assert told.duration_s == pytest.approx(live.takes_s + cold.takes_s, abs=3.0)
    [sent, received] = told.links
    assert (sent.host, sent.sent_bytes, sent.received_bytes) == ("h1", 2560 * MIB, 0)
    assert (received.host, received.received_bytes) == ("h2", 2560 * MIB)
    assert sent.sent_peak_mib_s == received.received_peak_mib_s == 100.0
    await world.close()


async def test_a_cell_is_emptied_into_another_one() -> None:
    """A disk goes there by the image service, a running guest directly."""
    world = await World.build(cells={"c1": ("h1",), "c2": ("h2",)}, rules=RULES)
    for cell in world.cloud.cells:
        await world.cloud.cell_infos.ensure(CellInfo(name=cell, migration_network="m", created_at=0.0))
    await boot(world, "running", "h1")
    stopped = await boot(world, "stopped", "h1")
    await power.stop(world.cloud, world.engine("setup"), world.requester(), stopped)
    await world.settle(world.engine("setup"))
    found = await planned(world, MaintenanceOptions(leaves_cell=True))
    told = await simulated(world, found)
    assert {one.name: (one.kind, one.state, one.target) for one in told.servers} == {
        "running": ("live", "moved", "h2"),
        "stopped": ("cold", "moved", "h2"),
    }
    assert [(one.host, one.sent_bytes, one.received_bytes) for one in told.links] == [
        ("h1", 2560 * MIB, 0),
        ("h2", 0, 2560 * MIB),
    ]
    assert [(one.source_cell, one.target_cell, one.copied_bytes) for one in told.cell_links] == [
        ("c1", "c2", 1536 * MIB)
    ]
    assert [(loss.host, len(loss.without_place)) for loss in told.losses] == [("h2", 2)], "h1 is in maintenance"
    await world.close()


async def test_a_running_server_is_off_while_it_moves_cold() -> None:
    world = await World.build(hosts=("h1", "h2"), rules=RULES)
    for host in ("h1", "h2"):
        await world.cloud.cell(next(iter(world.cloud.cells))).devices.register(HostName(host), GPUS[:1])
    await start(world, world.new_server("gpu", WITH_GPU), "h1")
    [told] = (await simulated(world, await planned(world, MaintenanceOptions(allow_downtime=True)))).servers
    assert (told.kind, told.state) == ("cold", "moved")
    assert told.down_s == pytest.approx(10.0 + 10.24 + 5.0, abs=0.1)
    await world.close()


async def test_a_server_whose_device_can_move_live_does() -> None:
    world = await World.build(hosts=("h1", "h2"), rules=RULES)
    device = replace(GPUS[0], live_migratable=True)
    for host in ("h1", "h2"):
        await world.cloud.cell(next(iter(world.cloud.cells))).devices.register(HostName(host), [device])
    await start(world, world.new_server("gpu", WITH_GPU), "h1")
    [told] = (await simulated(world, await planned(world))).servers
    assert (told.kind, told.state, told.reason) == ("live", "moved", None)
    await world.close()


async def test_guests_that_write_fast_take_longer() -> None:
    world = await World.build(hosts=("h1", "h2"), rules=RULES)
    await boot(world, "busy", "h1")
    found = await planned(world)
    calm, busy = [await simulated(world, found, replace(ASSUMED, dirty_mib_s=dirty)) for dirty in (0.0, 50.0)]
    assert busy.duration_s > calm.duration_s
    assert busy.servers[0].copied_bytes > calm.servers[0].copied_bytes
    await world.close()


async def test_rates_are_measured_by_the_latest_live_migrations() -> None:
    world = await World.build(hosts=("h1", "h2", "h3"), rules=RULES, times=Times(live_mib_s=80.0))
    await boot(world, "stays", "h1")
    mover = await boot(world, "mover", "h2")
    found = await planned(world)
    assert (await taken(world, found)).measured is None
    world.simulated.dirty_rates[mover.id] = 8 * MIB
    engine = world.engine("api")
    await live_requests.migrate_live(world.cloud, engine, world.requester(), mover, HostName("h3"))
    await world.settle(engine)
    measured = (await taken(world, found)).measured
    assert measured
    assert measured.transfers == 1
    assert measured.link_mib_s == pytest.approx(75.0, abs=8.0), "some is copied twice, and the end is seen by a poll"
    assert measured.dirty_mib_s <= 8.0
    await world.close()


async def test_the_rest_of_a_maintenance_is_simulated_and_none_that_is_over() -> None:
    world = await World.build(rules=RULES)
    for number in range(3):
        await boot(world, f"s{number}", "h1")
    found = await planned(world, MaintenanceOptions(budgets=Budgets(at_once=1)))
    await operator_requests.start(world.cloud, found.id)
    assert [one.state for one in (await simulated(world, found)).servers] == ["moved"] * 3
    await operator_requests.abort(world.cloud, found.id)
    assert (await rounds(world, found)).state == "aborted"
    with pytest.raises(Conflict, match="nothing to simulate"):
        await cloud_snapshot.take(world.cloud, found.id)
    await world.close()


async def test_a_full_target_is_planned_anew_or_pauses_as_asked() -> None:
    """After the plan a server takes the room that it counted on."""
    for on_drift, ends in (("replan", "done"), ("pause", "paused")):
        world = await World.build(hosts=("h1", "h2", "h3"), rules=RULES)
        await boot(world, "s", "h1", LARGE)
        found = await planned(world, MaintenanceOptions(on_drift=on_drift))  # type: ignore[arg-type]
        [item] = await items_of(world, found)
        assert item.target
        for number in range(2):
            await boot(world, f"other{number}", item.target, replace(SMALL, flavor_id="7", name="w", vcpus=2))
        told = await simulated(world, found)
        assert told.state == ends
        assert (told.servers[0].target != item.target) == (ends == "done")
        if ends == "paused":
            assert "cannot move as planned" in (told.message or "")
        await world.close()


def test_transfers_share_their_links() -> None:
    h1, h2, h3 = map(HostName, ("h1", "h2", "h3"))
    cells: Any = {"h1": "c1", "h2": "c1", "h3": "c2"}
    ends: dict[str, float] = {}

    async def carry(links: Links, name: str, flow: Flow) -> None:
        await links.carry(name, flow)
        ends[name] = asyncio.get_running_loop().time()

    async def all_of_them() -> Links:
        links = Links(100.0, cells)
        flows = {"a": Flow(h1, h2, 500.0), "b": Flow(h1, h3, 1000.0), "c": Flow(h2, h1, 300.0)}
        await asyncio.gather(*(carry(links, name, flow) for name, flow in flows.items()))
        return links

    loop = new_loop("links")
    links: Links = loop.run_until_complete(all_of_them())
    loop.close()
    assert {name: round(at, 3) for name, at in ends.items()} == {"a": 10.0, "b": 15.0, "c": 3.0}
    copied = {end: round(one.copied) for end, one in links.traffic.items()}
    assert copied == {("from", h1): 1500, ("to", h2): 500, ("to", h3): 1000, ("from", h2): 300, ("to", h1): 300}
    assert links.traffic["from", h1].peak == 100.0
    assert {cells: round(one.copied) for cells, one in links.between.items()} == {("c1", "c2"): 1000}
