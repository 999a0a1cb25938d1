"""Unique prefixes of ids, for terminals on which whole ids do not fit."""

from collections.abc import Sequence

SHORTEST = 8


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """Return unique prefixes of equal length: id -> prefix."""
    length = SHORTEST
    while len({id[:length] for id in ids}) < len(set(ids)):
        length += 1
    return {id: id[:length] for id in ids}
