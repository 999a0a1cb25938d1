"""Plays: one story under one plan of faults each. They are what mutants are run against.

Plays of one story are a group, which lists them when they are asked for: to list its touches a story has to be played.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Container
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

import pytest

from whimbrel.sim.checks.invariants import Violation

Run = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Play:
    """name: its faults, "" without any. run: raises if the story ends wrong."""

    name: str
    run: Run


@dataclass(frozen=True)
class Group:
    """list: raises if something is left out without which not even the touches can be listed."""

    name: str
    list: Callable[[], AsyncIterator[Play]]


@dataclass(frozen=True)
class Notice:
    """A play that failed. play: "" also if the group could not list its plays."""

    group: str
    play: str
    why: str

    def __str__(self) -> str:
        return f"{self.group}{self.play and f', {self.play}'}: {self.why}"

    @property
    def hint(self) -> tuple[str, str]:
        return self.group, without_number(self.play)


def alone(name: str, run: Run) -> Group:
    """Return a group of one play."""

    async def plays() -> AsyncIterator[Play]:
        yield Play("", run)

    return Group(name, plays)


def every(plays: Callable[..., AsyncIterator[Play]], of: object) -> Group:
    """Return a group of all plays that a function lists of a story."""
    return Group(f"{of}, {plays.__name__}", partial(plays, of))


async def first_failure(group: Group, only: Container[str] | None = None) -> Notice | None:
    """Return the first play of a group that fails. only: plays of these names, without the numbers of their touches."""
    name = ""
    try:
        async with aclosing(group.list()) as plays:  # type: ignore[type-var]
            async for play in plays:
                name = play.name
                if only is None or without_number(name) in only:
                    await play.run()
                name = ""
    except (Exception, Violation, pytest.fail.Exception) as error:
        return Notice(group.name, name, line_of(error))
    return None


def without_number(play: str) -> str:
    """Leave out at which touch a fault happens: it is another one as soon as a step is added before it."""
    return re.sub(r" at \d+ ", " at ", play)


def line_of(error: BaseException) -> str:
    return (f"{type(error).__name__} {error}".strip().splitlines() or [""])[0][:110]
