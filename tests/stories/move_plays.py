"""Plays for mutants of moves, and those of all kinds: without a fault, refused, with each fault, in a later move."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

from tests.sim import test_run
from tests.sim.test_found import hand_over_late
from tests.stories import guards, kinds, test_cells
from tests.stories.again import knows_no_epochs, wakes_in_a_later_move
from tests.stories.choosing import may_come_late
from tests.stories.leaving_out import Mutant
from tests.stories.meanwhile import has_its_devices, runs_with_its_network, watch
from tests.stories.move_stories import LIVE_STORIES, STORIES
from tests.stories.mutations import HELD_UP
from tests.stories.plays import Group, Play, alone, every
from tests.stories.restored_mutations import RESTORED
from tests.stories.test_cells import test_a_cell_whose_database_is_away_is_noticed_before_a_host_of_it_is_used
from tests.stories.test_crashes import (
    check,
    may_refuse,
    play,
    play_late,
    play_late_and_refused,
    revert_in_sight,
    revert_without_a_source,
    touches_of,
)
from tests.stories.test_live_transfers import (
    SLOW,
    TRANSFER,
    Interrupted,
    test_a_host_without_the_processor_is_passed_over,
    test_an_abort_at_any_instant_leaves_it_here_or_there,
    test_so_many_at_once_and_no_more,
    test_the_ladder_ends_what_does_not_converge,
    test_what_dies_in_the_middle_of_a_transfer,
    the_guest_goes_off,
    the_source_loses_power,
    the_target_loses_power,
)
from tests.stories.test_refused_moves import (
    test_a_host_that_cannot_bind_the_ports_is_given_up_before_anything_is_built,
)
from tests.stories.test_switches import edited_at_every_touch
from tools.faultmap import pages
from tools.faultmap.drawn import draw
from tools.faultmap.variants import DEVICES, Variant
from tools.scenarios.incarnations import sleeping
from tools.scenarios.moves import Story, Trial
from whimbrel.moves.live_migrate import LIVE_MIGRATE
from whimbrel.sim.checks.invariants import Violation, books
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, changes

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
        "live migration with devices of the flavor that can be moved, aborted",
        "live migration with devices of the flavor that can be moved to another cell",
    )
    for story in LIVE_STORIES
    if story.name == name
)
"""The same for mutants of live migrations."""

PLAIN = LIVE_TOLD[4]
"""A live migration with devices, inside a cell."""

DRAWN = {
    "cell": Variant("resize", "other cell", "image", DEVICES[1], "revert"),
    "function": Variant("resize", "same cell", "image", "PCI", "revert"),
}
"""What is drawn on the fault map for those whom no story noticed, by what they are about."""


def groups_of(mutant: Mutant) -> Iterator[Group]:
    """List what a mutant is told, what is quick and likely to notice first."""
    if mutant.kind == LIVE_MIGRATE.name:
        return live_groups(mutant.about)
    if mutant.kind == RESTORED:
        return guards.groups()
    return groups(mutant.about) if mutant.kind == "resize" else kinds.groups(mutant.kind, mutant.about)


def groups(about: str) -> Iterator[Group]:
    """List what a mutant of a resize is told: all stories without faults, then those that it is about with them."""
    for story in sorted(TOLD, key=lambda story: about not in story.name):
        yield alone(story.name, partial(undisturbed, story))
    result = [story for story in TOLD if (about in story.name if about else not (story.devices or story.function))]
    if about == "cell":
        yield alone("a cell is away", test_cells.test_a_cell_whose_database_is_away_is_noticed_before_the_guest_is_down)
    if about == "ports":
        no_host = partial(test_a_host_that_cannot_bind_the_ports_is_given_up_before_anything_is_built, "resize")
        yield alone("a host binds no port", no_host)
    if about == HELD_UP:
        yield alone("an order waits within an agent", held_up)
    back = [story for story in result if story.end == "revert"]
    yield from (every(refusing_hosts, story) for story in back if not (story.same_host or story.stopped))
    yield from (every(every_fault, story) for story in result[:1])
    if about == "ports":
        yield alone("an activation of ports comes after its undo", hand_over_late)
        yield from (every(sleepers_in_a_later_move, story) for story in back)
    yield from (every(every_fault, story) for story in result[1:])
    for story in result:
        if story.crosses and not story.devices:
            yield alone(f"{story}, its owner changes the record", partial(edited_at_every_touch, story, 0))
    if about in DRAWN:
        yield alone(DRAWN[about].name, partial(drawn, DRAWN[about]))


def live_groups(about: str) -> Iterator[Group]:
    """List what a mutant of a live migration is told: stories without faults, of one trouble, with all faults."""
    for story in LIVE_TOLD:
        yield alone(story.name, partial(undisturbed, story))
    yield alone(f"{PLAIN}, its network", arrives_with_its_network)
    yield alone(
        "a cell is away",
        partial(test_a_cell_whose_database_is_away_is_noticed_before_a_host_of_it_is_used, LIVE_MIGRATE.name),
    )
    yield alone("post-copy", partial(test_the_ladder_ends_what_does_not_converge, ("post_copy",), "completed"))
    for act in (test_so_many_at_once_and_no_more, test_a_host_without_the_processor_is_passed_over):
        yield alone(act.__name__, act)
    words = {"function": "of the flavor", "": "ports"}.get(about, about)
    chosen = [story for story in LIVE_TOLD if words in story.name]
    back = [story for story in chosen if story.end == "revert"]
    yield from (every(refusing_hosts, story) for story in back)
    yield from (every(every_fault, story) for story in back)
    yield from (Group(f"{story}, owing", partial(owing, story, partial(Trial, story))) for story in back)
    yield Group("the guest goes off, owing", owing_a_start)
    for happens in (the_guest_goes_off, the_source_loses_power, the_target_loses_power):
        yield alone(happens.__name__, partial(test_what_dies_in_the_middle_of_a_transfer, happens))
    yield alone("aborted", partial(test_an_abort_at_any_instant_leaves_it_here_or_there, PLAIN))
    yield from (every(every_fault, story) for story in chosen if story not in back)


async def undisturbed(story: Story) -> None:
    await check(await Trial(story).play(), story, may_be_nothing=False)
    if story.end == "revert" and not story.live:
        await revert_without_a_source(story)
        await revert_in_sight(story)


async def arrives_with_its_network() -> None:
    """Check from its arrival on that the ports are active where the guest runs, and that the host keeps it at last."""
    trial = Trial(PLAIN)
    watch(
        trial, lambda touch: touch.endswith((".settle_arrival", ".destroy")), lambda: runs_with_its_network(trial.world)
    )
    result = await trial.play()
    hosts = result.world.hypervisors.values()
    assert not [guest.key for host in hosts for guest in host._guests.all() if guest.comes_from], "it is not kept"
    await check(result, PLAIN)


async def owing_a_start() -> AsyncIterator[Play]:
    """The same, when the guest goes off at its source while it is transferred, so that it is started there again."""
    begun = (await touches_of(SLOW)).index(TRANSFER) + 1
    async for unanswered in owing(SLOW, partial(Interrupted, SLOW, begun, the_guest_goes_off)):
        yield unanswered


async def owing(story: Story, begin: Callable[..., Trial]) -> AsyncIterator[Play]:
    """Make each call on the way back of a live migration stay without an answer."""
    result = await begin().play()
    await result.world.close()
    touches = result.incarnations[0].touches
    first = next(number for number, name in enumerate(touches) if name.endswith(".end_transfer"))
    for touch in range(first, len(touches)):
        if changes(touches[touch]):
            yield Play(f"UNANSWERED at {touch} {touches[touch]}", partial(_owing, story, begin, touch))


async def _owing(story: Story, begin: Callable[..., Trial], touch: int) -> None:
    trial = begin({touch: Fault.UNANSWERED})
    watch(trial, lambda touch: touch.endswith((".destroy", ".servers.unlock")), lambda: _runs(trial.world))
    watch(
        trial,
        lambda touch: touch in ("network.delete_bindings", "volumes.detach"),
        lambda: has_its_devices(trial.world),
    )
    await check(await trial.play(), story)


async def _runs(world: World) -> None:
    if not world.simulated.running():
        raise Violation("its guest is not at the source as before")


async def refusing_hosts(story: Story) -> AsyncIterator[Play]:
    """Let all hosts but the first refuse, one phase after the other."""
    for phase in ("reserve", "fetch_disk" if story.crosses else "import_disk", "define", "start"):
        yield Play(phase, partial(_nowhere, story, phase))


async def _nowhere(story: Story, refused: str) -> None:
    """Let all hosts but the first refuse a phase: the result is as if it had never begun."""
    trial = Trial(story)
    await trial.set_the_scene()
    for hypervisor in list(trial.world.hypervisors.values())[1:]:
        hypervisor.refusing.add(refused)
    before = await books(trial.world)
    await trial.move(*trial.next_incarnation()[1:])
    await trial.settle()
    assert await books(trial.world) == before, "something is left"


async def sleepers_in_a_later_move(story: Story) -> AsyncIterator[Play]:
    """Make one sleep at each look, until its server moves again."""
    for touch, name in enumerate(await _touches(story)):
        if not (changes(name) or knows_no_epochs(name)):
            yield Play(f"SLEEP at {touch} {name}", partial(wakes_in_a_later_move, story, touch))


async def held_up() -> None:
    """Make an order wait within an agent until newer ones have passed it."""
    outcome = await asyncio.to_thread(test_run.held_up)  # it has a loop of its own
    assert not outcome.failure, outcome.failure


async def every_fault(story: Story) -> AsyncIterator[Play]:
    touches = list(enumerate(await _touches(story)))
    for touch, name in touches if story.end == "confirm" else reversed(touches):  # first the way back
        for fault in _faults(name):
            yield Play(f"{fault.name} at {touch} {name}", partial(_one, story, touch, fault))
            if fault is Fault.LATE and may_refuse(name):
                yield Play(f"LATE at {touch} {name}, and REFUSED", partial(play_late_and_refused, story, touch))


async def _touches(story: Story) -> list[str]:
    result = await Trial(story).play()
    await result.world.close()
    return result.incarnations[0].touches


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


async def drawn(variant: Variant) -> None:
    red = pages.reds({variant: await draw(variant)})
    assert not red, red[0]
