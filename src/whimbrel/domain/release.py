"""Releases of Whimbrel, and what a process of one can process."""

from collections.abc import Iterable

import msgspec


class Knowledge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process can process. Empty: the process is of a release that does not say (before 0.2)."""

    sagas: dict[str, tuple[int, ...]] = {}  # name -> the versions of its list of steps
    schemas: dict[str, str] = {}  # kind of database -> the newest version of its schema
    facts: tuple[str, ...] = ()  # facts that it heeds, of those that were added to lists without a new version
    parts: tuple[str, ...] = ()  # the parts that it has of those of which a cloud has one
    conducts: bool = True  # whether it has a conductor, if its role may have one: not `up --no-conductor`


def number_of(release: str) -> tuple[int, ...]:
    """Return the numbers of a release: "0.2.0.dev1" is (0, 2, 0)."""
    numbers: list[int] = []
    for part in release.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)


def floor_of(releases: Iterable[str]) -> str | None:
    """Return the oldest of these releases; None: there are none."""
    return min(releases, key=number_of, default=None)
