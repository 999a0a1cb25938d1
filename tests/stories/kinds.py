"""Stories for runs other than moves, by kind: without a fault, with one, asleep, late, with two faults."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from msgspec.structs import replace as with_

from tests.older_agents import make_agent_old
from tests.stories import (
    attaching,
    lifecycle,
    passwords,
    test_build_failures,
    test_evacuations,
    test_groups,
    test_heal,
    test_lifecycle,
    test_repair_crashes,
    test_repair_ends,
    test_shelved,
)
from tests.stories.breaking import ADOPTED, CUT_OFF, MENDED, Scene
from tests.stories.choosing import chosen, may_come_late, of
from tests.stories.later import LATER, Later, every_look
from tests.stories.meanwhile import (
    Books,
    held,
    held_by,
    lets_go_a_port,
    no_guest_is_misbound,
    no_image_lacks_its_snapshots,
    no_volume_is_written,
    releases_a_port,
    runs_with_its_network,
    watch,
)
from tests.stories.plays import Group, Play, alone, every
from tests.stories.test_cells import Away, test_a_cell_whose_database_is_away_is_noticed_before_a_host_of_it_is_used
from tests.stories.test_refused_moves import (
    test_a_host_that_cannot_bind_the_ports_is_given_up_before_anything_is_built,
)
from tests.stories.test_repair import (
    a_scene,
    test_a_snapshot_of_which_a_restore_lost_the_run_is_reported,
    test_the_deletion_of_a_snapshot_of_which_a_restore_lost_the_run_ends,
)
from tests.stories.test_repair_older import OLDER, test_the_entry_of_a_deleted_server_is_marked_deleted
from tools.scenarios import evacuations
from tools.scenarios.incarnations import Incarnations, Result, release_late_effects, sleeping, watched
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import Refused, WorldError
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, Slot
from whimbrel.domain.operation_facts import OperationFacts, is_placed
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import image_of_volumes, shelve
from whimbrel.sim.checks.invariants import books, rows_of
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, Plan, changes
from whimbrel.sim.world import equipment


@dataclass(frozen=True)
class Scenario:
    """check: sees that it ended well, and closes its world; has_faults: then it may have come to nothing."""

    name: str
    begin: Callable[..., Incarnations]
    check: Callable[[Incarnations, Result, bool], Awaitable[None]]
    is_brief: bool = False  # told without faults only
    is_refused: bool = False  # its host refuses
    let_go_later: tuple[str, ...] = ()  # what of a server may go after its lock
    source_returns: bool = False  # after an evacuation: what is left there goes after the lock, by no run

    def __str__(self) -> str:
        return self.name


# The kinds


ALSO_NAMED = {
    "detach_interface": "unplug",
    "soft_delete": "soft",
    "snapshot_volumes": "image",
    "change_password": "change",
}
"""What scenarios of a server's life call a kind."""

DONE_BEFORE = ("take_volume_snapshot", "merge_volume_files", "change_volume", "extend_volume")
"""Kinds of which a second request changes nothing: at its turn, it finds what it was to do done already."""

LET_GO_LATER = {"attach_interface": ("ports",), "unshelve": ("claims", "ports", "attachments")}
"""What a run that turned back releases after the lock: until then it is open, and no other one has its turn.

The address of a requested interface is in the response, so that its port is older than the lock.
"""

SILENT_S = 8.0
"""How long hosts are silent: longer than a lease."""

OF_SEVERAL = ("the rows of a claim were deleted",)
"""Breaks that are repaired by several runs: each part of them is a break by itself."""


def scenarios_of(saga: str) -> Iterator[Scenario]:
    if saga == "heal_ports":
        for heal in test_heal.SCENARIOS:
            yield Scenario(heal.name, partial(test_heal.Healing, heal), _check_healed)
    elif saga == "evacuate":
        for whole in test_evacuations.STORIES:
            # A fence device leaves more on the source than others, which is looked at when the source has returned.
            story = replace(whole, returns=whole.death == "cut off, has a fence")
            if story.death == "power cut, agent alive":
                continue  # there it may go at any time
            begin, check = partial(evacuations.Trial, story), partial(_check_evacuated, story)
            yield Scenario(story.name, begin, check, source_returns=story.returns)
    elif saga == "repair":
        breaks = (*MENDED, *test_repair_crashes.OF_OWNERS, *OLDER, ADOPTED, *CUT_OFF)
        for broken in (one for one in breaks if one.name not in OF_SEVERAL):
            is_brief = broken not in test_repair_crashes.BREAKS
            yield Scenario(broken.name, partial(test_repair_crashes.Repairing, broken), _check_repaired, is_brief)
    for operation in attaching.SCENARIOS:
        if operation.saga == saga:
            begin, see = partial(attaching.Operation, operation), partial(_check_operation, operation)
            yield Scenario(operation.name, begin, see, let_go_later=LET_GO_LATER.get(saga, ()))
    for one in test_lifecycle.SCENARIOS:
        if ALSO_NAMED.get(saga, saga) in one.name.replace(",", "").split(" ")[:2]:  # "hard reboot of ..." too
            yield Scenario(
                one.name,
                partial(lifecycle.Lifecycle, one),
                partial(_check_lifecycle, one),
                is_refused=bool(one.refusing),
                let_go_later=LET_GO_LATER.get(saga, ()),
            )


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


async def _detached_before_its_turn(saga: str) -> None:
    """Change a volume behind its detachment: the change is turned back, and leaves the server unlocked."""
    operation = next(one for one in attaching.SCENARIOS if one.saga == saga)
    trial = attaching.Operation(operation)
    await trial.set_the_scene()
    _, cloud, engine = trial.next_incarnation()
    record = await lookup.find(cloud, trial.server.id)
    for ask in (attaching.detach, operation.ask):
        await ask(cloud, engine, trial.world.requester(), record)
    await trial.settle()
    [change] = await cloud.journal.find(RunFilter(sagas=(saga,)))
    assert change.state == "undone"
    assert (await lookup.find(cloud, trial.server.id)).task_state is None
    await attaching.delete_and_see_nothing(Result(trial.world, {}, trial.server, trial.incarnations))


async def _at_an_agent_that_is_older_at_its_turn() -> None:
    """While the extension of a volume waits for its turn, its host gets an agent that does not know the order."""
    trial = attaching.Operation(next(one for one in attaching.SCENARIOS if one.saga == "extend_volume"))
    await trial.set_the_scene()
    _, cloud, engine = trial.next_incarnation()
    record = await lookup.find(cloud, trial.server.id)
    for ask in (attaching.attach(at_once=False), attaching.extend):
        await ask(cloud, engine, trial.world.requester(), record)
    await make_agent_old(cloud, record, "look")
    await trial.settle()
    [run] = await cloud.journal.find(RunFilter(sagas=("extend_volume",)))
    assert run.state == "undone"
    await trial.world.close()


async def _files(trial: Incarnations) -> tuple[str, ...]:
    record = await lookup.find(trial.world.cloud, trial.server.id)
    key = GuestKey(record.id, Slot(record.slot or ""))
    return await trial.world.hypervisors[HostName(record.host or "")].files_of(key, equipment.VOLUME)


async def _turned_back_while_it_is_written(owes: bool) -> None:
    """Refuse to tell what comes of an image that is being written into a root volume. owes: nor is it said at once."""
    name = "rebuild of one on a volume, made anew"
    scenario = next(one for one in scenarios_of("rebuild") if one.name == name)
    unheard: Plan = {(await _touches(scenario)).index("volumes.reimage"): Fault.LOST_ANSWER}
    turned: Plan = {**unheard, (await _touches(scenario, unheard)).index("volumes.volume", max(unheard)): Fault.REFUSED}
    if owes:
        turned = {
            **turned,
            (await _touches(scenario, turned)).index("volumes.volume", max(turned) + 1): Fault.UNANSWERED,
        }
    await _struck(scenario, turned)


async def _a_snapshot_fails() -> None:
    """Make an image of a volume whose snapshot fails while it is made: there is no image."""
    trial = lifecycle.Lifecycle(next(one for one in test_lifecycle.SCENARIOS if one.name == "image of volumes"))
    await trial.set_the_scene()
    volumes = trial.world.remains.volumes
    volumes.taken_by_hosts.add(equipment.VOLUME)
    _, cloud, engine = trial.next_incarnation()
    await image_of_volumes.accept(
        cloud, engine, trial.world.requester(), await lookup.find(cloud, trial.server.id), "of volumes", {}
    )
    for snapshot in volumes.snapshots():
        await volumes.report_snapshot(snapshot.id, "creating", "error")
    await trial.settle()
    [run] = await cloud.journal.find(RunFilter(sagas=("snapshot_volumes",)))
    assert run.state == "undone"
    assert not volumes.snapshots()
    await trial.world.close()


async def _forgotten_before_it_is_shown() -> None:
    """While the record of a changed password is not written, the run does not keep the password any more."""
    [scenario] = scenarios_of("change_password")
    shown = max(number for number, name in enumerate(await _touches(scenario)) if name.endswith(".servers.unlock"))
    trial = scenario.begin({shown: Fault.UNANSWERED})

    async def known() -> bool:
        run = await trial.world.cloud.journal.open_run(trial.server.id)
        return run is not None and run.at == "settle_password" and passwords.SECRET in str(run.facts)

    seen = watch(trial, changes, known)
    ended = await trial.play()
    assert ended.fired
    assert not any(seen), "the journal has the password after the guest"
    await ended.world.close()


async def _interrupted_repairs() -> None:
    """Run the stories in which something happens between the plan of a repair and its actions."""
    for name, test in vars(test_repair_ends).items():
        if name.startswith("test_"):
            scene = await a_scene()
            await test(scene)
            await scene.world.close()


async def _its_image_is_gone() -> None:
    """Offload a shelved server whose image was deleted: it stays on its host."""
    trial = lifecycle.Lifecycle(next(one for one in test_lifecycle.SCENARIOS if one.name == "shelve_offload"))
    await trial.set_the_scene()
    before = await books(trial.world)
    _, cloud, engine = trial.next_incarnation()
    record = await lookup.find(cloud, trial.server.id)
    for image in record.shelved_images.values():
        await cloud.images.delete(image)
    await shelve.offload(cloud, engine, trial.world.requester(), record)
    await trial.settle()
    after = await books(trial.world)
    assert (after["servers"], after["guests"]) == (before["servers"], before["guests"])
    await trial.world.close()


async def _entry_of_a_deleted_server() -> None:
    scene = await a_scene()
    scene.world.registry = watched(SAGAS, scene.world)
    await test_the_entry_of_a_deleted_server_is_marked_deleted(scene)
    await scene.world.close()


async def _lost(test: Callable[[Scene], Awaitable[None]]) -> None:
    scene = await a_scene()
    scene.world.registry = watched(SAGAS, scene.world)
    await test(scene)
    await scene.world.close()


ALSO: Mapping[str, Mapping[str, Callable[[], Awaitable[None]]]] = {
    "create": {
        "the first host fails": test_build_failures.failed_over,
        "all hosts fail": test_build_failures.left_to_the_last,
        "of a group, chosen anew": test_groups.chosen_anew,
    },
    "attach_volume": {"a volume of another zone": _volume_of_another_zone},
    "change_volume": {"detached before its turn": partial(_detached_before_its_turn, "change_volume")},
    "extend_volume": {
        "detached before its turn": partial(_detached_before_its_turn, "extend_volume"),
        "at an older agent": partial(_at_an_older_agent, "extend_volume"),
        "at an agent that is older at its turn": _at_an_agent_that_is_older_at_its_turn,
    },
    "shelve_offload": {"its image is gone": _its_image_is_gone},
    "evacuate": {
        "a cell is away": partial(
            test_a_cell_whose_database_is_away_is_noticed_before_a_host_of_it_is_used, "evacuate"
        ),
        "a host binds no port": partial(
            test_a_host_that_cannot_bind_the_ports_is_given_up_before_anything_is_built, "evacuate"
        ),
    },
    "rebuild": {
        "turned back while its root volume is written": partial(_turned_back_while_it_is_written, owes=False),
        "the same, and its end is not seen at once": partial(_turned_back_while_it_is_written, owes=True),
    },
    "unshelve": {
        "its image is gone": test_shelved.test_no_image_no_unshelve,
        "a cell is away": partial(
            test_a_cell_whose_database_is_away_is_noticed_before_a_host_of_it_is_used, "unshelve"
        ),
    },
    "snapshot_volumes": {"a snapshot fails": _a_snapshot_fails},
    "change_password": {"its record is not written at once": _forgotten_before_it_is_shown},
    "take_volume_snapshot": {
        "given up by the service": partial(_given_up_by_the_service, "take_volume_snapshot", "creating", "error"),
        "at an older agent": partial(_at_an_older_agent, "take_volume_snapshot"),
    },
    "merge_volume_files": {
        "given up by the service": partial(
            _given_up_by_the_service, "merge_volume_files", "deleting", "error_deleting"
        ),
        "at an older agent": partial(_at_an_older_agent, "merge_volume_files"),
    },
    "repair": {
        "interrupted repairs": _interrupted_repairs,
        "the directory names a deleted server": _entry_of_a_deleted_server,
        "the deletion of a snapshot was lost": partial(
            _lost, test_the_deletion_of_a_snapshot_of_which_a_restore_lost_the_run_ends
        ),
        "a snapshot was lost": partial(_lost, test_a_snapshot_of_which_a_restore_lost_the_run_is_reported),
    },
}
"""Stories without faults of a kind that no scenario tells."""


def groups(saga: str, about: str = "") -> Iterator[Group]:
    """List what a mutant of this kind is told, what is quick and likely first."""
    scenarios = sorted(scenarios_of(saga), key=lambda scenario: about not in scenario.name)
    assert scenarios, f"nobody tells of {saga}"
    for scenario in scenarios:
        yield alone(scenario.name, partial(_undisturbed, scenario, saga))
    for name, story in ALSO.get(saga, {}).items():
        yield alone(name, story)
    for operation in attaching.SCENARIOS:
        if operation.saga == saga and operation.name != "plug by network":  # which makes another one
            yield alone(f"{operation}, twice", partial(_asked_for_twice, operation))
    yield from (alone(later.name, partial(_looks, later)) for later in LATER if later.saga == saga)
    long = [scenario for scenario in scenarios if not scenario.is_brief]
    for scenario in long if saga != "repair" else ():  # a repair takes nothing back
        yield alone(f"{scenario}, {silent_hosts.__name__}", partial(silent_hosts, scenario))
    for plays in (every_refusal_with_a_debt, every_fault, every_late_call_refused_meanwhile, every_sleeper):
        yield from (every(plays, scenario) for scenario in long)


async def _looks(later: Later) -> None:
    why = await every_look(later)
    assert not why, why


async def _undisturbed(scenario: Scenario, saga: str) -> None:
    """Run it without a fault; also check that its operation locked the server."""
    trial = scenario.begin()
    locks = watch(trial, changes, lambda: rows_of(trial.world))
    ended = await trial.play()
    holders = {run for rows in locks for *_, run in rows}
    for run in await ended.world.cloud.journal.find(RunFilter(sagas=(saga,), limit=1)):
        if isinstance(run.facts, OperationFacts) and is_placed(run.facts):
            assert run.state == "done" or scenario.is_refused, f"it was turned back: {run.message}"
            assert run.id in holders, f"nothing kept others from the server while {run.saga} was at it"
    await scenario.check(trial, ended, False)


async def _touches(scenario: Scenario, *plans: Plan) -> list[str]:
    ended = await scenario.begin(*plans).play()
    await ended.world.close()
    return ended.incarnations[0].touches


async def every_fault(scenario: Scenario) -> AsyncIterator[Play]:
    """Strike each touch that changes anything: its process dies, its answer stays out, it comes late, it is refused."""
    for touch, name in chosen(await _touches(scenario), changes):
        for fault in (Fault.CRASH_BEFORE, Fault.LATE, Fault.REFUSED):
            may_be = fault is Fault.CRASH_BEFORE or (_may_refuse if fault is Fault.REFUSED else may_come_late)(name)
            if may_be:
                yield Play(f"{fault.name} at {touch} {name}", partial(_struck, scenario, {touch: fault}))


async def every_sleeper(scenario: Scenario) -> AsyncIterator[Play]:
    """Make one sleep at each touch, those that only look too, until others have finished."""
    for touch, name in enumerate(await _touches(scenario)):
        yield Play(f"SLEEP at {touch} {name}", partial(_slept, scenario, touch))


_knows_no_epochs = of("network", "volumes", "images")
_may_refuse = of("agent", "placement", "network", "volumes", "images")
DONE_AGAIN = ("take_volume_snapshot", "merge_volume_files")
"""Orders that a host refuses before it changes anything, and answers again as done when they are done."""

COMPLETED_LATE = (("attach a volume to one on no host", "volumes.complete"),)
"""Calls after whose refusal a run goes on: the late one does what it was to do."""

LATE_UNTIL_A_VERDICT = ("attach a volume while a move waits",)
"""Of a server that waits for a verdict nothing is let go: what came late is there until then."""


async def every_late_call_refused_meanwhile(scenario: Scenario) -> AsyncIterator[Play]:
    """Make nobody answer, what is asked again be refused, and the first call arrive when that was undone."""
    for touch, name in enumerate(await _touches(scenario) if scenario.name not in LATE_UNTIL_A_VERDICT else ()):
        is_completed = (scenario.name, name) in COMPLETED_LATE
        if changes(name) and _knows_no_epochs(name) and not (lets_go_a_port(name) or is_completed):
            yield Play(f"LATE at {touch} {name}, and REFUSED", partial(_late_and_refused, scenario, touch))


async def _late_and_refused(scenario: Scenario, touch: int) -> None:
    if again := await _asked_again(scenario, touch, Fault.LATE):
        await _struck(scenario, {touch: Fault.LATE, again[0]: Fault.REFUSED})


async def every_refusal_with_a_debt(scenario: Scenario) -> AsyncIterator[Play]:
    """Make the last call that can be refused happen unheard and then refused, and each of the way back unanswered."""
    if found := await _last_refusal(scenario):
        for play in _with_a_debt(scenario, *found):
            yield play


async def _last_refusal(scenario: Scenario) -> tuple[Plan, list[str]] | None:
    """Return the plan after which the most is undone, and the touches of a run under it."""
    for touch, name in reversed(list(enumerate(await _touches(scenario)))):
        if name.endswith(DONE_AGAIN) or not _may_refuse(name):
            continue
        refusal = await _refusal(scenario, touch)
        ended = await scenario.begin(refusal).play()
        runs = await ended.world.cloud.journal.find(RunFilter())
        await ended.world.close()
        if any(entry.way == "undo" for run in runs for entry in run.log):
            return refusal, ended.incarnations[0].touches
    return None


def _with_a_debt(scenario: Scenario, refusal: Plan, touches: list[str]) -> Iterator[Play]:
    refused = max(refusal)
    for touch in range(refused + 1, len(touches)):
        if changes(touches[touch]):
            what = f"REFUSED at {refused} {touches[refused]}, UNANSWERED at {touch} {touches[touch]}"
            yield Play(what, partial(_struck, scenario, {**refusal, touch: Fault.UNANSWERED}))


async def silent_hosts(scenario: Scenario) -> None:
    """After the last call that can be refused was refused, no host answers for a while, so that each owes its undo."""
    found = await _last_refusal(scenario)
    if found is None:
        return
    [refusal, _], trial = found, scenario.begin()
    first = max(refusal) + 1
    trial.chaos = lambda plan: Away(trial.world, SILENT_S, first, ("agent ",), trial.after_each, refusal)  # type: ignore[method-assign]
    idle = _watch(trial)
    ended = await trial.play()
    await _check_idle(scenario, ended, idle)
    await scenario.check(trial, ended, True)


async def _refusal(scenario: Scenario, touch: int) -> Plan:
    """Plan that a call happens and nobody answers, and that it is refused when it is asked again."""
    again = await _asked_again(scenario, touch, Fault.LOST_ANSWER)
    return {touch: Fault.LOST_ANSWER, again[0]: Fault.REFUSED} if again else {touch: Fault.REFUSED}


async def _asked_again(scenario: Scenario, touch: int, silence: Fault) -> list[int]:
    """Return the numbers of the touches that say the same again after that one had no answer."""
    touches = await _touches(scenario, {touch: silence})
    return [number for number in range(touch + 1, len(touches)) if touches[number] == touches[touch]]


async def _struck(scenario: Scenario, plan: Plan) -> None:
    """Run it under a plan of faults; late calls arrive at the end, and change nothing."""
    trial = scenario.begin(plan)
    idle = _watch(trial)
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
        await _check_idle(scenario, ended, idle)
    await scenario.check(trial, ended, True)


def _watch(trial: Incarnations) -> list[Books]:
    """Watch what is let go beneath guests, volumes and images. Return what is read whenever a server is unlocked."""
    watch(trial, releases_a_port, lambda: no_guest_is_misbound(trial.world))
    watch(trial, lambda touch: touch == "network.activate_binding", lambda: runs_with_its_network(trial.world))
    watch(trial, lambda touch: touch == "volumes.delete_snapshot", lambda: no_image_lacks_its_snapshots(trial.world))
    watch(
        trial, lambda touch: touch in ("volumes.connect", "volumes.detach"), lambda: no_volume_is_written(trial.world)
    )
    return watch(trial, lambda touch: touch.endswith(".servers.unlock"), lambda: held_by(trial.world))


async def _check_idle(scenario: Scenario, ended: Result, idle: list[Books]) -> None:
    at_last = await held_by(ended.world)
    later = dict.fromkeys(scenario.let_go_later)
    ends = [{**end, **later} for end in ({**at_last, **held(ended.before)}, at_last)]
    if scenario.source_returns:
        ends, idle = (list(map(_without_remains, found)) for found in (ends, idle))
    assert all({**found, **later} in ends for found in idle), "it was free, and neither done nor as before"


def _without_remains(found: Books) -> Books:
    """Leave out guests that are off where their server is not."""
    homes = {(host, server) for server, (host, _) in found["homes"].items()}
    guests = [guest for guest in found["guests"] if guest[:2] in homes or guest[3] != "stopped"]
    has = [entry for entry in found["has"] if (entry[0], entry[1].server) in homes]
    return {**found, "guests": guests, "has": has}


async def _slept(scenario: Scenario, touch: int) -> None:
    trial = scenario.begin({touch: Fault.SLEEP})
    ended = await sleeping(trial)
    if ended.fired:
        await scenario.check(trial, ended, True)
