"""Notifications are Nova's, in Nova's order, whatever dies: each at least once, and none of what did not happen."""

import pytest

from tests.share import share
from tests.stories.announcing import Announcing, in_order_but_for_repeats
from tests.stories.lifecycle import Lifecycle
from tests.stories.move_stories import LIVE_STORIES, STORIES
from tests.stories.test_lifecycle import SCENARIOS
from tools.scenarios import evacuations
from tools.scenarios.incarnations import Incarnations
from tools.scenarios.moves import Story, Trial
from whimbrel.domain.notification_rules import NotificationRules
from whimbrel.ports.services.notifications import Notification
from whimbrel.sim.faults.chaos import Fault, Plan

EXISTS = "instance.exists"
CHOICE = ("scheduler.select_destinations.start", "scheduler.select_destinations.end")
PREP = (EXISTS, "instance.resize_prep.start", "instance.resize_prep.end")
RESIZED = (
    *CHOICE,
    *PREP,
    *("instance.resize.start", "instance.resize.end"),
    *("instance.resize_finish.start", "instance.resize_finish.end"),
)
CONFIRMED = (*RESIZED, "instance.resize_confirm.start", "instance.resize_confirm.end")
REVERTED = (*RESIZED, EXISTS, "instance.resize_revert.start", "instance.resize_revert.end")
PRE_LIVE = ("instance.live_migration_pre.start", "instance.live_migration_pre.end")
LIVE = (
    *CHOICE,
    *PRE_LIVE,
    "instance.live_migration_post.start",
    "instance.live_migration_post_dest.start",
    "instance.live_migration_post_dest.end",
    "instance.live_migration_post.end",
)
ABORTED = (
    *CHOICE,
    *PRE_LIVE,
    *("instance.live_migration_abort.start", "instance.live_migration_abort.end"),
    "instance.live_migration_rollback.start",
    "instance.live_migration_rollback_dest.start",
    "instance.live_migration_rollback_dest.end",
    "instance.live_migration_rollback.end",
)
REBUILT = ("instance.rebuild_scheduled", EXISTS, "instance.rebuild.start", "instance.rebuild.end")
EVACUATED = ("instance.evacuate", *CHOICE, *REBUILT)
CREATED = ("instance.create.start", "instance.create.end")
TRIED = ("instance.create.start", "instance.create.error")
UNBUILT = "compute_task.build_instances.error"
DELETED = ("instance.delete.start", "instance.shutdown.start", "instance.shutdown.end", "instance.delete.end")
SHELVED = (EXISTS, "instance.shelve.start", "instance.shelve.end")
OFFLOADED = ("instance.shelve_offload.start", "instance.shelve_offload.end")


def pair(name: str) -> tuple[str, str]:
    return f"instance.{name}.start", f"instance.{name}.end"


def expected_of_move(story: Story) -> tuple[str, ...]:
    if story.live:
        return LIVE if story.end == "confirm" else ABORTED
    return CONFIRMED if story.end == "confirm" else REVERTED


EXPECTED = {
    "create": (*CHOICE, *CREATED),
    "create with a virtual function, a host does not start it": (*CHOICE, *TRIED, *CREATED),
    "create with ports and volumes": (*CHOICE, *CREATED),
    "create, all hosts refuse": (*CHOICE, *TRIED, *TRIED, *TRIED, UNBUILT),
    "create, no host is large enough": (CHOICE[0], UNBUILT),
    "delete of a running one": DELETED,
    "delete of one without a host": ("instance.delete.start", "instance.delete.end"),
    "delete of one that waits for its verdict": (*CONFIRMED, *DELETED),
    "start": pair("power_on"),
    "stop": pair("power_off"),
    "reboot": pair("reboot"),
    "snapshot": pair("snapshot"),
    "follow_power of a guest that went off with its host": pair("power_off"),
    "rebuild from another image": REBUILT,
    "rebuild, its host cannot make the disk": (*REBUILT[:3], "instance.rebuild.error"),
    "shelve": (*SHELVED, *OFFLOADED),
    "shelve of one that stays on its host": SHELVED,
    "shelve of one on a volume": OFFLOADED,
    "shelve_offload": OFFLOADED,
    "unshelve": (*CHOICE, *pair("unshelve")),
    "unshelve_in_place": pair("power_on"),
}
"""Lifecycle scenario -> what Nova's services send for it."""


def scenario(name: str) -> Lifecycle:
    return Lifecycle(next(each for each in SCENARIOS if each.name == name))


async def sent_by(story: Incarnations, rules: NotificationRules | None = None) -> list[Notification]:
    """Run a story during which the announcing process is killed again and again. Return what it told."""
    announcing = Announcing(story, rules)
    result = await announcing.play()
    await result.world.close()
    assert in_order_but_for_repeats(announcing.sink.sent)
    return announcing.told


def events(told: list[Notification]) -> tuple[str, ...]:
    return tuple(each.event for each in told)


@pytest.mark.parametrize("story", [*STORIES, *LIVE_STORIES], ids=str)
async def test_moves_are_told_as_nova_tells_them(story: Story) -> None:
    assert events(await sent_by(Trial(story))) == expected_of_move(story)


@pytest.mark.parametrize("story", evacuations.STORIES, ids=str)
async def test_evacuations_are(story: evacuations.Evacuating) -> None:
    assert events(await sent_by(evacuations.Trial(story))) == EVACUATED


@pytest.mark.parametrize("name", EXPECTED)
async def test_all_else_is(name: str) -> None:
    assert events(await sent_by(scenario(name))) == EXPECTED[name]


def moves(name: str) -> Story:
    return next(story for story in STORIES if story.name == name)


CRASHED = {
    "resize with ports and volumes, confirm": CONFIRMED,
    "resize with ports and volumes, revert": REVERTED,
    "cold migration to a host of another cell, revert": REVERTED,
}


@pytest.mark.long
@pytest.mark.parametrize("name", CRASHED)
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.LOST_ANSWER], ids=lambda fault: fault.name)
async def test_a_conductor_that_dies_changes_nothing(name: str, fault: Fault) -> None:
    """At each touch of a port: the sequence is the same, unless the request itself died before it was accepted."""
    undisturbed = await Trial(moves(name)).play()
    touches = len(undisturbed.incarnations[0].touches)
    await undisturbed.world.close()
    for touch in share(range(touches)):
        plan: Plan = {touch: fault}
        told = events(await sent_by(Trial(moves(name), plan)))
        assert told in (CONFIRMED[:0], CRASHED[name]), (touch, undisturbed.incarnations[0].touches[touch])


async def test_what_is_refused_is_told_as_an_error_and_what_follows_as_done() -> None:
    """The target cannot make the disk: another host takes the server."""
    story = Trial(moves("resize, confirm"))
    announcing = Announcing(story)
    scene = announcing.set_the_scene

    async def set_the_scene() -> None:
        await scene()
        story.world.hypervisors[next(host for host in story.world.hypervisors if host == "h2")].refusing.add("reserve")

    story.set_the_scene = set_the_scene  # type: ignore[method-assign]
    result = await announcing.play()
    await result.world.close()
    again = CONFIRMED[len(CHOICE) :]
    assert tuple(announcing.events) == (*CHOICE, *PREP[:2], "instance.resize.error", *again)
    error = announcing.told[4]
    assert (error.priority, error.publisher) == ("ERROR", "nova-compute:h1")
    assert error.payload["nova_object.data"]["fault"]["nova_object.data"]["exception_message"]


async def test_changes_of_the_state_are_told_if_that_is_set() -> None:
    rules = NotificationRules(enabled=True, notify_on_state_change="vm_and_task_state")
    told = await sent_by(scenario("stop"), rules)
    assert events(told) == (
        *("instance.update", "instance.power_off.start"),
        *("instance.update", "instance.power_off.end"),
    )
    changes = [
        each.payload["nova_object.data"]["state_update"]["nova_object.data"]
        for each in told
        if each.event == "instance.update"
    ]
    assert changes == [
        {"old_state": "active", "state": "active", "old_task_state": None, "new_task_state": "powering-off"},
        {"old_state": "active", "state": "stopped", "old_task_state": "powering-off", "new_task_state": None},
    ]
    rules = NotificationRules(enabled=True, notify_on_state_change="vm_state")
    assert events(await sent_by(scenario("stop"), rules)) == (
        "instance.power_off.start",
        "instance.update",
        "instance.power_off.end",
    )


async def test_changes_of_the_state_are_those_that_the_record_shows() -> None:
    """The task states of a shelve and of a create, which steps set by themselves."""
    rules = NotificationRules(enabled=True, notify_on_state_change="vm_and_task_state")
    changes = {
        name: [
            (data["state"], data["task_state"])
            for each in await sent_by(scenario(name), rules)
            if each.event == "instance.update"
            for data in [each.payload["nova_object.data"]]
        ]
        for name in ("shelve", "create")
    }
    assert changes == {
        "shelve": [("active", "shelving"), ("shelved", "shelving_offloading"), ("shelved_offloaded", None)],
        "create": [("building", "scheduling"), ("building", "spawning"), ("active", None)],
    }
