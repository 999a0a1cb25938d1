"""Search for moves of other servers that make room for one on a host. Nothing is changed.

Invariant: in the order in which they are found, each move has room at its target while the server also holds what it
has at its source. A server moves at most once: with `MOST_MOVES` moves nothing is gained by a second move of one.
The search is exhaustive but for its bounds, and it knows which of them it has met.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from whimbrel.domain.ids import HostName, ServerId

MOST_MOVES = 3
"""How many servers are moved to make room for one."""
MOST_TRIED = 8
"""How many targets of a server, and how many servers of a host, are tried at each turn of the search."""
MOST_STEPS = 3_000
"""How many moves are tried for one server."""
STEPS_AT_ONCE = 50
"""Between them other tasks of the process have their turn."""

Amounts = Mapping[str, int]


@dataclass(frozen=True)
class MovableServer:
    """A server on a host, with what it holds there."""

    id: ServerId
    held: Amounts


@dataclass(frozen=True)
class Prospects:
    """Where a server may be, and what it needs there. apart: its server group, of which only one member moves."""

    needs: Amounts
    targets: Collection[HostName]
    apart: str | None = None


@dataclass(frozen=True)
class PlannedMove:
    server: ServerId
    source: HostName
    target: HostName


Continuation = Callable[[int], Awaitable[bool]]


@dataclass
class RoomSearch:
    """free: what is free of a resource class on a host. movable: the servers of a host that could be moved.

    more_might_help: with more moves, more could be found. was_bounded: also with as many, because not all were tried.
    """

    free: Callable[[HostName, str], int]
    movable: Callable[[HostName], Awaitable[Sequence[MovableServer]]]
    prospects: Callable[[ServerId], Awaitable[Prospects | None]]
    steps_left: int = MOST_STEPS
    more_might_help: bool = False
    was_bounded: bool = False
    found: list[PlannedMove] = field(default_factory=list)
    _path: list[PlannedMove] = field(default_factory=list)
    _changes: Counter[tuple[HostName, str]] = field(default_factory=Counter)
    _taken: set[str] = field(default_factory=set)
    """Servers that move, and groups of which a member does."""

    async def find(self, wanted: Prospects, most: int = MOST_MOVES) -> HostName | None:
        """Return the host that has room after the moves `found`, which are as few as possible; None: there is none."""
        self._taken = {wanted.apart} if wanted.apart else set()
        for limit in range(most + 1):
            self.more_might_help = self.was_bounded = False
            for host in self._nearest(wanted, limit):
                if await self._make_room(host, wanted.needs, limit, self._keep):
                    return host
            if not self.more_might_help and not self.was_bounded:
                return None
        return None

    async def _keep(self, left: int) -> bool:
        self.found = list(self._path)
        return True

    async def _make_room(self, host: HostName, needs: Amounts, left: int, then: Continuation) -> bool:
        """Move up to `left` servers until a host has room, then go on with the rest. Return whether that succeeded."""
        lacking = self._lacking(host, needs)
        if not lacking:
            return await then(left)
        if not left:
            self.more_might_help = True
            return False
        for server, prospects in await self._leavers(host, lacking, left):
            for target in self._nearest(prospects, left - 1, leaving=host):
                if not self.steps_left:
                    self.was_bounded = True
                    return False
                self.steps_left -= 1
                if self.steps_left % STEPS_AT_ONCE == 0:
                    await asyncio.sleep(0)  # or no other task of the process runs meanwhile
                if await self._move(server, prospects, PlannedMove(server.id, host, target), needs, left, then):
                    return True
        return False

    async def _move(
        self,
        server: MovableServer,
        prospects: Prospects,
        step: PlannedMove,
        needs: Amounts,
        left: int,
        then: Continuation,
    ) -> bool:
        names = {server.id, prospects.apart or server.id}

        async def moved(rest: int) -> bool:
            self._path.append(step)
            self._change(step.target, prospects.needs, -1)
            self._change(step.source, server.held, 1)
            succeeded = await self._make_room(step.source, needs, rest, then)
            self._change(step.source, server.held, -1)
            self._change(step.target, prospects.needs, 1)
            self._path.pop()
            return succeeded

        self._taken |= names
        succeeded = await self._make_room(step.target, prospects.needs, left - 1, moved)
        self._taken -= names
        return succeeded

    async def _leavers(self, host: HostName, lacking: Amounts, left: int) -> list[tuple[MovableServer, Prospects]]:
        """Return servers of a host whose moves give what it lacks, the smallest first, one of each kind."""
        here = [each for each in await self.movable(host) if any(each.held.get(name, 0) for name in lacking)]
        here.sort(key=lambda each: (sum(each.held.values()), each.id))
        if self._taken & {each.id for each in here}:
            self.more_might_help = True
        here = [each for each in here if each.id not in self._taken]
        for name, amount in lacking.items():
            most = sorted((each.held.get(name, 0) for each in here), reverse=True)
            if sum(most) < amount:
                return []
            if sum(most[:left]) < amount:
                self.more_might_help = True
                return []
        kinds: dict[object, tuple[MovableServer, Prospects]] = {}
        for each in here:
            if left == 1 and any(each.held.get(name, 0) < amount for name, amount in lacking.items()):
                self.more_might_help = True
                continue
            prospects = await self.prospects(each.id)
            if prospects is None or not prospects.targets:
                continue
            if prospects.apart and prospects.apart in self._taken:
                self.was_bounded = True
                continue
            kind = (*map(_hashable, (each.held, prospects.needs)), frozenset(prospects.targets), prospects.apart)
            kinds.setdefault(kind, (each, prospects))
            if len(kinds) > MOST_TRIED:
                self.was_bounded = True
                break
        return list(kinds.values())[:MOST_TRIED]

    def _nearest(self, wanted: Prospects, left: int, leaving: HostName | None = None) -> list[HostName]:
        """Return the targets on which least is lacking; without moves that are left, those that have room."""
        lacking = {host: self._lacking(host, wanted.needs) for host in wanted.targets if host != leaving}
        ordered = sorted(lacking, key=lambda host: (_share(lacking[host], wanted.needs), host))
        if not left:
            self.more_might_help = self.more_might_help or any(lacking.values())
            ordered = [host for host in ordered if not lacking[host]]
        self.was_bounded = self.was_bounded or len(ordered) > MOST_TRIED
        return ordered[:MOST_TRIED]

    def _lacking(self, host: HostName, needs: Amounts) -> dict[str, int]:
        lacking = {}
        for name, amount in needs.items():
            free = self.free(host, name) + self._changes[host, name]
            if amount > free:
                lacking[name] = amount - free
        return lacking

    def _change(self, host: HostName, amounts: Amounts, times: int) -> None:
        for name, amount in amounts.items():
            self._changes[host, name] += times * amount


def _share(lacking: Amounts, needs: Amounts) -> float:
    return sum(amount / needs[name] for name, amount in lacking.items())


def _hashable(amounts: Amounts) -> frozenset[tuple[str, int]]:
    return frozenset(amounts.items())
