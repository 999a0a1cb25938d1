"""Runs as migrations, in Nova's words."""

from whimbrel.domain.run import Run

MOVE_SAGAS = frozenset({"resize", "migrate"})

_TYPES = {"resize": "resize", "migrate": "migration"}


def migration_type(run: Run) -> str:
    return _TYPES[run.saga]
