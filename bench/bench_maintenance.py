"""The plan and the simulation of a maintenance that empties 50 hosts with 1,000 servers: seconds, and the processor
time of each server.

The cloud is the simulated one, in this process on SQLite in memory, with as many other hosts, which are targets. The
first plan is made without anything in memory, the second one as a conductor makes it that works for a while. This one
is simulated, the loss of each of the other hosts included. Another plan is made of such a cloud whose other hosts are
nearly full with servers of three sizes, so that room is looked for by moves of these. Last, ten times as many servers
of three sizes, unevenly spread over ten times as many hosts, are balanced.
"""

import asyncio
import sys
import time
from random import Random

import msgspec
from figures import report

from whimbrel.cli import log_setup
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import HostName
from whimbrel.domain.maintenance_goal import Goal
from whimbrel.domain.maintenance_plan import MaintenanceOptions
from whimbrel.maintenance import cloud_snapshot, operator_requests
from whimbrel.ports.cloud import Rules
from whimbrel.servers.lifecycle import create
from whimbrel.sim.cloud.cloud import PROJECT, World
from whimbrel.sim.maintenances.copied_cloud import Assumed
from whimbrel.sim.maintenances.plan_simulation import simulate

SERVERS = int(sys.argv[1]) if sys.argv[1:] else 1000
HOSTS = 50
GOAL_S = 2.0
SIMULATION_GOAL_S = 20.0
SPREAD = 10


async def main() -> None:
    hosts = [f"h{number}" for number in range(2 * HOSTS)]
    world = await World.build(hosts, vcpus=64, memory_mib=262_144, disk_gib=10_000)
    await world.cloud.quotas.set_limits(PROJECT, {"instances": -1, "cores": -1, "ram": -1})
    full, engine = hosts[:HOSTS], world.engine("setup")
    for number in range(SERVERS):
        server = world.new_server(f"s{number}")
        await create.accept(world.cloud, engine, world.requester(), [server], HostName(full[number % HOSTS]))
    await world.settle(engine)
    for attempt in ("first", "second"):
        leaving = await operator_requests.hosts_named(world.cloud, full)
        before, began = time.process_time(), time.monotonic()
        made = await operator_requests.plan(
            world.cloud, world.requester(), "bench", f"{HOSTS} hosts", leaving, MaintenanceOptions()
        )
        took, used = time.monotonic() - began, time.process_time() - before
        items = await world.cloud.maintenances.items(made.id)
        assert sum(item.state == "planned" for item in items) == SERVERS
        name = f"plan of {SERVERS} servers on {HOSTS} hosts, {attempt}"
        report(name, processor_ms=used / SERVERS * 1000, seconds=took, goal_s=GOAL_S)
    before, began = time.process_time(), time.monotonic()
    snapshot = msgspec.json.encode(await cloud_snapshot.take(world.cloud, made.id))
    read = msgspec.json.decode(snapshot, type=cloud_snapshot.CloudSnapshot)
    found = await asyncio.to_thread(
        simulate, read, Assumed(link_mib_s=1000.0, dirty_mib_s=50.0, start_s=5.0, stop_s=10.0)
    )
    took, used = time.monotonic() - began, time.process_time() - before
    assert sum(server.state == "moved" for server in found.servers) == SERVERS
    name = f"simulation of {SERVERS} servers on {HOSTS} hosts, {found.duration_s:.0f} s"
    report(name, processor_ms=used / SERVERS * 1000, seconds=took, goal_s=SIMULATION_GOAL_S)
    await world.close()
    await nearly_full()
    await uneven()


async def nearly_full() -> None:
    hosts = [f"h{number}" for number in range(2 * HOSTS)]
    rules = Rules(cpu_allocation_ratio=1.0)
    world = await World.build(hosts, rules=rules, vcpus=60, memory_mib=262_144, disk_gib=10_000)
    await world.cloud.quotas.set_limits(PROJECT, {"instances": -1, "cores": -1, "ram": -1})
    engine = world.engine("setup")
    sizes = [Flavor(flavor_id=f"9{n}", name=f"of{n}", vcpus=n, memory_mib=512 * n, root_gib=1) for n in (1, 2, 3)]
    for number in range(SERVERS):
        server = world.new_server(f"s{number}", sizes[number % 3])
        await create.accept(world.cloud, engine, world.requester(), [server], HostName(hosts[number % HOSTS]))
    for number in range(28 * HOSTS):
        server = world.new_server(f"t{number}", sizes[(7 * number + number // HOSTS) % 3])
        await create.accept(world.cloud, engine, world.requester(), [server], HostName(hosts[HOSTS + number % HOSTS]))
    await world.settle(engine)
    leaving = await operator_requests.hosts_named(world.cloud, hosts[:HOSTS])
    before, began = time.process_time(), time.monotonic()
    made = await operator_requests.plan(
        world.cloud, world.requester(), "bench", f"{HOSTS} hosts", leaving, MaintenanceOptions()
    )
    took, used = time.monotonic() - began, time.process_time() - before
    items = await world.cloud.maintenances.items(made.id)
    makes_room = sum("makes room" in (item.purpose or "") for item in items)
    name = f"plan of {SERVERS} servers on {HOSTS} hosts, the others nearly full: {makes_room} make room"
    report(name, processor_ms=used / SERVERS * 1000, seconds=took, goal_s=GOAL_S)
    await world.close()


async def uneven() -> None:
    hosts = [f"h{number}" for number in range(10 * HOSTS)]
    rules = Rules(cpu_allocation_ratio=1.0)
    world = await World.build(hosts, rules=rules, vcpus=128, memory_mib=262_144, disk_gib=10_000)
    await world.cloud.quotas.set_limits(PROJECT, {"instances": -1, "cores": -1, "ram": -1})
    engine, rng = world.engine("setup"), Random(1)
    sizes = [Flavor(flavor_id=f"9{n}", name=f"of{n}", vcpus=n, memory_mib=2048 * n, root_gib=n) for n in (1, 2, 4)]
    weights = [rng.random() for _ in hosts]
    for number in range(10 * SERVERS):
        server, host = world.new_server(f"s{number}", rng.choice(sizes)), rng.choices(hosts, weights)[0]
        await create.accept(world.cloud, engine, world.requester(), [server], HostName(host))
    await world.settle(engine)
    named = await operator_requests.hosts_named(world.cloud, hosts)
    options = MaintenanceOptions(goal=Goal(kind="balance", spread=SPREAD))
    before, began = time.process_time(), time.monotonic()
    made = await operator_requests.plan(world.cloud, world.requester(), "bench", "hosts", named, options)
    took, used = time.monotonic() - began, time.process_time() - before
    moves = await world.cloud.maintenances.items(made.id)
    assert made.options.goal
    assert made.options.goal.is_reached
    name = f"balance of {10 * SERVERS} servers on {10 * HOSTS} hosts: {len(moves)} moves"
    report(name, processor_ms=used / len(moves) * 1000, seconds=took)
    await world.close()


if __name__ == "__main__":
    log_setup.configure(verbose=False)  # as the commands do
    asyncio.run(main())
