"""The queue of live migrations: at most so many at once from and to a host, and between two cells.

It is Lamport's bakery, with the journal as the shared memory: a migration takes a ticket that is higher than all it
sees, and waits for those with lower tickets and for those that are drawing one, so two cannot miss each other.
Nothing is reserved while a migration waits. All that wait in one process share what it reads.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Self

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Superseded, Unavailable
from whimbrel.domain.ids import RunId
from whimbrel.domain.live_policy import LiveRules
from whimbrel.moves.facts import Move, MoveFacts, live_of, moves_of, source_of, target_of
from whimbrel.moves.steps.guest_transfer import transfer
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.backoff import PollDelay

WAIT_S = 300.0
"""How long one try waits."""

Place = tuple[int, RunId]
"""A ticket, and the run that has it."""


async def draw_ticket(move: Move, cloud: Cloud) -> MoveFacts:
    """Return the facts with a ticket that is higher than those of all others that are under way."""
    ticket = 1 + await cloud.journal.highest_ticket()
    return replace(move.facts, live=replace(live_of(move), ticket=ticket))


async def await_turn(move: Move, cloud: Cloud) -> None:
    """Wait until few enough live migrations with lower tickets are under way on the same hosts and link.

    Once it is a migration's turn, it stays so: later tickets are higher. So an outdated reading can only make it wait
    too long, unless the reading is older than the ticket. Where nothing is limited, nothing is read.
    Raises: Superseded: it was turned back meanwhile; Unavailable: it is not its turn yet.
    """

    async def read() -> Queue:
        found = await cloud.journal.find(RunFilter(sagas=(move.saga,), only_open=True))
        return Queue.of(moves_of(found), cloud.rules.live)

    if not any(_keys(move, cloud.rules.live)):
        return
    until, delay = cloud.clock.now() + WAIT_S, PollDelay(cloud.clock, 0.2, 2.5)
    number, queue = await cloud.live_queue.after(cloud.live_queue.begun, read)
    while words := queue.held_up(move, cloud.rules.live):
        if cloud.clock.now() >= until:
            raise Unavailable(words)
        await delay.wait()
        number, queue = await cloud.live_queue.after(number, read)
        if queue.epochs.get(move.id) != move.epoch:
            raise Superseded(f"run {move.id} went on meanwhile")


class Queue(msgspec.Struct, frozen=True):
    """The open live migrations. places: of those that may still transfer something, by what they use, sorted."""

    epochs: dict[RunId, int]
    is_drawing: bool  # whether one of them draws a ticket now
    places: dict[str, list[Place]]

    @classmethod
    def of(cls, moves: Iterable[Move], rules: LiveRules) -> Self:
        epochs: dict[RunId, int] = {}
        places: defaultdict[str, list[Place]] = defaultdict(list)
        is_drawing = False
        for move in moves:
            epochs[move.id] = move.epoch
            if not move.facts.live or not _takes_part(move):
                continue
            if move.at == draw_ticket.__name__ and move.way == "forward" and not move.problem:
                is_drawing = True
            elif live_of(move).ticket:
                for key, _ in _keys(move, rules):
                    places[key].append(_place(move))
        return cls(epochs, is_drawing, {key: sorted(found) for key, found in places.items()})

    def held_up(self, move: Move, rules: LiveRules) -> str:
        """Return what a migration waits for, in words; "": it is its turn."""
        if self.is_drawing:
            return "another live migration is about to queue up"
        for key, most in _keys(move, rules):
            before = bisect_left(self.places.get(key, []), _place(move))
            if before >= most:
                return f"queued: {before} live migrations {key} are before it"
        return ""


def _place(move: Move) -> Place:
    return live_of(move).ticket, move.id


def _keys(move: Move, rules: LiveRules) -> Iterator[tuple[str, int]]:
    """Yield the hosts and the link that a migration uses, in words, each with how many may use it at once."""
    if move.facts.target is None:
        return
    source, target = source_of(move), target_of(move)
    if rules.at_once_per_host:
        yield f"of host {source.host}", rules.at_once_per_host
        yield f"of host {target.host}", rules.at_once_per_host
    if rules.at_once_per_link and source.cell != target.cell:
        yield f"between the cells {' and '.join(sorted((source.cell, target.cell)))}", rules.at_once_per_link


def _takes_part(move: Move) -> bool:
    """Check whether a migration may still transfer something."""
    if move.is_over or move.is_foreign:
        return False
    return transfer.__name__ in move.debts if move.at == "debts" else not _has_arrived(move)


def _has_arrived(move: Move) -> bool:
    done = (entry for entry in move.log if entry.step == transfer.__name__ and entry.outcome == "done")
    return any(entry.way == "do" for entry in done)
