"""Plan how hosts are emptied: the kind of move of each server, the order, and the target. Nothing is changed.

Invariant: each target is chosen by the code that chooses the targets of moves, on one snapshot of the cloud, less what
the moves before it claim.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import WorldError
from whimbrel.domain.ids import GroupId, HostName, ProviderId, ServerId
from whimbrel.domain.maintenance_plan import HOLDING, MaintenanceItem, MaintenanceOptions, MoveKind
from whimbrel.domain.pci import DIRECT
from whimbrel.domain.server import Server
from whimbrel.maintenance.planned_capacity import ReservedCapacity
from whimbrel.moves import live_requests, needs, requests
from whimbrel.moves.facts import MoveFacts, asks_for_hardware
from whimbrel.moves.steps.live import examined
from whimbrel.moves.steps.target import Choice, decide_on
from whimbrel.ports.cloud import Cloud
from whimbrel.scheduling.request import GroupState, Request
from whimbrel.scheduling.snapshot import Snapshot
from whimbrel.servers.host_evacuation import priority_of

EXAMINED_AT_ONCE = 50
"""How many guests are examined at the same time."""

IN_MAINTENANCE = "it is to be emptied as well"


@dataclass(frozen=True)
class Way:
    """How a server can move, and where to: the best target first.

    downtime: its users notice it. why_not_live: for a cold move, why the server cannot move while it runs.
    """

    kind: MoveKind
    choices: tuple[Choice, ...]
    downtime: bool = False
    why_not_live: str | None = None


@dataclass(frozen=True)
class Examined:
    """What is known of a server before a target is chosen. A string: why it cannot move in this way."""

    server: Server
    live: MoveFacts | str
    cold: MoveFacts | str


@dataclass
class Planner:
    """The snapshot on which a plan is made, and what its moves claim. because: why `leaving` hosts are no targets.

    refused: the requests of the server that was planned last, as bytes, that no host can satisfy.
    """

    cloud: Cloud
    snapshot: Snapshot
    capacity: ReservedCapacity
    leaving: frozenset[HostName]
    options: MaintenanceOptions
    because: str = IN_MAINTENANCE
    emptied: frozenset[HostName] = frozenset()  # by maintenances under way
    held: frozenset[HostName] = frozenset()  # all hosts of these: no server of theirs makes room
    refused: list[bytes] = field(default_factory=list)
    _summaries: dict[bytes, str] = field(default_factory=dict)
    """Requests that no host can satisfy after the moves so far: many servers have the same one."""
    arriving: defaultdict[GroupId, Counter[ProviderId]] = field(default_factory=lambda: defaultdict(Counter))

    def choose_among(self, hosts: Collection[HostName]) -> None:
        """Let all hosts but these be no targets."""
        self.leaving = self.emptied | (frozenset(self.snapshot.fleet.names) - frozenset(hosts))

    async def item(self, position: int, found: Examined) -> MaintenanceItem:
        """Choose how a server moves and where to, and reserve what it needs there."""
        way = await self.way(found)
        if isinstance(way, str):
            return replace(await self._item(position, found.server), reason=way)
        return await self.moving(position, found.server, way, way.choices[0])

    async def moving(self, position: int, server: Server, way: Way, choice: Choice) -> MaintenanceItem:
        """Return the item of a server that moves to this target, and reserve what it needs there."""
        item = await self._item(position, server)
        self.reserve(choice, item.group_id)
        return replace(
            item, kind=way.kind, downtime=way.downtime, target=choice.host, state="planned", reason=way.why_not_live
        )

    async def _item(self, position: int, server: Server) -> MaintenanceItem:
        """Return the item of a server that stays."""
        assert server.host, "it was found on a host"
        group = server.spec.hints.get("group") and await self.cloud.server_groups.of_server(server.id)
        return MaintenanceItem(
            position=position,
            server_id=server.id,
            server_name=server.name,
            source=server.host,
            kind=None,
            target=None,
            group_id=group.id if group else None,
            project_id=server.project_id,
            state="stays",
        )

    def reserve(self, choice: Choice, group: GroupId | None) -> None:
        """Count what a move claims against the capacity for those after it."""
        self._reserve(choice, group, 1)

    def release(self, choice: Choice, group: GroupId | None) -> None:
        """Undo `reserve`, for a move that is not planned after all."""
        self._reserve(choice, group, -1)

    def _reserve(self, choice: Choice, group: GroupId | None, times: int) -> None:
        self._summaries.clear()
        index = self.snapshot.fleet.row[choice.host]
        for resources in choice.assignments[0].parts.values():
            self.capacity.reserve(index, {name: times * amount for name, amount in resources.items()})
        if group:
            self.arriving[group][choice.provider] += times

    async def way(self, found: Examined, most: int = 1) -> Way | str:
        """Return how a server can move, with up to `most` targets, or why it cannot."""
        server = found.server
        self.refused = []
        live = await self.choices(found.live, server.id, most)
        if not isinstance(live, str):
            return Way("live", live)
        cold = await self.choices(found.cold, server.id, most)
        if isinstance(cold, str):
            return live if server.vm_state in ("active", "paused") else cold
        if server.vm_state != "active":
            return Way("cold", cold)
        if not self.options.allow_downtime:
            return f"it cannot move while it runs: {live} It can move with downtime, which is not allowed"
        return Way("cold", cold, downtime=True, why_not_live=live)

    async def choices(self, facts: MoveFacts | str, server: ServerId, most: int = 1) -> tuple[Choice, ...] | str:
        """Return the best targets of a move with these facts, or why there is none."""
        if isinstance(facts, str):
            return facts
        try:
            asked = await needs.of_server(facts, server, self.cloud)
            request = self.request_of(asked, facts)
            key = _key(request, facts)
            if key not in self._summaries:
                decision = await decide_on(self.snapshot, replace(asked, request=request), self.cloud, most)
                if decision.choices:
                    return decision.choices
                self._summaries[key] = decision.record.summary()
        except WorldError as no:
            return no.reason
        self.refused.append(key)
        return self._summaries[key]

    def request_of(self, asked: needs.Needs, facts: MoveFacts) -> Request:
        """Return the request of a server without the hosts that are no targets, after the moves that are planned."""
        return replace(
            asked.request,
            excluded=asked.request.excluded | self.leaving,
            excluded_because=self.because,
            group=self._group_after(asked.request.group, facts.hints.get("group")),
        )

    def _group_after(self, group: GroupState | None, group_id: GroupId | None) -> GroupState | None:
        """Return the locations of a group's members, with the planned ones."""
        if group is None or group_id is None or group_id not in self.arriving:
            return group
        members: Mapping[ProviderId, int] = Counter(group.members) + self.arriving[group_id]
        return replace(group, members=members)


def _key(request: Request, facts: MoveFacts) -> bytes:
    """Return all that decides whether a host can satisfy a request: see `decide_on`."""
    of_ports = [port.nic for port in facts.ports if port.nic.vnic_type == DIRECT]
    has_requests = any(port.requests for port in facts.ports)
    return msgspec.msgpack.encode(
        (replace(request, spread=""), of_ports, has_requests, facts.config_drive, asks_for_hardware(facts))
    )


async def planner_of(
    cloud: Cloud, leaving: Collection[HostName], options: MaintenanceOptions, because: str = IN_MAINTENANCE
) -> Planner:
    """Return a planner on the present state of the cloud. leaving: hosts that are no targets.

    Hosts that a maintenance under way empties are none either.
    """
    under_way = await cloud.maintenances.find(HOLDING)
    others = {host for each in under_way for host in each.emptied}
    fleet = await cloud.fleets.now()
    capacity = ReservedCapacity(await cloud.placement.capacity(fleet.providers), len(fleet))
    snapshot = Snapshot(fleet, capacity, cloud.clock.now(), cloud.rules.scheduler)
    planner = Planner(cloud, snapshot, capacity, frozenset(leaving) | others, options, because)
    planner.emptied = frozenset(others)
    planner.held = frozenset(host for each in under_way for host in each.named)
    return planner


def in_order(servers: Sequence[Server]) -> list[Server]:
    """Return the most important servers first, and of these the largest: small ones fit where large ones do not."""
    return sorted(
        servers,
        key=lambda one: (*priority_of(one), -one.flavor.memory_mib, -one.flavor.vcpus, one.created_at, one.id),
    )


async def examine_all(cloud: Cloud, servers: Sequence[Server], options: MaintenanceOptions) -> list[Examined]:
    """Find out how each of these servers can move, several at once."""
    turns = asyncio.Semaphore(EXAMINED_AT_ONCE)

    async def one(server: Server) -> Examined:
        async with turns:
            return await examine(cloud, server, options)

    return await asyncio.gather(*map(one, servers))


async def examine(cloud: Cloud, server: Server, options: MaintenanceOptions) -> Examined:
    """Find out how a server can move; its guest is looked at if it may move live."""
    if server.vm_state == "resized":
        waits = "its move waits to be confirmed or reverted"
        return Examined(server, waits, waits)
    return Examined(server, await _live(cloud, server, options), await _cold(cloud, server, options))


async def _live(cloud: Cloud, server: Server, options: MaintenanceOptions) -> MoveFacts | str:
    try:
        facts = await live_requests.live_facts(cloud, server, None, leaves_cell=options.leaves_cell)
        return await examined(facts, server.id, cloud)
    except WorldError as no:
        return no.reason


async def _cold(cloud: Cloud, server: Server, options: MaintenanceOptions) -> MoveFacts | str:
    try:
        return await requests.migrate_facts(cloud, server, None, leaves_cell=options.leaves_cell)
    except WorldError as no:
        return no.reason
