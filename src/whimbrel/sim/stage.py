"""What a simulated run begins with: a cloud with servers, made once for each size and copied for each run."""

from dataclasses import replace

from msgspec.structs import replace as with_

from whimbrel.domain.devices import WishedNic, WishedVolume
from whimbrel.domain.ids import HostName
from whimbrel.domain.scheduler import SchedulerRules
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Rules
from whimbrel.ports.network import Port, PortRequest
from whimbrel.ports.volumes import Volume
from whimbrel.servers import create
from whimbrel.sim.decisions import Size
from whimbrel.sim.equipment import EGRESS, INGRESS, KBPS, NETWORK, NORMAL, PHYSNET
from whimbrel.sim.hypervisor import Times
from whimbrel.sim.loop import LoopClock, SimulatedLoop
from whimbrel.sim.network import SimulatedNetwork
from whimbrel.sim.world import LARGE, PROJECT, SMALL, World

PORTS = [f"66666666-6666-4666-8666-6666666666{n:02}" for n in range(70, 76)]
"""Ports that are there; every other one asks for bandwidth."""

VOLUMES = [f"77777777-7777-4777-8777-7777777777{n:02}" for n in range(10, 16)]

TIMES = Times(reserve_s=0.1, build_disk_s=4.0, copy_disk_s=6.0, snapshot_s=2.0, start_s=0.5, stop_s=1.0)

_STAGES: dict[tuple[int, int, int], tuple[World, list[str]]] = {}


async def stage(size: Size) -> tuple[World, list[str]]:
    """Give a cloud of this size, and its servers. It is not to be changed."""
    key = size.hosts, size.servers, size.cells
    if key not in _STAGES:
        _STAGES[key] = await _build(size)
    return _STAGES[key]


async def _build(size: Size) -> tuple[World, list[str]]:
    rules = Rules(
        cpu_allocation_ratio=1.0,
        patience_s=60.0,
        allow_resize_to_same_host=True,
        scheduler=SchedulerRules(cross_cell_move_weight_multiplier=0.0),  # a cell is as good as another
    )
    cells = {name: tuple(size.host_names(number)) for number, name in enumerate(size.cell_names)}
    world = await World.build(cells=cells, rules=rules, equipped=True, vcpus=8, memory_mib=8192)
    _add_more(world)
    await world.cloud.quotas.set_limits(PROJECT, dict.fromkeys(("instances", "cores", "ram"), -1))
    engine = world.engine("stage")
    servers = [_server(world, number) for number in range(size.servers)]
    for number, server in enumerate(servers):
        host = HostName(size.all_hosts[number % size.hosts])
        await create.accept(world.cloud, engine, world.asker(), [server], host)
    await world.settle(engine)
    return world, [str(server.id) for server in servers]


def _server(world: World, number: int) -> Server:
    """Give the record of one to be created: every third has a port and a volume that are there, and new ones."""
    server, which = world.new_server(f"s{number + 1}", LARGE if number % 2 else SMALL), number // 3
    if number % 3 or which >= min(len(PORTS), len(VOLUMES)):
        return server
    return with_(
        server,
        wished_nics=(WishedNic(port_id=PORTS[which], network_id=NETWORK), WishedNic(network_id=NETWORK)),
        wished_volumes=(
            WishedVolume(volume_id=VOLUMES[which]),
            WishedVolume(is_blank=True, size_gib=1, delete_on_termination=True),
        ),
    )


def _add_more(world: World) -> None:
    network: SimulatedNetwork = world.remains.network
    for number, port_id in enumerate(PORTS):
        port = Port(id=port_id, network_id=NETWORK, project_id=PROJECT, mac=f"fa:16:3e:00:01:{number:02}")
        request = PortRequest(id=_request_id(number), resources={EGRESS: KBPS, INGRESS: KBPS}, required=_REQUIRED)
        asks = number % 2 == 0
        network.add_port(port, requests=[request] if asks else [], same_subtree=[request.id] if asks else [])
    for volume_id in VOLUMES:
        volume = Volume(id=volume_id, project_id=PROJECT, name="data", status="available", size_gib=1, zone="nova")
        world.remains.volumes.add_volume(volume)


_REQUIRED = (PHYSNET, NORMAL)


def _request_id(number: int) -> str:
    return f"88888888-8888-4888-8888-8888888888{number:02}"


def copy_into(loop: SimulatedLoop, staged: World) -> World:
    """Give a copy of the cloud that lives in this loop: its time is the loop's."""
    remains = staged.remains.copy()
    remains.clock = LoopClock(loop, staged.remains.clock.now())
    plan = replace(staged.plan, times=TIMES)
    return World(plan, remains)
