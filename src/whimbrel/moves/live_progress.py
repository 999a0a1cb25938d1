"""The progress of live migrations, as the step that transfers the guest last noted it."""

from collections.abc import Iterable, Mapping

import msgspec

from whimbrel.domain.ids import RunId
from whimbrel.domain.run import Run
from whimbrel.moves.steps.guest_transfer import LiveProgress
from whimbrel.ports.cloud import Cloud

__all__ = ["LiveProgress", "percent", "progress_of"]

_decode = msgspec.json.Decoder(LiveProgress).decode


async def progress_of(cloud: Cloud, runs: Iterable[Run]) -> Mapping[RunId, LiveProgress]:
    """Return the progress of those of these runs whose transfer has begun."""
    found = await cloud.journal.progress([run.id for run in runs])
    return {run: _decode(document) for run, document in found.items()}


def percent(noted: LiveProgress) -> int:
    """Return how much of the memory has been copied. Source: Nova's libvirt driver."""
    total, remaining = noted.progress.memory_total, noted.progress.memory_remaining
    return round(100 * (total - remaining) / total) if total else 0
