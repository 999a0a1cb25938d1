"""Leave out an undo, a wait, a save, a line, a fence, a guard: is it noticed? `make mutants`, one alone: ONLY="name".

Each mutant is told stories of its kind of run until one goes wrong; a mutant whom no story notices survives, and that
is a hole in the stories. Exit code 1 when fewer than 95 % are noticed, or when stories complain of nothing.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from multiprocessing import get_context

import pytest
import structlog

from tests.sim import test_run
from tests.sim.test_found import hand_over_late
from tests.stories import guards, kinds, test_cells
from tests.stories.again import knows_no_epochs, wakes_in_a_later_move
from tests.stories.choosing import may_come_late
from tests.stories.kinds import Attempt, line_of
from tests.stories.leaving_out import Mutant
from tests.stories.move_stories import LIVE_STORIES, STORIES
from tests.stories.mutations import CONTROL, HELD_UP, mutants
from tests.stories.restored_mutations import RESTORED
from tests.stories.test_crashes import (
    check,
    may_refuse,
    play,
    play_late,
    play_late_and_refused,
    revert_in_sight,
    revert_without_a_source,
)
from tests.stories.test_live_transfers import (
    test_a_host_without_the_processor_is_passed_over,
    test_an_abort_at_any_instant_leaves_it_here_or_there,
    test_so_many_at_once_and_no_more,
    test_what_dies_in_the_middle_of_a_transfer,
    the_guest_goes_off,
)
from tests.stories.test_switches import edited_at_every_touch
from tools.faultmap import pages
from tools.faultmap.drawn import draw
from tools.faultmap.variants import DEVICES, Variant
from tools.scenarios.incarnations import sleeping
from tools.scenarios.moves import Story, Trial
from whimbrel.moves.live_migrate import LIVE_MIGRATE
from whimbrel.sim.checks.invariants import Violation, books
from whimbrel.sim.faults.chaos import Fault, changes

ENOUGH = 0.95

TOLD = tuple(
    story
    for name in (
        "resize, revert",
        "resize, confirm",
        "resize to fewer cpus, confirm",
        "resize on the same host, revert",
        "cold migration of a stopped server to a named host, revert",
        "resize with ports and volumes, revert",
        "resize with ports and volumes, confirm",
        "resize with ports and volumes on the same host, revert",
        "resize with a virtual function, revert",
        "resize with a virtual function, confirm",
        "resize with ports and volumes to another cell, revert",
        "resize to another cell, revert",
        "resize to another cell, confirm",
    )
    for story in STORIES
    if story.name == name
)
"""What a mutant is told: those in which most goes back come first."""

LIVE_TOLD = tuple(
    story
    for name in (
        "live migration with ports and volumes to another cell, aborted",
        "live migration with ports and volumes, aborted",
        "live migration with ports and volumes to another cell",
        "live migration of a paused server to a named host",
        "live migration with ports and volumes",
    )
    for story in LIVE_STORIES
    if story.name == name
)
"""The same for mutants of live migrations."""

DRAWN = {
    "cell": Variant("resize", "other cell", "image", DEVICES[1], "revert"),
    "function": Variant("resize", "same cell", "image", "PCI", "revert"),
}
"""What is drawn on the fault map for those whom no story noticed, by what they are about."""


def attempts(about: str) -> Iterator[Attempt]:
    """List what a mutant of a resize is told: all stories without faults, then those that it is about with them."""
    yield from (partial(undisturbed, story) for story in sorted(TOLD, key=lambda story: about not in story.name))
    result = [story for story in TOLD if (about in story.name if about else not (story.devices or story.function))]
    if about == "cell":
        yield early
    if about == HELD_UP:
        yield held_up
    back = [story for story in result if story.end == "revert"]
    yield from (partial(nowhere, story) for story in back if not (story.same_host or story.stopped))
    yield from (partial(disturbed, story) for story in result[:1])
    if about == "ports":
        yield late_activation
        yield from (partial(again, story) for story in back)
    yield from (partial(disturbed, story) for story in result[1:])
    yield from (partial(edited, story) for story in result if story.crosses and not story.devices)
    yield from (partial(drawn, DRAWN[about]) for _ in range(about in DRAWN))


async def noticed(mutant: Mutant) -> str | None:
    """Run stories with a mutant; return the first that fails."""
    with mutant.patch():
        for attempt in _attempts(mutant):
            try:
                why = await attempt()
            except (Exception, Violation) as error:  # where it goes wrong, not even the touches can be listed
                why = line_of(error)
            if why:
                return why
    return None


def live_attempts(about: str) -> Iterator[Attempt]:
    """List what a mutant of a live migration is told: stories without faults, those of one trouble, all with faults."""
    yield from (partial(undisturbed, story) for story in LIVE_TOLD)
    for act in (test_so_many_at_once_and_no_more, test_a_host_without_the_processor_is_passed_over):
        yield partial(_complaint, act)
    yield partial(_complaint, partial(test_what_dies_in_the_middle_of_a_transfer, the_guest_goes_off))
    yield partial(_complaint, partial(test_an_abort_at_any_instant_leaves_it_here_or_there, LIVE_TOLD[-1]))
    chosen = [story for story in LIVE_TOLD if not about or about in story.name]
    yield from (partial(nowhere, story) for story in chosen if story.end == "revert")
    yield from (partial(disturbed, story) for story in chosen)


async def _complaint(act: Callable[[], Awaitable[None]]) -> str | None:
    try:
        await act()
    except (Exception, Violation, pytest.fail.Exception) as error:
        return line_of(error)
    return None


def _attempts(mutant: Mutant) -> Iterator[Attempt]:
    if mutant.kind == LIVE_MIGRATE.name:
        return live_attempts(mutant.about)
    if mutant.kind == RESTORED:
        return guards.attempts()
    return attempts(mutant.about) if mutant.kind == "resize" else kinds.attempts(mutant.kind, mutant.about)


async def late_activation() -> str | None:
    try:
        await hand_over_late()
    except (Exception, Violation) as error:
        return f"an activation of ports comes after its undo: {line_of(error)}"
    return None


async def undisturbed(story: Story) -> str | None:
    try:
        await check(await Trial(story).play(), story, may_be_nothing=False)
        if story.end == "revert" and not story.live:
            await revert_without_a_source(story)
            await revert_in_sight(story)
    except (Exception, Violation) as error:
        return f"{story}: {line_of(error)}"
    return None


async def nowhere(story: Story) -> str | None:
    """Let all hosts but the first refuse, one phase after the other: the result is as if it had never begun."""
    for phase in ("reserve", "fetch_disk" if story.crosses else "import_disk", "define", "start"):
        trial = Trial(story)
        await trial.set_the_scene()
        for hypervisor in list(trial.world.hypervisors.values())[1:]:
            hypervisor.refusing.add(phase)
        try:
            before = await books(trial.world)
            await trial.move(*trial.next_incarnation()[1:])
            await trial.settle()
            assert await books(trial.world) == before, "something is left"
        except (Exception, Violation) as error:
            return f"{story}, no host: {line_of(error)}"
    return None


async def again(story: Story) -> str | None:
    """Make one sleep at each look, until its server moves again."""
    result = await Trial(story).play()
    await result.world.close()
    for touch, name in enumerate(result.incarnations[0].touches):
        if not (changes(name) or knows_no_epochs(name)):
            try:
                await wakes_in_a_later_move(story, touch)
            except (Exception, Violation) as error:
                return f"{story}, SLEEP at {touch} {name}: {line_of(error)}"
    return None


async def early() -> str | None:
    try:
        await test_cells.test_a_cell_whose_database_is_away_is_noticed_before_the_guest_is_down()
    except (Exception, Violation) as error:
        return f"a cell that is away: {line_of(error)}"
    return None


async def held_up() -> str | None:
    """Make an order wait within an agent until newer ones have passed it."""
    outcome = await asyncio.to_thread(test_run.held_up)  # it has a loop of its own
    return outcome.failure


async def disturbed(story: Story) -> str | None:
    """Run it with every fault in turn."""
    result = await Trial(story).play()
    await result.world.close()
    for touch, name in enumerate(result.incarnations[0].touches):
        for fault in _faults(name):
            try:
                await _one(story, touch, fault)
                if fault is Fault.LATE and may_refuse(name):
                    await play_late_and_refused(story, touch)
            except (Exception, Violation) as error:
                return f"{story}, {fault.name} at {touch} {name}: {line_of(error)}"
    return None


def _faults(name: str) -> list[Fault]:
    if not changes(name):
        return []
    late = [Fault.LATE] if may_come_late(name) else []
    refused = [Fault.REFUSED] if may_refuse(name) else []
    return [Fault.CRASH_BEFORE, Fault.SLEEP, *late, *refused]


async def _one(story: Story, touch: int, fault: Fault) -> None:
    if fault is Fault.SLEEP:
        await check(await sleeping(Trial(story, {touch: Fault.SLEEP})), story)
    elif fault is Fault.LATE:
        await play_late(story, touch)
    else:
        await play(story, {touch: fault})


async def edited(story: Story) -> str | None:
    try:
        await edited_at_every_touch(story, 0)
    except (Exception, Violation) as error:
        return f"{story}, its owner changes the record: {line_of(error)}"
    return None


async def drawn(variant: Variant) -> str | None:
    try:
        red = pages.reds({variant: await draw(variant)})
    except (Exception, Violation) as error:
        return f"{variant.name}: {line_of(error)}"
    return red[0][:160] if red else None


# The command


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    chosen = [mutant for mutant in mutants() if asked.only in mutant.name]
    began, good = time.monotonic(), dict[str, bool]()
    with get_context("fork").Pool(asked.processes, _be_quiet, maxtasksperchild=1) as pool:
        for name, why in pool.imap_unordered(_judge, [mutant.name for mutant in chosen]):
            good[name] = (why is None) == is_control(name)
            head = f"{len(good)}/{len(chosen)} {time.monotonic() - began:.0f} s  {'good' if good[name] else 'BAD '}"
            print(f"{head}  {name}: {why or 'no story complains'}", flush=True)
    share = sum(good.values()) / max(1, len(good))
    print(f"{sum(good.values())} of {len(good)} are as they should be: {share:.1%}")
    return 0 if share >= ENOUGH and all(good[name] for name in good if is_control(name)) else 1


def is_control(name: str) -> bool:
    return name.endswith(CONTROL)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.stories.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name has this")
    parser.add_argument("--processes", type=int, default=2, help="how many are told stories at once")
    return parser


def _be_quiet() -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[lambda *_: ""])


def _judge(name: str) -> tuple[str, str | None]:
    [mutant] = [mutant for mutant in mutants() if mutant.name == name]
    return name, asyncio.run(noticed(mutant))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
