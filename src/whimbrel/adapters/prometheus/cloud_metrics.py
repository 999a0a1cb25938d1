"""Metrics of the cloud, read from the journal and the cells on a scrape, and cached for some seconds.

Invariant: a value that cannot be read is left out, never shown stale; the scrape succeeds without it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from whimbrel.adapters.prometheus.live_metrics import Transfers, of_transfers, transfers
from whimbrel.adapters.prometheus.maintenance_metrics import Maintenances, maintenances, of_maintenances
from whimbrel.domain.errors import WorldError
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import Backlog, LastProof, RunGroup, Tally
from whimbrel.ports.stores.processes import LEASE_S, ProcessRecord

FRESH_S = 5.0
"""How long cached values are served."""
TIMEOUT_S = 3.0
"""Time limit per store; Prometheus gives up after 10 seconds."""

T = TypeVar("T")

AT = ("kind", "step", "way")
STATES = ("up", "disabled", "down", "forced_down")


class Readings(Collector):
    """The last values read. `refresh` reads them; Prometheus's library collects them synchronously."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._read_at = float("-inf")
        self._now = 0.0
        self._tally: Tally | None = None
        self._hosts: dict[CellName, Sequence[Host] | None] = {}
        self._is_held: bool | None = None
        self._processes: Sequence[ProcessRecord] | None = None
        self._transfers: Transfers | None = None
        self._maintenances: Maintenances | None = None
        self._reading = asyncio.Lock()

    async def refresh(self) -> None:
        """Read all values, unless they are recent."""
        async with self._reading:
            now = self._cloud.clock.now()
            if 0 <= now - self._read_at < FRESH_S:
                return
            cloud, cells = self._cloud, dict(self._cloud.cells)
            self._tally, restores, self._processes, infos, hosts = await asyncio.gather(
                _in_time(cloud.journal.tally(now)),
                _in_time(cloud.restores.state()),
                _in_time(cloud.processes.live(LEASE_S)),
                _in_time(cloud.cell_infos.all()),  # a cell whose database is unreachable may not be open
                asyncio.gather(*(_in_time(cell.hosts.all()) for cell in cells.values())),
            )
            self._transfers, self._maintenances = await asyncio.gather(
                _in_time(transfers(cloud)), _in_time(maintenances(cloud))
            )
            self._is_held = None if restores is None else restores.hold is not None
            names = [info.name for info in infos or ()]
            self._hosts = dict.fromkeys(names) | dict(zip(cells, hosts, strict=True))
            self._read_at = self._now = now

    def collect(self) -> Iterator[Metric]:
        return metrics_of(
            tally=self._tally,
            transfers=self._transfers,
            maintenances=self._maintenances,
            hosts=self._hosts,
            processes=self._processes,
            is_held=self._is_held,
            now=self._now,
        )


def metrics_of(
    *,
    tally: Tally | None,
    transfers: Transfers | None,
    maintenances: Maintenances | None,
    hosts: Mapping[CellName, Sequence[Host] | None],
    processes: Sequence[ProcessRecord] | None,
    is_held: bool | None,
    now: float,
) -> Iterator[Metric]:
    """Yield the metrics of what was read at `now`; None: it could not be read."""
    yield _gauge("whimbrel_journal_up", "Whether the global database answered.", int(tally is not None))
    if tally is not None:
        yield from _of_runs(tally, now)
        yield from _of_proof(tally.proof)
        yield from _of_backlog(tally.backlog, now)
    if transfers is not None:
        yield from of_transfers(transfers)
    if maintenances is not None:
        yield from of_maintenances(maintenances)
    yield from _of_hosts(hosts, now)
    if processes is not None:
        yield _of_clocks(processes)
    if is_held is not None:
        yield _gauge("whimbrel_held", "1: all runs are held, because a database was restored.", int(is_held))


async def _in_time(reading: Awaitable[T]) -> T | None:
    """Return what a store answers; None: it does not answer in time."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await reading
    except (WorldError, TimeoutError):
        return None


# Runs


def _of_runs(tally: Tally, now: float) -> Iterator[Metric]:
    open_ = [group for group in tally.open if group.state == "open"]
    parked = [group for group in tally.open if group.state == "parked"]
    yield _by_step("whimbrel_runs_open", "Runs that are under way.", ((group, group.runs) for group in open_))
    yield _by_step(
        "whimbrel_runs_open_oldest_seconds",
        "For how long the oldest of them has been under way.",
        ((group, now - group.oldest) for group in open_),
    )
    yield _by_step(
        "whimbrel_runs_open_longest_at_step_seconds",
        "For how long one of them has stood at its step.",
        ((group, now - group.longest) for group in open_),
    )
    yield _by_step(
        "whimbrel_runs_open_bugs", "Runs that stand still at a bug.", ((group, group.bugs) for group in open_)
    )
    late = max((now - group.due for group in open_), default=0.0)
    yield _gauge("whimbrel_runs_overdue_seconds", "For how long a run that is due was not taken.", max(late, 0.0))
    yield from _of_parked(parked, now)
    yield from _of_debts(tally, now)
    yield _counter("whimbrel_lease_takeovers", "Runs taken over because a lease had run out.", tally.takeovers)
    ended = CounterMetricFamily(
        "whimbrel_runs_ended",
        "Runs that have ended; outcome: done, refused, reverted, or asked to turn back.",
        labels=("kind", "outcome"),
    )
    for (kind, outcome), runs in sorted(tally.ended.items()):
        ended.add_metric((kind, outcome), runs)
    yield ended


def _of_parked(parked: Iterable[RunGroup], now: float) -> Iterator[Metric]:
    count = GaugeMetricFamily("whimbrel_runs_parked", "Moves that wait for confirm or revert.", labels=("kind",))
    oldest = GaugeMetricFamily(
        "whimbrel_runs_parked_oldest_seconds", "For how long one of them has waited.", labels=("kind",)
    )
    runs, since = Counter[str](), dict[str, float]()
    for group in parked:
        runs[group.saga] += group.runs
        since[group.saga] = min(since.get(group.saga, now), now if group.parked is None else group.parked)
    for kind, number in sorted(runs.items()):
        count.add_metric((kind,), number)
        oldest.add_metric((kind,), now - since[kind])
    yield from (count, oldest)


def _of_debts(tally: Tally, now: float) -> Iterator[Metric]:
    debts = GaugeMetricFamily("whimbrel_debts", "Undos that are still owed, by step.", labels=("step",))
    for step, runs in sorted(tally.debts.items()):
        debts.add_metric((step,), runs)
    yield debts
    oldest = 0.0 if tally.debts_since is None else now - tally.debts_since
    yield _gauge("whimbrel_debts_oldest_seconds", "For how long a run has been at it to pay its debts.", oldest)


def _of_proof(proof: LastProof | None) -> Iterator[Metric]:
    """Yield the metrics of the latest proof; none before the first one."""
    if proof is None:
        return
    yield _gauge("whimbrel_last_proof_timestamp_seconds", "When the cloud was last proved.", proof.at)
    yield _gauge("whimbrel_last_proof_violations", "How many violations that found.", proof.violations)
    yield _gauge("whimbrel_last_proof_unseen", "How much of the cloud it could not look at.", proof.unseen)


def _of_backlog(backlog: Backlog | None, now: float) -> Iterator[Metric]:
    """Yield the metrics of notifications; none if they are off."""
    if backlog is None:
        return
    yield _gauge("whimbrel_notifications_waiting", "Runs and requests with notifications to be sent.", backlog.marked)
    oldest = 0.0 if backlog.oldest is None else max(now - backlog.oldest, 0.0)
    yield _gauge("whimbrel_notifications_oldest_seconds", "For how long one of them has not changed.", oldest)
    yield _counter("whimbrel_notifications_sent", "Notifications that the message broker confirmed.", backlog.sent)
    yield _counter(
        "whimbrel_notifications_dropped", "Notifications not sent: too old, or without a record.", backlog.dropped
    )


# Hosts


def _of_hosts(found: Mapping[CellName, Sequence[Host] | None], now: float) -> Iterator[Metric]:
    up = GaugeMetricFamily("whimbrel_cell_up", "Whether the cell's database answered.", labels=("cell",))
    hosts = GaugeMetricFamily(
        "whimbrel_hosts",
        "Hosts; state: up, disabled (up, but takes no servers), down, forced_down (an operator said so).",
        labels=("cell", "state"),
    )
    for cell, there in sorted(found.items()):
        up.add_metric((cell,), int(there is not None))
        counted = Counter(host.state(now) for host in there or ())
        for state in STATES if there is not None else ():
            hosts.add_metric((cell, state), counted[state])
    yield from (up, hosts)


# Processes


def _of_clocks(processes: Sequence[ProcessRecord]) -> Metric:
    """Return, for processes with equal labels, the largest clock offset."""
    offsets = GaugeMetricFamily(
        "whimbrel_process_clock_offset_seconds",
        "How far the clock of a live process is ahead of the database's.",
        labels=("role", "process", "host"),
    )
    shown: dict[tuple[str, str, str], float] = {}
    for process in processes:
        labels = process.role, process.name, process.host
        shown[labels] = max(shown.get(labels, 0.0), process.clock_offset_s, key=abs)
    for labels, offset_s in sorted(shown.items()):
        offsets.add_metric(labels, offset_s)
    return offsets


# Format


def _by_step(name: str, says: str, values: Iterable[tuple[RunGroup, float]]) -> Metric:
    family = GaugeMetricFamily(name, says, labels=AT)
    for group, value in values:
        family.add_metric((group.saga, group.at, group.way), value)
    return family


def _gauge(name: str, says: str, value: float) -> Metric:
    return GaugeMetricFamily(name, says, value=value)


def _counter(name: str, says: str, value: float) -> Metric:
    return CounterMetricFamily(name, says, value=value)
