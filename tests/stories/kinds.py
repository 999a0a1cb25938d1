"""Stories for runs other than moves, by kind: without a fault, with one, asleep, late, with two faults."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from msgspec.structs import replace as with_

from tests.older_agents import make_agent_old
from tests.stories import (
    attaching,
    lifecycle,
    test_build_failures,
    test_evacuations,
    test_heal,
    test_lifecycle,
    test_repair_crashes,
    test_repair_ends,
)
from tests.stories.breaking import ADOPTED, CUT_OFF, MENDED
from tests.stories.choosing import chosen, may_come_late, of
from tests.stories.later import LATER, every_look
from tests.stories.meanwhile import held, held_by, lets_go_a_port, no_guest_is_misbound, watch
from tests.stories.test_repair import a_scene
from tests.stories.test_repair_older import OLDER
from tools.scenarios import evacuations
from tools.scenarios.incarnations import Incarnations, Result, release_late_effects, sleeping
from whimbrel.domain.errors import Refused, WorldError
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, Slot
from whimbrel.domain.operation_facts import OperationFacts, is_placed
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup
from whimbrel.sim.checks.invariants import Violation, books, rows_of
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, Plan, changes
from whimbrel.sim.world import equipment

Attempt = Callable[[], Awaitable[str | None]]


@dataclass(frozen=True)
class Scenario:
    """check: sees that it ended well, and closes its world; has_faults: then it may have come to nothing."""

    name: str
    begin: Callable[..., Incarnations]
    check: Callable[[Incarnations, Result, bool], Awaitable[None]]
    is_brief: bool = False  # told without faults only

    def __str__(self) -> str:
        return self.name


# The kinds


ALSO_NAMED = {"detach_interface": "unplug"}
"""What scenarios of a server's life call a kind."""

DONE_BEFORE = ("take_volume_snapshot", "merge_volume_files")
"""Kinds that the volume service asks for: at its turn, such a run finds out whether that is done already."""

OF_SEVERAL = ("the rows of a claim were deleted",)
"""Breaks that are repaired by several runs: each part of them is a break by itself."""


def scenarios_of(saga: str) -> Iterator[Scenario]:
    if saga == "heal_ports":
        for heal in test_heal.SCENARIOS:
            yield Scenario(heal.name, partial(test_heal.Healing, heal), _check_healed)
    elif saga == "evacuate":
        for whole in test_evacuations.STORIES:
            story = replace(whole, returns=False)  # what is left on the source goes later, by no run
            if story.death == "power cut, agent alive":
                continue  # there it may go at any time
            yield Scenario(story.name, partial(evacuations.Trial, story), partial(_check_evacuated, story))
    elif saga == "repair":
        breaks = (*MENDED, *test_repair_crashes.OF_OWNERS, *OLDER, ADOPTED, *CUT_OFF)
        for broken in (one for one in breaks if one.name not in OF_SEVERAL):
            is_brief = broken not in test_repair_crashes.BREAKS
            yield Scenario(broken.name, partial(test_repair_crashes.Repairing, broken), _check_repaired, is_brief)
    for operation in attaching.SCENARIOS:
        if operation.saga == saga:
            yield Scenario(
                operation.name, partial(attaching.Operation, operation), partial(_check_operation, operation)
            )
    for one in test_lifecycle.SCENARIOS:
        if ALSO_NAMED.get(saga, saga) in one.name.split(" ")[:2]:  # "hard reboot of ..." too
            yield Scenario(one.name, partial(lifecycle.Lifecycle, one), partial(_check_lifecycle, one))


async def _check_healed(trial: Incarnations, ended: Result, has_faults: bool) -> None:
    assert isinstance(trial, test_heal.Healing)
    assert has_faults or await books(ended.world) == trial.right
    await test_heal.check(trial, ended)


async def _check_evacuated(story: evacuations.Evacuating, trial: Incarnations, ended: Result, has_faults: bool) -> None:
    await test_evacuations.check(ended, story, may_be_nothing=has_faults)


async def _check_repaired(trial: Incarnations, ended: Result, has_faults: bool) -> None:
    assert isinstance(trial, test_repair_crashes.Repairing)
    if not has_faults:
        [run] = await ended.world.cloud.journal.find(RunFilter(sagas=("repair",)))
        assert run.state == "done", "it was repaired at the second try only"
    assert await test_repair_crashes.all_books(ended.world) == trial.due()
    await ended.world.close()


async def _check_operation(operation: attaching.Scenario, trial: Incarnations, ended: Result, has_faults: bool) -> None:
    await attaching.check(ended, operation, may_be_nothing=has_faults)


async def _check_lifecycle(one: lifecycle.Scenario, trial: Incarnations, ended: Result, has_faults: bool) -> None:
    await lifecycle.check(ended, one, may_be_nothing=has_faults, refused=has_faults)


# What they are told


async def _asked_for_twice(operation: attaching.Scenario) -> None:
    """Send the same request twice, both after a read: the second one is refused, or comes to nothing at its turn."""
    trial = attaching.Operation(operation)
    await trial.set_the_scene()
    _, cloud, engine = trial.next_incarnation()
    seen = await lookup.find(cloud, trial.server.id)
    await trial.move(cloud, engine)
    await trial.settle()
    before = await books(trial.world)
    try:
        await operation.ask(cloud, engine, trial.world.requester(), seen)
    except WorldError:
        await trial.world.close()
        return
    assert operation.saga in DONE_BEFORE, f"{operation} was begun twice"
    await trial.settle()
    assert await books(trial.world) == before, f"{operation} was done twice"
    await trial.world.close()


async def _volume_of_another_zone() -> None:
    """Whose asker was answered at once is told later that it cannot be."""
    world = await World.build(rules=with_(attaching.RULES, cross_az_attach=False), equipped=True)
    volume = await world.remains.volumes.volume(equipment.VOLUME)
    world.remains.volumes.add_volume(with_(volume, id=attaching.FREE_VOLUME, zone="elsewhere"))
    server = world.new_server("s")
    await lifecycle.born(world, server)
    engine, record = world.engine("e"), await lookup.find(world.cloud, server.id)
    await attaching.attach(at_once=False)(world.cloud, engine, world.requester(), record)
    await world.settle(engine)
    assert not (await lookup.find(world.cloud, server.id)).volumes
    await world.close()


async def _given_up_by_the_service(saga: str, was: str, status: str) -> None:
    """While its request waits, the service gives up what it does with a snapshot, and keeps the files as before."""
    operation = next(one for one in attaching.SCENARIOS if one.saga == saga)
    trial = attaching.Operation(operation)
    await trial.set_the_scene()
    before = await _files(trial)
    _, cloud, engine = trial.next_incarnation()
    record = await lookup.find(cloud, trial.server.id)
    await operation.ask(cloud, engine, trial.world.requester(), record)
    await trial.world.remains.volumes.report_snapshot(attaching.SNAPSHOT, was, status)
    await trial.settle()
    assert await _files(trial) == before, "the service counts with other files"
    await trial.world.close()


async def _at_an_older_agent(saga: str) -> None:
    """Its host's agent does not know the order: the request is refused at once, and nothing is done."""
    operation = next(one for one in attaching.SCENARIOS if one.saga == saga)
    trial = attaching.Operation(operation)
    await trial.set_the_scene()
    before = await _files(trial)
    _, cloud, engine = trial.next_incarnation()
    record = await lookup.find(cloud, trial.server.id)
    await make_agent_old(cloud, record, "look")
    try:
        await operation.ask(cloud, engine, trial.world.requester(), record)
    except Refused:
        await trial.settle()
        assert await _files(trial) == before, "the guest uses other files"
        await trial.world.close()
    else:
        raise AssertionError("an agent was given an order that it does not know")


async def _files(trial: Incarnations) -> tuple[str, ...]:
    record = await lookup.find(trial.world.cloud, trial.server.id)
    key = GuestKey(record.id, Slot(record.slot or ""))
    return await trial.world.hypervisors[HostName(record.host or "")].files_of(key, equipment.VOLUME)


async def _interrupted_repairs() -> None:
    """Run the stories in which something happens between the plan of a repair and its actions."""
    for name, test in vars(test_repair_ends).items():
        if name.startswith("test_"):
            scene = await a_scene()
            await test(scene)
            await scene.world.close()


ALSO: Mapping[str, Sequence[Callable[[], Awaitable[None]]]] = {
    "create": (test_build_failures.failed_over, test_build_failures.left_to_the_last),
    "attach_volume": (_volume_of_another_zone,),
    "take_volume_snapshot": (
        partial(_given_up_by_the_service, "take_volume_snapshot", "creating", "error"),
        partial(_at_an_older_agent, "take_volume_snapshot"),
    ),
    "merge_volume_files": (
        partial(_given_up_by_the_service, "merge_volume_files", "deleting", "error_deleting"),
        partial(_at_an_older_agent, "merge_volume_files"),
    ),
    "repair": (_interrupted_repairs,),
}
"""Stories without faults of a kind that no scenario tells."""


def attempts(saga: str, about: str = "") -> Iterator[Attempt]:
    """List what a mutant of this kind is told, what is quick and likely first."""
    scenarios = sorted(scenarios_of(saga), key=lambda scenario: about not in scenario.name)
    assert scenarios, f"nobody tells of {saga}"
    for scenario in scenarios:
        yield partial(_complaint, scenario, "", partial(_undisturbed, scenario, saga))
    for story in ALSO.get(saga, ()):
        yield partial(_complaint, getattr(story, "__name__", "given up, or an older agent"), "", story)
    for operation in attaching.SCENARIOS:
        if operation.saga == saga and operation.name != "plug by network":  # which makes another one
            yield partial(_complaint, f"{operation}, twice", "", partial(_asked_for_twice, operation))
    yield from (partial(every_look, later) for later in LATER if later.saga == saga)
    long = [scenario for scenario in scenarios if not scenario.is_brief]
    for every in (every_refusal_with_a_debt, every_fault, every_late_call_refused_meanwhile, every_sleeper):
        for scenario in long:
            yield partial(every, scenario)


async def _undisturbed(scenario: Scenario, saga: str) -> None:
    """Run it without a fault; also check that its operation locked the server."""
    trial = scenario.begin()
    locks = watch(trial, changes, lambda: rows_of(trial.world))
    ended = await trial.play()
    holders = {run for rows in locks for *_, run in rows}
    for run in await ended.world.cloud.journal.find(RunFilter(sagas=(saga,), limit=1)):
        if isinstance(run.facts, OperationFacts) and is_placed(run.facts):
            assert run.state == "done", f"it was turned back: {run.message}"
            assert run.id in holders, f"nothing kept others from the server while {run.saga} was at it"
    await scenario.check(trial, ended, False)


async def _touches(scenario: Scenario, *plans: Plan) -> list[str]:
    ended = await scenario.begin(*plans).play()
    await ended.world.close()
    return ended.incarnations[0].touches


async def every_fault(scenario: Scenario) -> str | None:
    """Strike each touch that changes anything: its process dies, its answer stays out, it comes late, it is refused."""
    for touch, name in chosen(await _touches(scenario), changes):
        for fault in (Fault.CRASH_BEFORE, Fault.LATE, Fault.REFUSED):
            may_be = fault is Fault.CRASH_BEFORE or (_may_refuse if fault is Fault.REFUSED else may_come_late)(name)
            what = f"{fault.name} at {touch} {name}"
            if may_be and (why := await _complaint(scenario, what, partial(_struck, scenario, {touch: fault}))):
                return why
    return None


async def every_sleeper(scenario: Scenario) -> str | None:
    """Make one sleep at each touch, those that only look too, until others have finished."""
    for touch, name in enumerate(await _touches(scenario)):
        if why := await _complaint(scenario, f"SLEEP at {touch} {name}", partial(_slept, scenario, touch)):
            return why
    return None


_knows_no_epochs = of("network", "volumes", "images")
_may_refuse = of("agent", "placement", "network", "volumes", "images")
DONE_AGAIN = ("take_volume_snapshot", "merge_volume_files")
"""Orders that a host refuses before it changes anything, and answers again as done when they are done."""

LATE_UNTIL_A_VERDICT = ("attach a volume while a move waits",)
"""Of a server that waits for a verdict nothing is let go: what came late is there until then."""


async def every_late_call_refused_meanwhile(scenario: Scenario) -> str | None:
    """Make nobody answer, what is asked again be refused, and the first call arrive when that was undone."""
    for touch, name in enumerate(await _touches(scenario) if scenario.name not in LATE_UNTIL_A_VERDICT else ()):
        if changes(name) and _knows_no_epochs(name) and not lets_go_a_port(name):
            again = await _asked_again(scenario, touch, Fault.LATE)
            plan = {touch: Fault.LATE, **dict.fromkeys(again[:1], Fault.REFUSED)}
            what = f"LATE at {touch} {name}, and REFUSED"
            if len(plan) > 1 and (why := await _complaint(scenario, what, partial(_struck, scenario, plan))):
                return why
    return None


async def every_refusal_with_a_debt(scenario: Scenario) -> str | None:
    """Make the last call that can be refused happen unheard and then refused, and each of the way back unanswered."""
    for touch, name in reversed(chosen(await _touches(scenario), _may_refuse)):
        if name.endswith(DONE_AGAIN):
            continue
        refusal = await _refusal(scenario, touch)
        ended = await scenario.begin(refusal).play()
        runs = await ended.world.cloud.journal.find(RunFilter())
        await ended.world.close()
        if any(entry.way == "undo" for run in runs for entry in run.log):
            return await _with_a_debt(scenario, refusal, ended.incarnations[0].touches)
    return None


async def _refusal(scenario: Scenario, touch: int) -> Plan:
    """Plan that a call happens and nobody answers, and that it is refused when it is asked again."""
    again = await _asked_again(scenario, touch, Fault.LOST_ANSWER)
    return {touch: Fault.LOST_ANSWER, again[0]: Fault.REFUSED} if again else {touch: Fault.REFUSED}


async def _asked_again(scenario: Scenario, touch: int, silence: Fault) -> list[int]:
    """Return the numbers of the touches that say the same again after that one had no answer."""
    touches = await _touches(scenario, {touch: silence})
    return [number for number in range(touch + 1, len(touches)) if touches[number] == touches[touch]]


async def _with_a_debt(scenario: Scenario, refusal: Plan, touches: list[str]) -> str | None:
    for touch in range(max(refusal) + 1, len(touches)):
        if changes(touches[touch]):
            what = f"REFUSED at {max(refusal)} {touches[max(refusal)]}, UNANSWERED at {touch} {touches[touch]}"
            plan = {**refusal, touch: Fault.UNANSWERED}
            if why := await _complaint(scenario, what, partial(_struck, scenario, plan)):
                return why
    return None


async def _struck(scenario: Scenario, plan: Plan) -> None:
    """Run it under a plan of faults; late calls arrive at the end, and change nothing."""
    trial = scenario.begin(plan)
    idle = watch(trial, lambda touch: touch.endswith(".servers.unlock"), lambda: held_by(trial.world))
    watch(trial, lets_go_a_port, lambda: no_guest_is_misbound(trial.world))
    ended = await trial.play()
    assert len(ended.fired) == len(plan), "the fault did not happen"
    if ended.incarnations[0].late:
        await release_late_effects(ended)  # what the scenario did not come to, a round may do
    after = await books(ended.world)
    for late in ended.incarnations[0].late:
        with suppress(WorldError):
            await late()
        await release_late_effects(ended)
        assert await books(ended.world) == after, "it came late and did harm"
    if len(plan) > 1:
        at_last = await held_by(ended.world)
        ends = ({**at_last, **held(ended.before)}, at_last)
        assert all(found in ends for found in idle), "it was free, and neither done nor as before"
    await scenario.check(trial, ended, True)


async def _slept(scenario: Scenario, touch: int) -> None:
    trial = scenario.begin({touch: Fault.SLEEP})
    ended = await sleeping(trial)
    if ended.fired:
        await scenario.check(trial, ended, True)


async def _complaint(scenario: object, what: str, play: Callable[[], Awaitable[None]]) -> str | None:
    try:
        await play()
    except asyncio.CancelledError:
        raise
    except (Exception, Violation) as error:
        return f"{scenario}{f', {what}' if what else ''}: {line_of(error)}"
    return None


def line_of(error: BaseException) -> str:
    return (f"{type(error).__name__} {error}".strip().splitlines() or [""])[0][:110]
