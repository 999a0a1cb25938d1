"""Runs as migrations, in Nova's words."""

from whimbrel.domain.run import Run

MOVE_SAGAS = frozenset({"resize", "migrate"})
"""Cold moves: they wait for a verdict."""

MIGRATION_TYPES = {
    "resize": "resize",
    "migrate": "migration",
    "live_migrate": "live-migration",
    "evacuate": "evacuation",
}
"""Saga -> type of its migration record. Other runs have none."""


def migration_type(run: Run) -> str:
    return MIGRATION_TYPES[run.saga]


LIVE = "live_migrate"
LIVE_IN_PROGRESS = ("queued", "preparing", "running", "running (post-copy)", "post-migrating")
"""Statuses of a live migration that is shown as in progress; Nova does not show it in post-copy."""


def is_live(run: Run) -> bool:
    """Check whether a run is a live migration in progress."""
    return run.saga == LIVE and not run.is_over and run.status in LIVE_IN_PROGRESS
