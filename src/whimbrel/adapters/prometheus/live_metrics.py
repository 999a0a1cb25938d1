"""Metrics of the live migrations whose transfers are under way, as the journal has them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from whimbrel.domain.ids import RunId
from whimbrel.domain.run import Run
from whimbrel.moves.live_progress import LiveProgress, progress_of
from whimbrel.moves.migration_status import LIVE, LIVE_IN_PROGRESS
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter

PROSPECTS = ("converging", "diverging", "post_copy", "silent", "unknown")
STATUSES = [status for status in LIVE_IN_PROGRESS if status.startswith("running")]

Transfers = Sequence[tuple[Run, LiveProgress | None]]
"""The live migrations that are being transferred, each with its last progress."""


async def transfers(cloud: Cloud) -> Transfers:
    runs = await cloud.journal.find(RunFilter(sagas=(LIVE,), statuses=STATUSES, only_open=True))
    noted: Mapping[RunId, LiveProgress] = await progress_of(cloud, runs) if runs else {}
    return [(run, noted.get(run.id)) for run in runs]


def of_transfers(found: Transfers) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "whimbrel_live_transfers",
        "Live migrations whose guest is being transferred; prospect: converging, diverging (it will not end at this"
        " rate), post_copy, silent (a host gives no answer), unknown.",
        labels=("prospect",),
    )
    counted = Counter(prospect(run, noted) for run, noted in found)
    for name in PROSPECTS:
        family.add_metric((name,), counted[name])
    yield family
    known = [noted.progress for _, noted in found if noted]
    longest = max((progress.elapsed_s for progress in known), default=0.0)
    yield _gauge("whimbrel_live_transfers_longest_seconds", "For how long one of them has gone on.", longest)
    left = sum(progress.memory_remaining + progress.disk_remaining for progress in known)
    yield _gauge("whimbrel_live_transfers_remaining_bytes", "What they have still to copy.", left)
    rate = sum(progress.rate for progress in known)
    yield _gauge("whimbrel_live_transfers_bytes_per_second", "What they copy.", rate)


def prospect(run: Run, noted: LiveProgress | None) -> str:
    """Return what is to be expected of a transfer."""
    if run.tries:
        return "silent"
    if noted is None:
        return "unknown"
    if noted.progress.is_post_copy:
        return "post_copy"
    if noted.ends_in_s is not None:
        return "converging"
    return "diverging" if noted.progress.rate else "unknown"


def _gauge(name: str, says: str, value: float) -> Metric:
    return GaugeMetricFamily(name, says, value=value)
