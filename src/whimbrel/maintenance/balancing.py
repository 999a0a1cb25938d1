"""Plan moves among hosts until their used shares differ by no more than a stated spread.

Invariants: no spread that is wider than asked for is wider after the plan than before. No server moves twice. A target
has room for it before any other server has left.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice

import numpy as np

from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.server import Server
from whimbrel.maintenance.goal_draft import GoalDraft
from whimbrel.maintenance.host_shares import HostShares
from whimbrel.maintenance.target_planning import Examined, Way, examine
from whimbrel.maintenance.unevenness import ROUNDING, MoveOrder, Unevenness

NOT_BALANCED = "no servers are balanced there"
WORDS = ("its vcpus", "its memory", "its disk")
MOST_TRIED = 5000
"""How many of the possible moves are looked at for the next one, the best first."""
MOST_COMPARED = 50
"""How many of these are preferred if they reach the goal alone."""
MOST_NAMED = 3
"""How many servers of a host are named that cannot move."""


@dataclass
class Balancer:
    """Adds moves of `servers` to a draft. spread: a share. Equal moves: that of the server that comes first."""

    draft: GoalDraft
    servers: Sequence[Server]
    spread: float
    _examined: dict[ServerId, Examined] = field(default_factory=dict)
    _ways: dict[ServerId, Way | str] = field(default_factory=dict)
    """Of servers of which a move was not possible: with all targets among the hosts."""
    _impossible: set[tuple[ServerId, HostName]] = field(default_factory=set)

    async def balance(self) -> None:
        """Plan moves without downtime; then those with downtime if it is allowed and the goal needs them."""
        for downtime in (False, True) if self.draft.planner.options.allow_downtime else (False,):
            while not self._now.is_acceptable and await self.add_move(downtime=downtime):
                pass
        if self._now.is_acceptable:
            self._withdraw_needless()
        self._state_purposes()
        await self._state_reasons()

    @property
    def _now(self) -> Unevenness:
        return Unevenness(self.draft.shares, self.spread)

    async def add_move(self, *, downtime: bool) -> bool:
        """Add the move that makes the use of the hosts most even. Return whether there is one."""
        planner = self.draft.planner
        for row, column in self._candidates():
            await asyncio.sleep(0)  # or no other request of the process has its turn meanwhile
            server, target = self.servers[row], self.draft.shares.hosts[column]
            if server.id in self._ways and not self._permits(self._ways[server.id], target, downtime=downtime):
                continue
            found = await self._examine(server)
            planner.choose_among({target})  # anew: the moves before have claimed something
            now = await planner.way(found)
            if isinstance(now, str) or not self._permits(now, target, downtime=downtime):
                if isinstance(now, str):
                    self._impossible.add((server.id, target))
                await self._way(server)  # so that not each of its targets is tried
                continue
            await self.draft.add(found, now, now.choices[0], "")
            self._order.moved(row, column, self._now)
            return True
        return False

    def _candidates(self) -> Iterator[tuple[int, int]]:
        """Yield rows of servers and hosts, the best moves first; before them those of the best that reach the goal."""
        now, best = self._now, self._order.best(MOST_TRIED)
        if now.may_end_by_one_move:
            first = list(islice(best, MOST_COMPARED))
            first.sort(key=lambda move: not Unevenness(self._after(*move), self.spread).is_acceptable)
            best = chain(first, best)
        for row, column in best:
            is_possible = (self.servers[row].id, self.draft.shares.hosts[column]) not in self._impossible
            if is_possible and now.is_no_wider(self._after(row, column)):
                yield row, column

    @cached_property
    def _order(self) -> MoveOrder:
        """Return the order of the moves of all servers, before the first one is planned."""
        shares = self.draft.shares
        needs = np.array([shares.needs[server.id] for server in self.servers]).reshape(len(self.servers), -1)
        return MoveOrder(self._now, needs, [shares.row[server.host] for server in self.servers if server.host])

    def _after(self, row: int, column: int) -> HostShares:
        server, shares = self.servers[row], self.draft.shares
        assert server.host, "it was found on a host"
        return shares.after(server.id, server.host, shares.hosts[column])

    async def _examine(self, server: Server) -> Examined:
        if server.id not in self._examined:
            planner = self.draft.planner
            self._examined[server.id] = await examine(planner.cloud, server, planner.options)
        return self._examined[server.id]

    async def _way(self, server: Server) -> Way | str:
        """Return how a server can move, with all its targets among the hosts."""
        if server.id not in self._ways:
            planner, hosts = self.draft.planner, self.draft.shares.hosts
            found = await self._examine(server)
            planner.choose_among(hosts)
            self._ways[server.id] = await planner.way(found, len(hosts))
        return self._ways[server.id]

    @staticmethod
    def _permits(way: Way | str, target: HostName, *, downtime: bool) -> bool:
        if isinstance(way, str) or (way.downtime and not downtime):
            return False
        return target in {choice.host for choice in way.choices}

    # The whole plan

    def _withdraw_needless(self) -> None:
        """Withdraw moves without which the goal is reached as well: first those with downtime, then the last ones."""
        moves = [item for item, _ in self.draft.moves]
        for item in sorted(moves, key=lambda item: (not item.downtime, -item.position)):
            number = [each.server_id for each, _ in self.draft.moves].index(item.server_id)
            assert item.target, "it moves"
            without = self.draft.shares.after(item.server_id, item.target, item.source)
            if Unevenness(without, self.spread).is_acceptable:
                self.draft.withdraw(number)

    def _state_purposes(self) -> None:
        """State for each move the use of its two hosts at its turn."""
        moves, shares = list(self.draft.moves), self.draft.shares
        for item, choice in reversed(moves):
            shares = shares.after(item.server_id, choice.host, item.source)
        for number, (item, choice) in enumerate(moves):
            purpose = self._purpose(shares, item.source, choice.host)
            self.draft.state_purpose(number, purpose)
            shares = shares.after(item.server_id, item.source, choice.host)

    def _purpose(self, shares: HostShares, source: HostName, target: HostName) -> str:
        gap = shares.shares[shares.row[source]] - shares.shares[shares.row[target]]
        is_wide = shares.spreads > self.spread + ROUNDING
        resource = int(np.argmax(np.where(np.isnan(gap) | ~is_wide, -np.inf, gap)))
        return (
            f"{source} has {shares.percent(source, resource)} of {WORDS[resource]} used,"
            f" {target} {shares.percent(target, resource)}"
        )

    async def _state_reasons(self) -> None:
        """State why the hosts that are used most are still too full."""
        shares, too_full = self.draft.shares, defaultdict[HostName, list[str]](list)
        for resource in np.flatnonzero(shares.spreads > self.spread + ROUNDING).tolist():
            host = shares.hosts[int(np.nanargmax(shares.shares[:, resource]))]
            too_full[host].append(f"{shares.percent(host, resource)} of {WORDS[resource]}")
        for host, used in too_full.items():
            self.draft.reasons[host] = f"{', '.join(used)} stay used: {await self._why_full(host)}"

    async def _why_full(self, host: HostName) -> str:
        planned = {item.server_id for item, _ in self.draft.moves}
        here = [server for server in self.servers if server.host == host and server.id not in planned]
        named = [
            f"server {server.name} ({server.id}) cannot move: {way}"
            for server in here
            if isinstance(way := await self._way(server), str)
        ]
        if not named:
            return "no move of another of its servers makes the use more even"
        more = f"; and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        return "; ".join(named[:MOST_NAMED]) + more

    async def why_not(self, server: Server) -> str:
        """Return why a server has no move."""
        way = await self._way(server)
        return way if isinstance(way, str) else "its move would not make the use of the hosts more even"
