"""The simulation of a maintenance: its plan is executed on a copy of the cloud, by the code that executes it there.

Invariant: the rounds, the moves and their engine are those of a conductor. Only time, hosts, networks and volumes are
simulated. A round is made at each full second at which it could find something new, so that its result is that of a
round each second.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

import msgspec
from msgspec.structs import replace

from whimbrel.conductor.parts import engine_parts
from whimbrel.domain.ids import RunId
from whimbrel.domain.maintenance_plan import Maintenance, MaintenanceItem
from whimbrel.domain.run import Run
from whimbrel.maintenance import operator_requests
from whimbrel.maintenance.cloud_snapshot import MIB, CloudSnapshot
from whimbrel.maintenance.execution import carry_on_all
from whimbrel.maintenance.host_losses import HostLoss, loss_of, worst_first
from whimbrel.moves.resize import MIGRATE
from whimbrel.moves.steps import guest
from whimbrel.saga.engine import Engine
from whimbrel.sim.maintenances.copied_cloud import Assumed, CopiedCloud
from whimbrel.sim.maintenances.network_links import Traffic
from whimbrel.sim.world.loop import SimulatedLoop, new_loop

ROUND_S = 1.0
LOOK_AGAIN_S = 5.0
"""While a move is tried again later, or a server waits for its turn."""
STANDS_STILL_S = 3600.0
"""Simulated time without any move under way, after which a plan is shown as it is."""

Show = Callable[[str, int, int], None]
"""Receives the operation, how many servers or hosts are done, and of how many."""


class SimulatedServer(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a server. turn: its place in the order in which moves began; null: none began.

    starts_s, takes_s: seconds since the start of the plan, and of the last move. down_s: how long its users notice.
    planned_target: where the plan puts it. copied_bytes: of all tries.
    """

    server_id: str
    name: str
    source: str
    target: str | None
    planned_target: str | None
    kind: str | None
    state: str
    reason: str | None
    turn: int | None
    starts_s: float | None
    takes_s: float | None
    down_s: float
    copied_bytes: int


class LinkUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the link of a host carries in each direction: in all, and at most at once."""

    host: str
    sent_bytes: int
    received_bytes: int
    sent_peak_mib_s: float
    received_peak_mib_s: float


class CellLinkUse(msgspec.Struct, frozen=True, kw_only=True):
    """What hosts of one cell transfer to hosts of another directly."""

    source_cell: str
    target_cell: str
    copied_bytes: int
    peak_mib_s: float


class LostServer(msgspec.Struct, frozen=True, kw_only=True):
    server_id: str
    name: str
    reason: str


class LostHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host that dies after the plan. without_place: those of its servers that no other host can take."""

    host: str
    servers: int
    without_place: list[LostServer]


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a simulation. state: of the maintenance at its end. duration_s: simulated.

    measured_transfers: of how many live migrations the assumed rates are the medians; 0: they are not measured.
    losses: for each remaining host, the worst ones first.
    """

    maintenance_id: str
    name: str
    release: str  # of the cloud
    snapshot_at: float
    assumed: Assumed
    measured_transfers: int
    state: str
    message: str | None
    duration_s: float
    servers: list[SimulatedServer]
    links: list[LinkUse]
    cell_links: list[CellLinkUse]
    losses: list[LostHost]


def simulate(snapshot: CloudSnapshot, assumed: Assumed, show: Show = lambda *_: None) -> Simulation:
    """Execute the plan of a snapshot. It blocks the thread, whose loop must not run."""
    loop = new_loop(snapshot.maintenance.id)
    try:
        result: Simulation = loop.run_until_complete(_simulated(loop, snapshot, assumed, show))
    finally:
        loop.close()
    assert not loop.troubles, loop.troubles
    return result


async def _simulated(loop: SimulatedLoop, snapshot: CloudSnapshot, assumed: Assumed, show: Show) -> Simulation:
    show("copying the cloud", 0, len(snapshot.items))
    copied = await CopiedCloud.of(snapshot, assumed, loop)
    execution = Execution(copied, show)
    found = await operator_requests.start(copied.cloud, snapshot.maintenance.id)
    began, found = copied.cloud.clock.now(), await execution.to_the_end(found)
    duration_s = copied.cloud.clock.now() - began
    items = await copied.cloud.maintenances.items(found.id)
    servers = await _servers(copied, items, began)
    losses = await _losses(copied, found, show)
    await copied.close()
    return Simulation(
        maintenance_id=found.id,
        name=found.name,
        release=snapshot.release,
        snapshot_at=snapshot.at,
        assumed=assumed,
        measured_transfers=snapshot.measured.transfers if snapshot.measured else 0,
        state=found.state,
        message=found.message,
        duration_s=duration_s,
        servers=servers,
        links=_links(copied),
        cell_links=_cell_links(copied),
        losses=[
            LostHost(
                host=one.host,
                servers=one.servers,
                without_place=[
                    LostServer(server_id=left.server, name=left.name, reason=left.reason) for left in one.without_place
                ],
            )
            for one in losses
        ],
    )


class Execution:
    """A conductor with one maintenance to execute."""

    def __init__(self, copied: CopiedCloud, show: Show) -> None:
        self._copied = copied
        self._show = show
        self._driving: dict[RunId, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        parts = engine_parts(copied.cloud, "simulation", Random(0))
        self._engine = Engine(replace(parts, adopt=self._adopt))

    async def to_the_end(self, found: Maintenance) -> Maintenance:
        """Do rounds until the maintenance is over, or paused with no move under way."""
        cloud, engine = self._copied.cloud, self._engine
        moved_at = cloud.clock.now()
        while cloud.clock.now() < moved_at + STANDS_STILL_S:
            self._changed.clear()
            await carry_on_all(cloud, engine)
            for run in await cloud.journal.take(
                engine.name, cloud.clock.now(), engine.lease_s, len(self._driving) + 99
            ):
                self._drive(run, begun_here=False)
            found = await cloud.maintenances.get(found.id)
            items = await cloud.maintenances.items(found.id)
            is_idle = not any(item.state == "moving" for item in items)
            if is_idle and found.state in ("done", "paused"):
                return found
            to_do = sum(item.state in ("planned", "moving") for item in items)
            self._show("simulating the plan", len(items) - to_do, len(items))
            if not self._driving and not found.options.windows.is_open(cloud.clock.now()):
                await self._until_open(found)
                moved_at = cloud.clock.now()
                continue
            moving = bool(self._driving)
            await self._until_new(items)
            moved_at = cloud.clock.now() if moving else moved_at
        return found

    async def _until_open(self, found: Maintenance) -> None:
        """Wait until the next window opens: nothing else happens in between."""
        clock = self._copied.cloud.clock
        opens_at = found.options.windows.changes_at(clock.now())
        assert opens_at is not None, "a window opens within days"
        await clock.sleep(opens_at - clock.now())

    async def _until_new(self, items: Sequence[MaintenanceItem]) -> None:
        """Wait until a round could find something new."""
        now = self._copied.cloud.clock.now()
        is_postponed = any(item.state == "planned" and item.due_at > now for item in items)
        is_paused = any(item.run_id and item.run_id not in self._driving for item in items if item.state == "moving")
        try:
            async with asyncio.timeout(LOOK_AGAIN_S if is_postponed or is_paused else None):
                await self._changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(ROUND_S - asyncio.get_running_loop().time() % ROUND_S)

    def _adopt(self, run: Run) -> bool:
        self._drive(run, begun_here=True)
        return True

    def _drive(self, run: Run, *, begun_here: bool) -> None:
        task = asyncio.get_running_loop().create_task(self._engine.drive(run, begun_here=begun_here))
        self._driving[run.id] = task
        task.add_done_callback(lambda done: self._release(run.id, done))

    def _release(self, run_id: RunId, task: asyncio.Task[None]) -> None:
        if self._driving.get(run_id) is task:
            del self._driving[run_id]
        self._changed.set()


# The result


async def _servers(copied: CopiedCloud, items: Sequence[MaintenanceItem], began: float) -> list[SimulatedServer]:
    """Return the servers in the order in which their moves began, then the others in the order of the plan."""
    begun = sorted((item for item in items if item.started_at), key=lambda item: item.started_at or 0.0)
    turns = {item.position: turn for turn, item in enumerate(begun, 1)}
    planned = {item.position: item.target for item in copied.snapshot.items}
    ordered = [*begun, *(item for item in items if item.position not in turns)]
    return [
        SimulatedServer(
            server_id=item.server_id,
            name=item.server_name,
            source=item.source,
            target=item.target,
            planned_target=planned.get(item.position),
            kind=item.kind,
            state=item.state,
            reason=item.reason,
            turn=turns.get(item.position),
            starts_s=item.started_at - began if item.started_at else None,
            takes_s=item.finished_at - item.started_at if item.started_at and item.finished_at else None,
            down_s=await _down_s(copied, item),
            copied_bytes=round(copied.behaviour.copied.get(item.server_id, 0.0)),
        )
        for item in ordered
    ]


async def _down_s(copied: CopiedCloud, item: MaintenanceItem) -> float:
    """Return how long a running server is off during its cold move."""
    if not item.run_id or not item.downtime:
        return 0.0
    run = await copied.cloud.journal.get(item.run_id)
    at = {entry.step: entry for entry in run.log if entry.way == "do"} if run.saga == MIGRATE.name else {}
    stop, start = at.get(guest.stop_on_source.__name__), at.get(guest.start_on_target.__name__)
    return start.began + start.took_s - stop.began if stop and start else 0.0


def _links(copied: CopiedCloud) -> list[LinkUse]:
    traffic, nothing = copied.behaviour.links.traffic, Traffic()
    used = {host for _, host in traffic}
    uses = []
    for host in (host.name for host in copied.snapshot.hosts if host.name in used):
        sent, received = traffic.get(("from", host), nothing), traffic.get(("to", host), nothing)
        uses.append(
            LinkUse(
                host=host,
                sent_bytes=round(sent.copied),
                received_bytes=round(received.copied),
                sent_peak_mib_s=sent.peak / MIB,
                received_peak_mib_s=received.peak / MIB,
            )
        )
    return uses


def _cell_links(copied: CopiedCloud) -> list[CellLinkUse]:
    return [
        CellLinkUse(source_cell=source, target_cell=target, copied_bytes=round(one.copied), peak_mib_s=one.peak / MIB)
        for (source, target), one in sorted(copied.behaviour.links.between.items())
    ]


async def _losses(copied: CopiedCloud, found: Maintenance, show: Show) -> list[HostLoss]:
    """Return what the loss of each host would do that is not in maintenance and is up."""
    now = copied.cloud.clock.now()
    hosts = [host for host in (await copied.cloud.fleets.now()).hosts if host.name not in found.host_names]
    remaining, losses = [host for host in hosts if host.is_up(now)], []
    for done, host in enumerate(remaining):
        show("losing each host once", done, len(remaining))
        losses.append(await loss_of(copied.cloud, host, found.options))
    return worst_first(losses)
