"""Names, versions and fields of what is sent are those of Nova's own samples, tools/nova_notifications.txt."""

from pathlib import Path
from typing import Any

import pytest

from tests.stories import attaching
from tests.stories.announcing import Announcing
from tests.stories.lifecycle import Lifecycle
from tests.stories.move_stories import LIVE_STORIES, STORIES
from tests.stories.test_lifecycle import SCENARIOS
from tools.nova_notifications import DATA, NAME, TABLE, VERSION, objects
from tools.scenarios import evacuations
from tools.scenarios.incarnations import Incarnations
from tools.scenarios.moves import Trial
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.notification_rules import NotificationRules
from whimbrel.notifications.announced_steps import ANNOUNCED, OF_ACTIONS, Event
from whimbrel.notifications.versioned_objects import VERSIONS
from whimbrel.ports.services.notifications import Notification
from whimbrel.saga.step import Saga

LINES = [line.split() for line in Path(TABLE).read_text().splitlines()[1:]]
SAMPLES = [line[1:] for line in LINES if line[0] != "-"]
CLASSES = {line[1]: (line[2], set(line[3].split(","))) for line in LINES if line[0] == "-"}
KNOWN = {line[0] for line in SAMPLES}

RULES = NotificationRules(enabled=True, notify_on_state_change="vm_and_task_state", bdms_in_notifications=True)

TOLD_BY = (
    *("resize with ports and volumes, confirm", "resize, revert", "live migration with ports and volumes"),
    *("live migration, aborted", "evacuation with ports and volumes"),
    *("create with ports and volumes", "create with a virtual function, a host does not start it"),
    *("create, no host is large enough", "delete of one with ports and volumes", "delete of one without a host"),
    *("start", "stop", "reboot", "snapshot", "rebuild from another image", "rebuild, its host cannot make the disk"),
    *("shelve", "unshelve", "pause", "suspend", "rescue", "soft delete"),
    *("attach a volume", "detach a volume", "swap a volume", "plug by network", "unplug what was made for it"),
)
"""Stories that together send most kinds of notifications."""

DIFFERENT_STATES = {
    "instance.create.start": "Nova's is not in a task any more: its scheduler is done",
    "instance.create.error": "the task goes on with another host",
    "instance.resize.end": "resize_migrated is no state of ours",
    "instance.live_migration_post.end": "Nova's source host does not know yet that the task is over",
    "instance.reboot.start": "Nova has finer states of reboots",
    "instance.snapshot.start": "Nova has finer states of snapshots",
    "instance.update": "any state",
    "instance.exists": "Nova's only sample is that of a rebuild",
}
"""Event -> why its state and task state are not those of Nova's sample."""


def story_of(name: str) -> Incarnations | None:
    for stories, kind in (
        ((*STORIES, *LIVE_STORIES), Trial),
        (evacuations.STORIES, evacuations.Trial),
        (SCENARIOS, Lifecycle),
        (attaching.SCENARIOS, attaching.Operation),
    ):
        for each in stories:  # type: ignore[attr-defined]
            if each.name == name:
                found: Incarnations = kind(each)
                return found
    return None


async def told_by(name: str) -> list[Notification]:
    story = story_of(name)
    assert story, name
    announcing = Announcing(story, RULES, is_killed=False)
    result = await announcing.play()
    await result.world.close()
    return announcing.told


@pytest.mark.parametrize("name", TOLD_BY)
async def test_all_objects_have_novas_versions_and_fields(name: str) -> None:
    told = await told_by(name)
    assert told
    for each in told:
        found = list(objects(each.payload))
        assert found
        for one in found:
            version, fields = CLASSES[one[NAME]]
            assert (one[VERSION], set(one[DATA])) == (version, fields), (each.event, one[NAME])


@pytest.mark.parametrize("name", TOLD_BY)
async def test_events_have_novas_priority_service_payload_and_states(name: str) -> None:
    for each in await told_by(name):
        data: dict[str, Any] = each.payload[DATA]
        service = each.publisher.partition(":")[0]
        said = [each.event, each.priority, service, each.payload[NAME], each.payload[VERSION]]
        samples = [sample for sample in SAMPLES if sample[:5] == said]
        assert samples, said
        if each.event not in DIFFERENT_STATES:
            states = [str(data.get("state")), str(data.get("task_state"))]
            assert states in [sample[5:7] for sample in samples], (each.event, states)


def events_of_the_table() -> list[Event]:
    found = list(OF_ACTIONS.values())
    for announced in ANNOUNCED.values():
        for events in (*announced.after.values(), *announced.confirmed.values(), *announced.undone.values()):
            found += events
        found += (*announced.reverted, *announced.failed, *announced.unbegun)
    return found


def test_nova_has_all_names() -> None:
    assert not {event.name for event in events_of_the_table()} - KNOWN


def test_all_versions_are_novas() -> None:
    assert {name: CLASSES[name][0] for name in VERSIONS} == VERSIONS


@pytest.mark.parametrize(
    "saga", [saga for saga in SAGAS if saga.name in ANNOUNCED], ids=lambda s: f"{s.name} {s.version}"
)
def test_the_steps_of_the_table_are_in_every_version_of_a_list(saga: Saga) -> None:
    announced = ANNOUNCED[saga.name]
    assert not {*announced.after, *announced.confirmed, *announced.undone} - {step.name for step in saga.steps}
