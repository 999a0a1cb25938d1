"""Leave out an undo, a wait, a save, a line, a fence, a guard: is it noticed? `make mutants`, one alone: ONLY="name".

Each mutant is run in stories of its kind until one goes wrong; a mutant that no story notices survives, and that is a
hole in the stories. The stories that noticed are then run with nothing left out. Exit code 1 if a mutant survives, or
if a story fails with nothing left out.

mutant_hints.json has the play that noticed each mutant last. It is tried first, which saves most of the time; if it
does not notice, all others are searched. Each run of this command updates the file; nothing else depends on it.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path

import structlog

from tests.stories.leaving_out import Mutant
from tests.stories.move_plays import TOLD, groups_of, undisturbed
from tests.stories.mutations import mutants
from tests.stories.plays import Notice, first_failure

HINTS = Path(__file__).with_name("mutant_hints.json")

Hint = tuple[str, str]
"""The names of a group and of a play in it."""


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    names = [name for name in by_name() if asked.only in name]
    chosen = names[asked.part % asked.one_in :: asked.one_in]
    asyncio.run(undisturbed(TOLD[0]))  # so that each process has compiled statements
    with get_context("fork").Pool(asked.processes, _be_quiet, maxtasksperchild=1) as pool:
        notices = _judge_all(pool, chosen)
        unfair = _complaints(pool, {name: notice for name, notice in notices.items() if notice})
    survivors = [name for name, notice in notices.items() if not notice]
    _remember(notices)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} are noticed; no story notices: {survivors or 'none'}")
    print(f"stories that fail with nothing left out: {unfair or 'none'}")
    return 1 if survivors or unfair else 0


@cache
def by_name() -> Mapping[str, Mutant]:
    return {mutant.name: mutant for mutant in mutants()}


# With a part left out


def _judge_all(pool: Pool, names: Sequence[str]) -> dict[str, Notice | None]:
    began, hints, notices = time.monotonic(), _read_hints(), dict[str, Notice | None]()
    for name, notice in pool.imap_unordered(_judge, [(name, hints.get(name)) for name in names]):
        notices[name] = notice
        print(
            f"{len(notices)}/{len(names)} {time.monotonic() - began:.0f} s  {name}: {notice or 'SURVIVES'}", flush=True
        )
    return notices


def _judge(asked: tuple[str, Hint | None]) -> tuple[str, Notice | None]:
    name, hint = asked
    return name, asyncio.run(noticed(by_name()[name], hint))


async def noticed(mutant: Mutant, hint: Hint | None) -> Notice | None:
    """Run plays with a mutant, first the hinted one, then the others of its group; return the first failure."""
    with mutant.patch():
        groups = list(groups_of(mutant))
        if hint:
            hinted = [group for group in groups if group.name == hint[0]]
            for group in hinted:
                if notice := await first_failure(group, hint[1:]):
                    return notice
            groups = hinted + [group for group in groups if group not in hinted]
        for group in groups:
            if notice := await first_failure(group):
                return notice
    return None


# With nothing left out


def _complaints(pool: Pool, notices: Mapping[str, Notice]) -> list[str]:
    """Run the plays that noticed something with nothing left out; return what fails."""
    noticed = sorted((by_name()[name].kind, notice.hint, name) for name, notice in notices.items())
    asked = list[tuple[str, str, set[str]]]()
    for (_, group), found in groupby(noticed, lambda one: (one[0], one[1][0])):
        plays = {play: name for _, (_, play), name in found}
        asked.append((next(iter(plays.values())), group, set(plays)))
    return [str(notice) for notice in pool.imap_unordered(_control, asked) if notice]


def _control(asked: tuple[str, str, set[str]]) -> Notice | None:
    name, hinted, plays = asked
    [group] = [group for group in groups_of(by_name()[name]) if group.name == hinted]
    return asyncio.run(first_failure(group, plays))


# Hints


def _read_hints() -> dict[str, Hint]:
    if not HINTS.exists():
        return {}
    told = json.loads(HINTS.read_text())
    return {name: (group, play) for group, plays in told.items() for play, names in plays.items() for name in names}


def _remember(notices: Mapping[str, Notice | None]) -> None:
    """Note the play that noticed each mutant; forget mutants that are gone or survived."""
    found = {name: notice and notice.hint for name, notice in notices.items()}
    hints = {name: hint for name, hint in {**_read_hints(), **found}.items() if hint and name in by_name()}
    told: dict[str, dict[str, list[str]]] = {}
    for (group, play), name in sorted((hint, name) for name, hint in hints.items()):
        told.setdefault(group, {}).setdefault(play, []).append(name)
    HINTS.write_text(json.dumps(told, indent=1) + "\n")


# The command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.stories.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name has this")
    parser.add_argument("--processes", type=int, default=2, help="how many are told stories at once")
    parser.add_argument("--one-in", type=int, default=1, help="one of so many")
    parser.add_argument("--part", type=int, default=0, help="which of them: any number")
    return parser


def _be_quiet() -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[lambda *_: ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
