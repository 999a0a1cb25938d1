"""Unversioned notifications have Nova's names and fields, tools/nova_unversioned.txt, and what their consumers read."""

from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from tests.stories.announcing import Announcing
from tests.stories.test_payloads import RULES, TOLD_BY, events_of_the_table, story_of
from tools.nova_notifications import TABLE
from whimbrel.domain.notification_rules import NotificationRules
from whimbrel.notifications import unversioned
from whimbrel.notifications.unversioned import name_of
from whimbrel.ports.services.notifications import Notification

LINES = [line.split() for line in TABLE.with_name("nova_unversioned.txt").read_text().splitlines()[2:]]
BASE = set(LINES[0][1].split(","))
FIELDS = {
    name: BASE | {addresses, *extra.split(",")} - {"-"} for name, addresses, extra in LINES[1:]
}  # fmt: skip
OF_TASKS = {"request_spec", "instance_properties", "instance_id", "state", "method", "reason"}

CEILOMETER = {
    *("tenant_id", "user_id", "instance_id", "display_name", "cell_name", "memory_mb", "disk_gb", "root_gb"),
    *("ephemeral_gb", "vcpus", "instance_type_id", "instance_type", "instance_flavor_id", "state", "image_meta"),
    *("launched_at", "deleted_at", "created_at", "host", "availability_zone", "metadata"),
}
"""What Ceilometer's meters.yaml and event_definitions.yaml read of compute.instance.*."""


async def told_by(name: str, notification_format: str = "unversioned") -> list[Notification]:
    story = story_of(name)
    assert story, name
    rules = replace(RULES, notification_format=notification_format)
    announcing = Announcing(story, rules, is_killed=False)
    result = await announcing.play()
    await result.world.close()
    return announcing.told


@pytest.mark.parametrize("name", TOLD_BY)
async def test_names_and_fields_are_novas(name: str) -> None:
    told = await told_by(name)
    assert told or name.startswith(("plug", "unplug", "swap"))
    for each in told:
        assert not each.is_versioned
        service, _, host = each.publisher.partition(".")
        assert host
        if each.event.startswith("compute_task."):
            assert (service, set(each.payload)) == ("compute_task", OF_TASKS)
        else:
            assert (service, set(each.payload)) == ("compute", FIELDS[each.event]), each.event
            assert set(each.payload) >= CEILOMETER


def test_nova_has_all_names() -> None:
    names = {name for event in events_of_the_table() if (name := name_of(event.name))}
    assert not {name for name in names if not name.startswith("compute_task.")} - set(FIELDS)
    assert {name for name in names if name.startswith("compute_task.")} == {
        *("compute_task.build_instances", "compute_task.migrate_server", "compute_task.rebuild_server")
    }


def test_addresses_are_in_the_events_in_which_nova_has_them() -> None:
    with_addresses = {name for name, addresses, _ in LINES[1:] if addresses != "-"}
    assert {f"{unversioned.PREFIX}{name}" for name in unversioned.WITH_ADDRESSES} == with_addresses


@pytest.mark.parametrize(
    ("versioned", "name"),
    [
        ("instance.create.end", "compute.instance.create.end"),
        ("instance.resize_prep.start", "compute.instance.resize.prep.start"),
        ("instance.resize_finish.end", "compute.instance.finish_resize.end"),
        ("instance.live_migration_post.end", "compute.instance.live_migration._post.end"),
        ("instance.rebuild_scheduled", "compute.instance.rebuild.scheduled"),
        ("instance.volume_attach.end", "compute.instance.volume.attach"),
        ("instance.volume_attach.start", None),
        ("instance.lock", None),
        ("instance.interface_attach.end", None),
        ("flavor.create", None),
        ("compute_task.migrate_server.error", "compute_task.migrate_server"),
    ],
)
def test_what_an_event_is_called(versioned: str, name: str | None) -> None:
    assert name_of(versioned) == name


async def test_both_formats_say_the_same_of_a_move_in_the_same_order() -> None:
    both = await told_by("resize with ports and volumes, confirm", "both")
    versioned = [each for each in both if each.is_versioned and not each.event.startswith("scheduler.")]
    beside = [each for each in both if not each.is_versioned]
    assert [name_of(each.event) for each in versioned] == [each.event for each in beside]
    assert [(each.at, each.priority, each.request_id, each.user_id, each.project_id) for each in versioned] == [
        (each.at, each.priority, each.request_id, each.user_id, each.project_id) for each in beside
    ]
    assert len({each.id for each in both}) == len(both)


async def test_a_created_server_has_what_designate_makes_names_of() -> None:
    told = {each.event: each.payload for each in await told_by("create with ports and volumes")}
    created = told["compute.instance.create.end"]
    assert created["fixed_ips"]
    for address in created["fixed_ips"]:
        assert set(address) == {"address", "type", "version", "meta", "floating_ips", "label", "vif_mac"}
        assert address["version"] == 4
        assert address["label"]
    assert created["message"] == "Success"
    assert created["hostname"]
    assert "fixed_ips" not in told["compute.instance.create.start"]
    since = datetime.fromisoformat(created["launched_at"]) - datetime.fromisoformat(created["created_at"]).replace(
        tzinfo=None
    )
    assert since.total_seconds() >= 0, "Ceilometer's meter of the time that a boot takes"
    assert told["compute.instance.create.start"]["launched_at"] == ""


async def test_states_and_what_changes_is_told() -> None:
    told: dict[str, list[dict[str, Any]]] = {}
    for each in await told_by("stop"):
        told.setdefault(each.event, []).append(each.payload)
    [begun], [ended] = told["compute.instance.power_off.start"], told["compute.instance.power_off.end"]
    assert (begun["state"], begun["state_description"]) == ("active", "powering-off")
    assert (ended["state"], ended["state_description"]) == ("stopped", "")
    changes = [
        tuple(each[name] for name in ("old_state", "state", "old_task_state", "new_task_state"))
        for each in told["compute.instance.update"]
    ]
    assert changes == [("active", "active", None, "powering-off"), ("active", "stopped", "powering-off", None)]


async def test_what_failed_is_an_error_with_its_reason() -> None:
    errors = [each for each in await told_by("create, no host is large enough") if each.priority == "ERROR"]
    [unbuilt] = errors
    assert unbuilt.event == "compute_task.build_instances"
    assert unbuilt.payload["method"] == "build_instances"
    assert unbuilt.payload["reason"]
    [refused] = [each for each in await told_by("rebuild, its host cannot make the disk") if each.priority == "ERROR"]
    assert refused.event == "compute.instance.rebuild.error"
    assert (refused.payload["code"], refused.payload["exception"]) == (500, "Refused")
    assert refused.payload["message"]


async def test_a_server_is_accounted_for_with_the_image_that_it_had() -> None:
    told = {each.event: each for each in await told_by("rebuild from another image", "both")}
    before, after = told["compute.instance.exists"].payload, told["compute.instance.rebuild.end"].payload
    assert before["image_ref_url"] != after["image_ref_url"]
    assert before["image_meta"]["base_image_ref"] == before["image_ref_url"]
    assert before["audit_period_beginning"].endswith("-01 00:00:00")
    versioned = told["instance.exists"].payload["nova_object.data"]
    assert versioned["image_uuid"] == before["image_ref_url"]
    assert versioned["audit_period"]["nova_object.data"]["audit_period_ending"] == versioned["updated_at"]


def test_they_are_not_sent_unless_that_is_set() -> None:
    rules = NotificationRules()
    assert (rules.sends_versioned, rules.sends_unversioned) == (True, False)
