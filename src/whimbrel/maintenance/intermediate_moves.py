"""Plan moves of other servers that make room for one that is to leave its host. Nothing is changed.

Invariant: a move waits for the moves that leave its target, from the first one to the last one that it needs, and for
the move before of the same server. So in every order that respects this, each host has room for all that arrives, while
a move under way holds what it has at its source and at its target.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from whimbrel.domain.errors import WorldError
from whimbrel.domain.host import Host
from whimbrel.domain.ids import ConsumerId, HostName, ServerId
from whimbrel.domain.maintenance_plan import AFTER_OTHERS, MaintenanceItem, MaintenanceOptions
from whimbrel.domain.server import Server
from whimbrel.maintenance import old_guests
from whimbrel.maintenance.planned_capacity import UnusedCapacity
from whimbrel.maintenance.room_search import MOST_MOVES, Amounts, MovableServer, PlannedMove, Prospects, RoomSearch
from whimbrel.maintenance.target_planning import Examined, Planner, Way, examine, examine_all, in_order, planner_of
from whimbrel.moves import needs
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.steps.target import Choice, decide_on
from whimbrel.ports.cloud import Cloud
from whimbrel.scheduling.capacity_query import in_force
from whimbrel.scheduling.snapshot import Snapshot
from whimbrel.servers import lookup

MOST_TARGETS = 64
"""How many hosts are considered for one server."""
MOST_EXAMINED = 200
"""How many servers are examined for one plan that are not to be moved."""
MOST_STEPS = 10_000
"""How many moves are tried for one plan."""
HARD = ("affinity", "anti-affinity")

NOT_TRIED = f"no sequence of at most {MOST_MOVES} intermediate moves was found; not all were tried"
NOT_WITHIN = f"no sequence of at most {MOST_MOVES} intermediate moves makes room"
NONE_EXISTS = "no sequence of intermediate moves makes room"


@dataclass(frozen=True)
class WaysToMove:
    """How a server can move, and where to if there were room: a way and a choice for each host."""

    found: Examined
    ways: dict[HostName, tuple[Way, Choice]]
    prospects: Prospects


@dataclass
class IntermediateMoves:
    """Plans servers in turn on the snapshot of a planner, and remembers what leaves which host.

    before: the items of the plan that there are. Servers whose moves have not ended do not make room.
    """

    planner: Planner
    before: Sequence[MaintenanceItem] = ()
    _items: list[MaintenanceItem] = field(default_factory=list)
    _departures: defaultdict[HostName, list[tuple[int, Amounts]]] = field(default_factory=lambda: defaultdict(list))
    _moved: dict[ServerId, tuple[HostName, int, Amounts]] = field(default_factory=dict)
    """Servers moved to make room: where they are by the plan, by which item, and what they hold there."""
    _servers: dict[HostName, dict[ServerId, Server]] = field(default_factory=dict)
    _held: dict[ServerId, Amounts] = field(default_factory=dict)
    _examined: dict[ServerId, Examined] = field(default_factory=dict)
    """Servers that are not to be moved."""
    _options: dict[ServerId, WaysToMove | None] = field(default_factory=dict)
    """Of them, after the moves that are planned so far."""
    _columns: dict[str, list[int]] = field(default_factory=dict)
    """What is free of each host after the moves that are planned so far, by resource class."""
    _in_vain: dict[tuple[bytes, ...], str] = field(default_factory=dict)
    """Requests for which nothing was found since the last move was planned -> what is said of it."""
    _steps_left: int = MOST_STEPS
    _is_partial: bool = False  # not all servers and hosts are considered

    async def plan(self, found: Sequence[Examined]) -> list[MaintenanceItem]:
        """Return the items of these servers in their order, each after those that make room for it."""
        self._items = list(self.before)
        for each in found:
            item = await self.planner.item(len(self._items), each)
            why = await self._with_room_made(each) if item.state == "stays" else None
            if why is not None:
                item = replace(item, reason=f"{(item.reason or '').rstrip('.')}; {why}" if why else item.reason)
            if item.state == "planned" or why is not None:
                self._add(item)
        return self._items[len(self.before) :]

    def _add(self, item: MaintenanceItem) -> None:
        self._items.append(item)
        if item.state == "planned":
            self._in_vain.clear()
            self._columns.clear()
            if item.group_id:
                self._options.clear()  # of others of its group

    # The search

    async def _with_room_made(self, found: Examined) -> str | None:
        """Plan moves that make room, and the move of the server. Return why there are none; None: they are planned."""
        if not self._steps_left:
            return NOT_TRIED
        kind = tuple(self.planner.refused)
        if kind not in self._in_vain:
            options = await self._options_of(found)
            why = await self._moves_for(options) if options else ""
            if why is None:
                return None
            self._in_vain[kind] = why
        return self._in_vain[kind]

    async def _moves_for(self, options: WaysToMove) -> str | None:
        wanted = options.prospects
        if why := self._no_room_at_all(wanted):
            return why
        search = RoomSearch(self._free, self._movable, self._prospects)
        search.steps_left = min(search.steps_left, self._steps_left)
        given = search.steps_left
        host = await search.find(wanted)
        self._steps_left -= given - search.steps_left
        if host is None:
            return await self._why_none(search)
        server = options.found.server
        purpose = f"makes room for server {server.name} ({server.id})"
        known = {step.server: self._options[step.server] for step in search.found}
        for step in search.found:
            of_server = known[step.server]
            assert of_server, "it was found to have targets"
            await self._move(of_server, step, purpose)
        assert server.host, "it was found on a host"
        await self._move(options, PlannedMove(server.id, server.host, host), None)
        return None

    async def _why_none(self, search: RoomSearch) -> str:
        if search.was_bounded or self._is_partial:
            return NOT_TRIED
        if search.more_might_help and await self._can_begin():
            return NOT_WITHIN
        return NONE_EXISTS

    async def _can_begin(self) -> bool:
        """Check whether any server of the other hosts might have room on another one."""
        hosts = self._open_hosts()
        if len(hosts) > MOST_TARGETS:
            return True
        kinds = {(host, frozenset(each.held.items())) for host in hosts for each in await self._movable(host)}
        return any(
            all(self._free(target, name) >= amount for name, amount in held)
            for host, held in kinds
            for target in hosts
            if target != host
        )

    def _open_hosts(self) -> list[HostName]:
        """Return the hosts that are up, enabled and not to be emptied."""
        planner, fleet = self.planner, self.planner.snapshot.fleet
        is_open = (fleet.enabled & fleet.up(planner.snapshot.now)).tolist()
        return [name for name in fleet.names if is_open[fleet.row[name]] and name not in planner.leaving]

    def _no_room_at_all(self, wanted: Prospects) -> str | None:
        """Return why moves cannot help: what is free of all hosts together, which no move changes, does not suffice."""
        hosts = self._open_hosts()
        for name, amount in wanted.needs.items():
            together = sum(max(0, self._free(host, name)) for host in hosts)
            if together < amount:
                return f"{NONE_EXISTS}: the other hosts have {together} {name} free together, it needs {amount}"
        return None

    def _free(self, host: HostName, name: str) -> int:
        row = self.planner.snapshot.fleet.row
        if name not in self._columns:
            capacity = self.planner.capacity
            column = (capacity.capacity(name) - capacity.used(name)).tolist()
            for left, departures in self._departures.items():
                column[row[left]] += sum(held.get(name, 0) for _, held in departures)
            self._columns[name] = column
        return self._columns[name][row[host]]

    # Other servers

    async def _movable(self, host: HostName) -> list[MovableServer]:
        """Return the servers of a host that are not to leave theirs, where they are by the plan."""
        if host in self.planner.held:
            return []
        if host not in self._servers:
            await self._read(host)
        here = [MovableServer(one, self._held[one]) for one in self._servers[host] if one not in self._moved]
        return here + [MovableServer(one, held) for one, (now, _, held) in self._moved.items() if now == host]

    async def _read(self, host: HostName) -> None:
        planner = self.planner
        fleet = planner.snapshot.fleet
        known = fleet.hosts[fleet.row[host]]
        unended = {item.server_id for item in self.before if item.state in ("planned", "moving")}
        there = await lookup.on_host(planner.cloud, known.cell, host)
        servers = {one.id: one for one in there if one.id not in unended}
        self._servers[host] = servers
        self._held |= {one: dict[str, int]() for one in servers}
        if servers:
            for claim in await planner.cloud.placement.allocations([ConsumerId(one) for one in servers]):
                if claim.provider == known.id:
                    self._held[ServerId(claim.consumer)] = claim.resources

    async def _prospects(self, server_id: ServerId) -> Prospects | None:
        """Return where a server could be if there were room; None: it does not move, or is not examined."""
        if server_id not in self._examined:
            if len(self._examined) >= MOST_EXAMINED:
                self._is_partial = True
                return None
            server = next(here[server_id] for here in self._servers.values() if server_id in here)
            self._examined[server_id] = await examine(self.planner.cloud, server, self.planner.options)
        if server_id not in self._options:
            self._options[server_id] = await self._options_of(self._examined[server_id])
        options = self._options[server_id]
        return options.prospects if options else None

    async def _options_of(self, found: Examined) -> WaysToMove | None:
        """Return where a server could be if there were room: live where that is possible, else cold."""
        server, options = found.server, self.planner.options
        ways: dict[HostName, tuple[Way, Choice]] = {}
        group = None
        for kind, facts in (("live", found.live), ("cold", found.cold)):
            downtime = kind == "cold" and server.vm_state == "active"
            if ways or isinstance(facts, str) or (downtime and not options.allow_downtime):
                continue
            choices, group = await self._choices(facts, server)
            why = found.live if downtime and isinstance(found.live, str) else None
            for choice in choices:
                way = Way("live" if kind == "live" else "cold", (choice,), downtime=downtime, why_not_live=why)
                ways.setdefault(choice.host, (way, choice))
        if not ways:
            return None
        [needed, *others] = {
            tuple(sorted(choice.assignments[0].parts[choice.provider].items())) for _, choice in ways.values()
        }
        return None if others else WaysToMove(found, ways, Prospects(dict(needed), tuple(ways), group))

    async def _choices(self, facts: MoveFacts, server: Server) -> tuple[tuple[Choice, ...], str | None]:
        """Return the hosts that are suitable but for their room, and the group whose members stay apart or together."""
        planner = self.planner
        try:
            asked = await needs.of_server(facts, server.id, planner.cloud)
            request = planner.request_of(asked, facts)
            unused = Snapshot(
                planner.snapshot.fleet, UnusedCapacity(planner.capacity), planner.snapshot.now, planner.snapshot.rules
            )
            decision = await decide_on(unused, replace(asked, request=request), planner.cloud, MOST_TARGETS)
        except WorldError:
            return (), None
        is_simple = UnusedCapacity(planner.capacity).simple(in_force(request.resources, planner.capacity)).any()
        self._is_partial = self._is_partial or not is_simple or len(decision.choices) == MOST_TARGETS
        is_bound = request.group is not None and request.group.policy in HARD
        return decision.choices, facts.hints.get("group") if is_bound else None

    # The moves

    async def _move(self, options: WaysToMove, step: PlannedMove, purpose: str | None) -> None:
        planner, server, (way, choice) = self.planner, options.found.server, options.ways[step.target]
        position, needed = len(self._items), options.prospects.needs
        waits_for = self._waits_for(step, needed)
        item = await planner.moving(position, server, way, choice)
        begins = ", ".join(f"{self._items[one].server_name} has left {self._items[one].source}" for one in waits_for)
        words = "; ".join(filter(None, (purpose, f"begins when {begins}" if begins else None)))
        due_at = AFTER_OTHERS if waits_for else 0.0
        if purpose:
            held = self._moved[server.id][2] if server.id in self._moved else self._held[server.id]
            self._departures[step.source].append((position, held))
            self._moved[server.id] = step.target, position, needed
        self._add(replace(item, source=step.source, purpose=words or None, waits_for=waits_for, due_at=due_at))

    def _waits_for(self, step: PlannedMove, needed: Amounts) -> tuple[int, ...]:
        """Return the moves that have to end before this one begins."""
        before = {self._moved[step.server][1]} if step.server in self._moved else set[int]()
        lacking = Counter(needed)
        for name in needed:
            lacking[name] -= self._free_at_first(step.target, name)
        for position, held in self._departures[step.target]:
            if all(amount <= 0 for amount in lacking.values()):
                break
            before.add(position)
            lacking.subtract({name: amount for name, amount in held.items() if name in needed})
        assert all(amount <= 0 for amount in lacking.values()), "it was found to have room"
        return tuple(sorted(before))

    def _free_at_first(self, host: HostName, name: str) -> int:
        """Return what is free after all that arrives, before anything leaves."""
        departed = sum(held.get(name, 0) for _, held in self._departures[host])
        return self._free(host, name) - departed


async def plan(cloud: Cloud, hosts: Sequence[Host], options: MaintenanceOptions) -> list[MaintenanceItem]:
    """Return the moves that empty these hosts in their order, and an item for each server or old guest that stays.

    Raises: Unavailable: a cell of the hosts does not answer.
    """
    servers = [server for host in hosts for server in await lookup.on_host(cloud, host.cell, host.name)]
    planner = await planner_of(cloud, [host.name for host in hosts], options)
    items = await IntermediateMoves(planner).plan(await examine_all(cloud, in_order(servers), options))
    known = {server.id for server in servers}
    return [*items, *await old_guests.items_of(cloud, hosts, len(items), known)]
