"""Initial state of a simulated run: a cloud with servers, built once per size and copied for each run."""

from dataclasses import replace

from msgspec.structs import replace as with_

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import CellName, GroupId, HostName
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.domain.server_devices import RequestedNic, RequestedVolume
from whimbrel.ports.cloud import Rules
from whimbrel.ports.services.network import Port, PortRequest
from whimbrel.ports.services.volumes import Volume
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.server_groups import GroupPolicy, ServerGroup
from whimbrel.servers.lifecycle import create
from whimbrel.sim.cloud.cloud import LARGE, PROJECT, SMALL, USER, World
from whimbrel.sim.cloud.watched_hosts import SELF_FENCE_S
from whimbrel.sim.faults.planned_events import Size
from whimbrel.sim.world.equipment import DIRECT, DIRECT_PORT, EGRESS, INGRESS, KBPS, NETWORK, NORMAL, PHYSNET
from whimbrel.sim.world.loop import LoopClock, SimulatedLoop
from whimbrel.sim.world.network import SimulatedNetwork
from whimbrel.sim.world.phases import Times

PORTS = [f"66666666-6666-4666-8666-6666666666{n:02}" for n in range(70, 76)]
"""Existing ports; every other one requests bandwidth."""

DIRECT_PORTS = [DIRECT_PORT, *(f"66666666-6666-4666-8666-6666666666{n:02}" for n in range(80, 82))]
"""Existing ports that request a virtual function and bandwidth on its NIC; for hosts that have virtual functions."""

VOLUMES = [f"77777777-7777-4777-8777-7777777777{n:02}" for n in range(10, 16)]

POLICIES: tuple[GroupPolicy, ...] = ("anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity")
GROUPS = [GroupId(f"99999999-9999-4999-8999-9999999999{n:02}") for n in range(len(POLICIES))]
"""One of each policy, if the size has groups."""

WIDE = Flavor(flavor_id="3", name="wide", vcpus=3, memory_mib=512, root_gib=2)
"""Its disk is as large as that of LARGE, since disks do not shrink: each of the two can be resized to the other."""

ROOMY = Flavor(flavor_id="4", name="roomy", vcpus=1, memory_mib=512, root_gib=1, ephemeral_gib=1, swap_mib=256)
ROOMIER = Flavor(flavor_id="5", name="roomier", vcpus=2, memory_mib=512, root_gib=2, ephemeral_gib=2)
SWAPPING = Flavor(flavor_id="6", name="swapping", vcpus=1, memory_mib=1024, root_gib=2, ephemeral_gib=2, swap_mib=512)
"""It has disks besides the root disk. Servers of such flavors resize only among them: then each boot writes to all
disks of a server, and the at-rest invariant requires that their boot counts agree.
"""

MORE_FLAVORS = (WIDE, ROOMY, ROOMIER, SWAPPING)

TIMES = Times(
    reserve_s=0.1, build_disk_s=4.0, copy_disk_s=6.0, snapshot_s=2.0, start_s=0.5, stop_s=1.0, live_mib_s=400.0
)

BEGINS_AT = 1_800_010_000.0
"""The time at which a run begins. Until then no host misses a heartbeat; then it has to send them."""

_STAGES: dict[tuple[float, ...], tuple[World, list[str]]] = {}


async def stage(size: Size) -> tuple[World, list[str]]:
    """Return a cloud of this size and its servers. The caller must not change it."""
    key = (
        *(size.hosts, size.servers, size.cells, size.functions, size.groups, size.fences, size.watchdogs),
        size.confirm_window_s,
    )
    if key not in _STAGES:
        _STAGES[key] = await _build(size)
    return _STAGES[key]


def is_evacuated(size: Size) -> bool:
    """Check whether a host that is cut off can be evacuated. If not, none is ever down."""
    return size.fences or size.watchdogs


async def _build(size: Size) -> tuple[World, list[str]]:
    rules = Rules(
        cpu_allocation_ratio=1.0,
        step_timeout_s=60.0,
        allow_resize_to_same_host=True,
        resize_confirm_window_s=size.confirm_window_s,
        reclaim_instance_interval_s=60,
        scheduler=SchedulerRules(cross_cell_move_weight_multiplier=0.0),  # all cells weigh the same
    )
    cells = {name: tuple(size.host_names(number)) for number, name in enumerate(size.cell_names)}
    world = await World.build(
        cells=cells,
        rules=rules,
        equipped=True,
        functions=size.functions,
        fenced=size.fences,
        seen_at=BEGINS_AT if is_evacuated(size) else None,
        self_fence_s=SELF_FENCE_S if size.watchdogs else None,
        vcpus=8,
        memory_mib=8192,
    )
    for cell in cells if size.cells > 1 else ():
        await world.cloud.cell_infos.ensure(CellInfo(name=CellName(cell), migration_network="m", created_at=0.0))
    for flavor in MORE_FLAVORS:
        await world.cloud.flavors.create(flavor, world.cloud.clock.now())
    _add_more(world, size)
    for number, policy in enumerate(POLICIES if size.groups else ()):
        await world.cloud.server_groups.create(_group(number, policy, world.cloud.clock.now()), -1)
    await world.cloud.quotas.set_limits(PROJECT, dict.fromkeys(("instances", "cores", "ram"), -1))
    engine = world.engine("stage")
    servers = [_server(world, number, size) for number in range(size.servers)]
    for number, server in enumerate(servers):
        host = HostName(size.all_hosts[number % size.hosts])
        await create.accept(world.cloud, engine, world.requester(), [server], host)
    await world.settle(engine)
    if is_evacuated(size):
        world.remains.clock.advance(BEGINS_AT - world.cloud.clock.now())
    return world, [str(server.id) for server in servers]


def _server(world: World, number: int, size: Size) -> Server:
    """Return the record of a server to create: every other one has existing and new ports and volumes.

    Every fourth boots from its volume, another fourth has an ephemeral disk. With groups, the second and third have
    anti-affinity.
    """
    server, which = world.new_server(f"s{number + 1}", (SMALL, LARGE, SMALL, ROOMY)[number % 4]), number // 2
    if size.groups and number in (1, 2):
        server = with_(server, spec=RequestSpec(hints={"group": GROUPS[0]}))
    if number % 2 or which >= min(len(PORTS), len(VOLUMES)):
        return server
    boots = which % 2 == 1
    port = DIRECT_PORTS[0] if size.functions and which == 0 else PORTS[which]
    return with_(
        server,
        image_id=None if boots else server.image_id,
        requested_nics=(RequestedNic(port_id=port, network_id=NETWORK), RequestedNic(network_id=NETWORK)),
        requested_volumes=(
            RequestedVolume(volume_id=VOLUMES[which], boot_index=0 if boots else None),
            RequestedVolume(is_blank=True, size_gib=1, delete_on_termination=True),
        ),
    )


def _group(number: int, policy: GroupPolicy, now: float) -> ServerGroup:
    return ServerGroup(id=GROUPS[number], name=policy, project_id=PROJECT, user_id=USER, policy=policy, created_at=now)


def _add_more(world: World, size: Size) -> None:
    network: SimulatedNetwork = world.remains.network
    for number, port_id in enumerate(PORTS):
        port = Port(id=port_id, network_id=NETWORK, project_id=PROJECT, mac=f"fa:16:3e:00:01:{number:02}")
        request = PortRequest(id=_request_id(number), resources={EGRESS: KBPS, INGRESS: KBPS}, required=_REQUIRED)
        asks = number % 2 == 0
        network.add_port(port, requests=[request] if asks else [], same_subtree=[request.id] if asks else [])
    for number, port_id in enumerate(DIRECT_PORTS[1:] if size.functions else ()):
        mac = f"fa:16:3e:00:02:{number:02}"
        port = Port(id=port_id, network_id=NETWORK, project_id=PROJECT, mac=mac, vnic_type="direct")
        request = PortRequest(id=_request_id(50 + number), resources={EGRESS: KBPS}, required=(PHYSNET, DIRECT))
        network.add_port(port, requests=[request], same_subtree=[request.id])
    for volume_id in VOLUMES:
        volume = Volume(
            id=volume_id, project_id=PROJECT, name="data", status="available", size_gib=2, zone="nova", is_bootable=True
        )
        world.remains.volumes.add_volume(volume)


_REQUIRED = (PHYSNET, NORMAL)


def _request_id(number: int) -> str:
    return f"88888888-8888-4888-8888-8888888888{number:02}"


def copy_into(loop: SimulatedLoop, staged: World) -> World:
    """Return a copy of the cloud that runs in this loop and uses its time."""
    remains = staged.remains.copy()
    remains.clock = LoopClock(loop, staged.remains.clock.now())
    plan = replace(staged.plan, times=TIMES)
    return World(plan, remains)
