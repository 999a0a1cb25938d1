"""Compare what hosts, cells and Placement have carried out with the journal.

The journal is written before each order, so it is never behind. If it is, its database was restored from a backup.
Invariant: nothing is changed; nothing is assumed about an unreachable host.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from whimbrel.domain.errors import WorldError
from whimbrel.domain.guest import Ledger, Obeyed
from whimbrel.domain.ids import CellName, HostName, RunId
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Run
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.restores import RESTORING_SAGAS, KnownRun
from whimbrel.proof.lost_claims import lost_claims
from whimbrel.proof.paged_reads import each, of_cells, run_of
from whimbrel.proof.paged_reads import runs as open_runs

NEWEST = 16
"""Entries of each ledger compared at start: if the journal is behind, the last ones are unknown to it."""


FORGOTTEN_S = 6 * 24 * 3600.0
"""Maximum age of an ended run that a store must know: fences are pruned after a week."""


class Ledgers(msgspec.Struct, kw_only=True):
    """The orders that hosts have obeyed. unreachable: hosts and cells that did not answer, and the reason."""

    of_hosts: dict[HostName, Ledger] = {}
    cell_of: dict[HostName, CellName] = {}
    unreachable: dict[str, str] = {}

    @property
    def incarnation(self) -> int:
        return max((ledger.incarnation for ledger in self.of_hosts.values()), default=0)

    def entries(self) -> Iterator[tuple[HostName, Obeyed]]:
        for host, ledger in sorted(self.of_hosts.items()):
            for entry in ledger.entries:
                yield host, entry

    def runs(self) -> set[RunId]:
        return {entry.run for _, entry in self.entries()}


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """A host has carried out an order unknown to the journal. known: None: the journal has no row of the run."""

    host: HostName
    entry: Obeyed
    known: KnownRun | None

    def __str__(self) -> str:
        what = f"host {self.host} has obeyed run {self.entry.run}"
        if self.known is None:
            return f"{what}, of which the journal has no row"
        done, knows = self.entry.progress, self.known.progress
        return f"{what} up to step {done} under epoch {self.entry.epoch}, and the journal knows {knows} of them"


async def read_ledgers(cloud: Cloud, newest: int = 0) -> Ledgers:
    """Read the ledgers of all hosts from their agents. newest: maximum number of entries of each; 0: all."""
    found, down = Ledgers(), dict[CellName, str]()
    async for cell, hosts in of_cells(cloud, down, lambda cell: cell.hosts.all()):
        found.cell_of |= {host.name: cell for host in hosts}
    found.unreachable |= {f"cell {cell}": reason for cell, reason in down.items()}

    async def ask(host: HostName) -> None:
        try:
            found.of_hosts[host] = await cloud.agent(found.cell_of[host], host).ledger(newest)
        except WorldError as trouble:
            found.unreachable[f"host {host}"] = trouble.reason

    await each(sorted(found.cell_of), ask)
    return found


async def contradictions(cloud: Cloud, ledgers: Ledgers) -> list[Contradiction]:
    """Compare ledgers with the current journal."""
    known = await cloud.restores.known(sorted(ledgers.runs()))
    return list(_contradictions(ledgers.entries(), known))


def _contradictions(
    entries: Iterable[tuple[HostName, Obeyed]], known: Mapping[RunId, KnownRun]
) -> Iterator[Contradiction]:
    for host, entry in entries:
        journal = known.get(entry.run)
        if journal and journal.is_over:
            continue  # it is never driven again; a run that a restore has closed knows less than its hosts
        if journal is None or entry.epoch > journal.epoch or entry.progress > journal.progress:
            yield Contradiction(host=host, entry=entry, known=journal)


async def ahead_in_stores(cloud: Cloud, runs: Sequence[Run]) -> dict[RunId, str]:
    """Return, for those open runs that a cell or Placement knows at a later step than the journal, the reason."""
    ids = [run.id for run in runs]
    if not ids:
        return {}
    seen = [("placement", await cloud.placement.orders_of(ids))]
    async for name, found in of_cells(cloud, {}, lambda cell: cell.servers.orders_of(ids)):
        seen.append((f"cell {name}", found))
    suspects = [run.id for run in runs if list(_ahead(run, seen))]
    later = [await cloud.journal.get(run) for run in suspects]  # it may have advanced before the stores were read
    return {run.id: words for run in later if not run.is_over for words in _ahead(run, seen)}


def _ahead(run: Run, seen: Sequence[tuple[str, Mapping[RunId, KnownRun]]]) -> Iterator[str]:
    for where, orders in seen:
        order = orders.get(run.id)
        if order and (order.epoch > run.epoch or order.progress > run.order.progress):
            yield f"the database of {where} has seen step {order.progress} of it under epoch {order.epoch}"


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """A store has no trace of a completed run that wrote to it: its database is an older copy.

    cell: the cell of that database; None: Placement.
    """

    cell: CellName | None
    host: HostName
    run: Run

    def __str__(self) -> str:
        where = f"cell {self.cell}" if self.cell else "Placement"
        return (
            f"the database of {where} is an older copy: it has not seen {self.run.saga} {self.run.id}, which host"
            f" {self.host} has obeyed"
        )


async def forgotten(cloud: Cloud, ledgers: Ledgers) -> list[Forgotten]:
    """Return the runs of these ledgers that a cell or Placement should know and does not."""
    found: list[Forgotten] = []
    in_placement = await cloud.placement.orders_of(sorted(ledgers.runs()))
    for cell in sorted(set(ledgers.cell_of.values())):
        entries = [(host, entry.run) for host, entry in ledgers.entries() if ledgers.cell_of[host] == cell]
        in_cell = await _orders_in(cloud, cell, [run for _, run in entries])
        for host, run in entries:
            misses_cell, misses_placement = run not in in_cell, run not in in_placement
            done = await _done_there(cloud, run, cell, host) if misses_cell or misses_placement else None
            if done and misses_cell:
                found.append(Forgotten(cell=cell, host=host, run=done))
            if done and misses_placement and _claims(done.facts):
                found.append(Forgotten(cell=None, host=host, run=done))
    return found


async def _orders_in(cloud: Cloud, cell: CellName, runs: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
    """Return the runs that a cell knows; an unreachable cell is assumed to know all."""
    try:
        return await cloud.cell(cell).servers.orders_of(sorted(set(runs)))
    except WorldError:
        return {run: KnownRun(epoch=1, progress=1) for run in runs}


async def _done_there(cloud: Cloud, run_id: RunId, cell: CellName, host: HostName) -> Run | None:
    """Return a run if it completed and certainly locked or claimed for its server in this cell, for this host."""
    run = await run_of(cloud, run_id)
    if run is None or run.state != "done" or run.saga in RESTORING_SAGAS or not run.finished_at:
        return None
    if run.finished_at < cloud.clock.now() - FORGOTTEN_S:
        return None  # its fences may have been pruned
    return run if (cell, host) in _places(run.facts) else None


def _claims(facts: object) -> bool:
    """Check whether a run with these facts claimed its target. A rebuild is a move that claims nothing."""
    return isinstance(facts, MoveFacts) and facts.target is not None and bool(facts.target.parts)


def _places(facts: object) -> list[tuple[CellName | None, HostName | None]]:
    if isinstance(facts, MoveFacts):
        return [(place.cell, place.host) for place in (facts.source, facts.target) if place]
    return [(facts.cell, facts.host)] if isinstance(facts, OperationFacts) else []


async def check(cloud: Cloud) -> list[str]:
    """Compare the newest entries of all ledgers, and what the stores have seen, with the journal.

    Return the contradictions in sentences. Processes call it at start. Raises: Unavailable.
    """
    ledgers = await read_ledgers(cloud, NEWEST)
    found = [str(one) for one in await contradictions(cloud, ledgers)]
    opened = [run async for run in open_runs(cloud, RunFilter(only_open=True))]
    found += [f"of run {run} {words}" for run, words in (await ahead_in_stores(cloud, opened)).items()]
    return found + [str(one) for one in [*await forgotten(cloud, ledgers), *await lost_claims(cloud, opened)]]
