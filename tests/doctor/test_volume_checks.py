"""Volumes and attachments that Cinder has otherwise than Nova."""

import msgspec
import pytest

from tests.doctor.nova_copy import NOW, OLD, YOUNG, NovaCopy, moment, server
from tests.doctor.services_copy import VolumesCopy
from whimbrel.adapters.sql.nova_databases import nova_tables as nova
from whimbrel.doctor.doctor_finding import Command
from whimbrel.doctor.volume_checks import VolumeChecks


@pytest.fixture
def volumes() -> VolumesCopy:
    return VolumesCopy()


def kinds(copy: NovaCopy, volumes: VolumesCopy, **how: object) -> list[tuple[str, str]]:
    return copy.kinds(services=[VolumeChecks(volumes)], **how)


def test_volumes_of_servers_and_of_others(copy: NovaCopy, volumes: VolumesCopy) -> None:
    copy.use_volume(1, "v1", "a1")
    copy.use_volume(1, "v2", None)  # from before attachments had ids
    copy.add_record(3, None, vm_state="shelved_offloaded")
    copy.add_mapping(3, "one")
    copy.add_spec(3)
    copy.use_volume(3, "v3", "a3")
    for number, status in enumerate(("in-use", "in-use", "reserved", "available", "in-use"), start=1):
        volumes.add(f"v{number}", status)
    volumes.attach("a1", "v1", server(1))
    volumes.attach("a2", "v2", server(1))
    volumes.attach("a3", "v3", server(3), "reserved")
    volumes.attach("a5", "v5", None)
    assert kinds(copy, volumes) == []


def test_an_attach_that_stands_still_leaves_the_offloaded_server_its_volume(
    copy: NovaCopy, volumes: VolumesCopy
) -> None:
    copy.add_record(3, None, vm_state="shelved_offloaded")
    copy.add_mapping(3, "one")
    copy.add_spec(3)
    for number in (1, 3):
        copy.use_volume(number, "v", f"a{number}")
        volumes.attach(f"a{number}", "v", server(number), "reserved")
    volumes.add("v", "reserved")
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert found.key == ("stuck_volume", "v")
    assert [
        each for each in (found.text, *(each.line for each in found.commands)) if server(3) in each or "a3" in each
    ] == []
    volumes.attach("a1", "v", server(1))
    assert kinds(copy, volumes) == []


def test_an_attachment_of_a_server_that_is_gone(copy: NovaCopy, volumes: VolumesCopy) -> None:
    volumes.add("v")
    volumes.attach("a", "v", server(3))
    assert kinds(copy, volumes) == [("attachment_of_gone_server", "a")]


def test_an_attachment_that_nova_does_not_record(copy: NovaCopy, volumes: VolumesCopy) -> None:
    copy.use_volume(1, "v", "a")
    volumes.add("v")
    volumes.attach("a", "v", server(1))
    volumes.attach("b", "v", server(1), "reserved")
    assert kinds(copy, volumes) == [("attachment_without_mapping", "b")]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_live_migration_that_died_leaves_the_targets_attachment_recorded(
    copy: NovaCopy, volumes: VolumesCopy, is_there: bool
) -> None:
    """The guest, on n1, has the other one: to delete that would take its disk away."""
    copy.use_volume(1, "v", "b", boot_index=0)
    volumes.add("v")
    volumes.attach("a", "v", server(1), host="n1")
    if is_there:
        volumes.attach("b", "v", server(1), host="n2")
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert found.key == ("attachment_without_mapping", "a")
    record, *deletes = found.commands[is_there:]
    assert ["n2/system domstate" in each.line for each in found.commands[:is_there]] == [True] * is_there
    assert copy.execute(record.sql_in or "", record.line) == 1
    assert [each.line.rpartition(" ")[2] for each in deletes] == ["b"] * is_there
    volumes.attachment_rows.pop("b", None)
    assert kinds(copy, volumes) == []


def test_the_record_of_the_volume_that_a_server_boots_from_is_kept(copy: NovaCopy, volumes: VolumesCopy) -> None:
    copy.use_volume(1, "v", "a", boot_index=0)
    volumes.add("v", "available")
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert found.key == ("mapping_without_attachment", f"{server(1)}/v")
    connector, *others = [each.line for each in found.commands]
    assert connector == "ssh n1 nova-manage volume_attachment get_connector --json > n1.json"
    assert others == [
        f"openstack server stop {server(1)}",  # it has no --wait
        f'for i in $(seq 90); do [ "$(openstack server show -f value -c status {server(1)})" = SHUTOFF ] && break;'
        " sleep 2; done",
        f"nova-manage volume_attachment refresh {server(1)} v n1.json",
        f"openstack server start {server(1)}",
    ]
    volumes.volume_rows.clear()
    assert copy.look(services=[VolumeChecks(volumes)]).findings[0].commands == []


def test_a_volume_whose_attachment_is_gone(copy: NovaCopy, volumes: VolumesCopy) -> None:
    copy.use_volume(1, "v", "a")
    copy.use_volume(1, "w", "b")
    volumes.add("v", "available")
    found = copy.look(services=[VolumeChecks(volumes)]).findings
    assert [each.key for each in found] == [
        ("mapping_without_attachment", f"{server(1)}/v"),
        ("mapping_without_attachment", f"{server(1)}/w"),
    ]
    assert "which is available" in found[0].text
    assert "does not exist" in found[1].text


def test_an_attach_that_died_before_it_made_an_attachment(copy: NovaCopy, volumes: VolumesCopy) -> None:
    copy.use_volume(1, "v", None)
    volumes.add("v", "available")
    volumes.attach("a", "v", server(3))
    copy.add_server(3)
    copy.use_volume(3, "v", "a")
    assert kinds(copy, volumes) == [("mapping_without_attachment", f"{server(1)}/v")]


@pytest.mark.parametrize(("own", "of_copy"), [("reserved", None), ("reserved", "reserved"), ("attached", "reserved")])
def test_the_volumes_of_a_hidden_copy_are_not_those_of_its_server(
    copy: NovaCopy, volumes: VolumesCopy, own: str, of_copy: str | None
) -> None:
    """Rows as a Nova left them whose nova-compute of the target died in a revert between cells (own: reserved)."""
    copy.change("one", nova.instances, {"uuid": server(1)}, vm_state="error")
    copy.add_record(1, "s1", hidden=True)
    copy.use_volume(1, "v", "a1", connection_info="{}")
    copy.use_volume(1, "v", "a2", cell="two")
    volumes.add("v", "in-use" if own == "attached" else "reserved")
    volumes.attach("a1", "v", server(1), own)
    if of_copy:
        volumes.attach("a2", "v", server(1), of_copy)
    found = copy.look(services=[VolumeChecks(volumes)]).findings
    stuck = [("stuck_volume", "v")] * (own == "reserved")
    assert [each.key for each in found] == [("hidden_copy", server(1)), *stuck]
    if stuck:
        assert sum("attachment refresh" in each.line for each in found[1].commands) == 1


def test_what_a_failed_create_did_not_attach(copy: NovaCopy, volumes: VolumesCopy) -> None:
    copy.add_record(3, None, cell="one", vm_state="error", launched_at=None)
    copy.add_mapping(3, "one")
    copy.use_volume(3, "v", "a")
    volumes.add("v", "available")
    assert kinds(copy, volumes) == []


def test_what_a_reclaim_that_died_has_released(copy: NovaCopy, volumes: VolumesCopy) -> None:
    """nova-compute deletes the server when it reclaims again; one that is restored instead lacks its volume."""
    copy.add_server(3, vm_state="soft-delete")
    copy.use_volume(3, "v", "a")
    volumes.add("v", "available")
    assert kinds(copy, volumes) == []
    copy.change("one", nova.instances, {"uuid": server(3)}, vm_state="active")
    assert kinds(copy, volumes) == [("mapping_without_attachment", f"{server(3)}/v")]


@pytest.mark.parametrize("status", ["reserved", "attaching"])
def test_a_volume_waits_with_a_server_whose_create_failed(copy: NovaCopy, volumes: VolumesCopy, status: str) -> None:
    """The server is deleted sooner or later, and its volume is free then. Nova refuses to stop it."""
    copy.add_record(3, "n1", vm_state="error", launched_at=None)
    copy.add_mapping(3, "one")
    copy.add_spec(3)
    copy.hold(server(3), "n1")
    copy.use_volume(3, "v", "a", boot_index=0)
    volumes.add("v", status)
    volumes.attach("a", "v", server(3), status)
    assert kinds(copy, volumes) == []
    copy.change("one", nova.instances, {"uuid": server(3)}, launched_at=moment(OLD))
    assert kinds(copy, volumes) == [("stuck_volume", "v")]


@pytest.mark.parametrize("status", ["reserved", "attaching", "detaching", "in-use"])
def test_a_volume_that_is_used_by_nobody(copy: NovaCopy, volumes: VolumesCopy, status: str) -> None:
    volumes.add("v", status)
    assert kinds(copy, volumes) == [("stuck_volume", "v")]


@pytest.mark.parametrize(
    ("status", "attachment", "command"),
    [("reserved", "reserved", "UPDATE block_device_mapping"), ("detaching", "attached", "openstack volume set")],
)
def test_an_attach_or_detach_that_stands_still(
    copy: NovaCopy, volumes: VolumesCopy, status: str, attachment: str, command: str
) -> None:
    copy.use_volume(1, "v", "a")
    volumes.add("v", status)
    volumes.attach("a", "v", server(1), attachment)
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert found.key == ("stuck_volume", "v")
    assert found.commands[0].line.startswith(command)


def test_what_goes_on(copy: NovaCopy, volumes: VolumesCopy) -> None:
    copy.change("one", nova.instances, {"uuid": server(1)}, at=YOUNG, task_state="resize_migrating")
    copy.use_volume(1, "v", "a")
    volumes.add("v", "reserved")
    volumes.attach("a", "v", server(1), "reserved")
    volumes.attach("b", "v", server(1), "attached")
    copy.add_server(3)
    copy.use_volume(3, "w", "c")
    volumes.add("w", "detaching", YOUNG)
    volumes.attach("c", "w", server(3))
    assert kinds(copy, volumes) == []


def test_a_volume_that_cinder_migrates_is_copied_for_as_long_as_disks_are(copy: NovaCopy, volumes: VolumesCopy) -> None:
    """Rows as a Nova has them in a swap: no task state, and the target's attachment is recorded at its end."""
    copy.use_volume(1, "v", "a", connection_info="{}")
    volumes.add("v", "detaching")
    volumes.attach("a", "v", server(1))
    volumes.add("w", "attaching")
    volumes.attach("b", "w", server(1), "attaching")
    began = NOW - 1800.0
    copy.add("one", nova.instance_actions, began, id=1, instance_uuid=server(1), action="swap_volume", deleted=0)
    copy.add("one", nova.instance_actions, began, id=2, instance_uuid=server(1), action="reboot", deleted=0)
    copy.add("one", nova.instance_actions_events, began, action_id=1, event="compute_swap_volume", host="n1")
    assert kinds(copy, volumes) == []
    copy.change("one", nova.services, {"host": "n1"}, last_seen_up=moment(began))
    assert kinds(copy, volumes) == [("attachment_without_mapping", "b"), ("stuck_volume", "v")]
    copy.change("one", nova.services, {"host": "n1"}, last_seen_up=moment(NOW))
    assert len(kinds(copy, volumes, now=NOW + 7200.0)) == 2


def test_a_migration_of_a_volume_that_stands_still(copy: NovaCopy, volumes: VolumesCopy) -> None:
    """Rows as a Cinder and a Nova left them whose nova-compute died before it copied: retype and swap begun."""
    copy.use_volume(1, "v", "a", connection_info="{}")
    volumes.add("v", "retyping", migration="migrating")
    volumes.attach("a", "v", server(1))
    volumes.add("w", "attaching", migration="target:v")
    volumes.attach("b", "w", server(1), "attaching")
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert found.key == ("attachment_without_mapping", "b")
    assert "n1/system dumpxml" in found.commands[0].line  # the guest has the copy before the attachment is complete
    del volumes.attachment_rows["b"]
    volumes.add("w", "attaching", migration="target:v")  # Cinder keeps that of a copy when its attachment is deleted
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert (found.key, found.commands[0].line) == (("stuck_volume", "v"), "openstack volume set --state in-use v")
    assert found.commands[1].line.endswith('/volumes/v/action"')
    volumes.add("v", "in-use")
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert found.key == ("stuck_volume", "w")
    assert [each.line.split(" ", 2)[2] for each in found.commands[1:]] == ["set --state available w", "delete w"]


def test_a_migration_of_a_volume_that_may_have_lost_its_source_is_not_taken_back(
    copy: NovaCopy, volumes: VolumesCopy
) -> None:
    volumes.add("v", "available", migration="completing")
    volumes.add("w", "available", migration="target:v")
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert (found.subject, found.commands) == ("v", [])


def test_a_volume_that_no_server_has_may_be_copied_for_hours(copy: NovaCopy, volumes: VolumesCopy) -> None:
    """Cinder records nothing while it copies: after a day it is named, and nothing is ended."""
    volumes.add("v", "retyping", at=NOW - 90_000.0, migration="migrating")
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert (found.subject, found.commands) == ("v", [])
    assert found.note.startswith("cinder-volume copies a volume that no server uses")


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_guest_that_has_changed_over_to_the_copy_of_its_volume_keeps_it(
    copy: NovaCopy, volumes: VolumesCopy, is_deleted: bool
) -> None:
    """nova-compute completes the attachment of the copy when the guest uses it: only there does it write then."""
    copy.use_volume(1, "v", "a", connection_info="{}")
    volumes.add("v", "detaching", migration="migrating")
    volumes.add("w", migration="target:v")
    volumes.attach("b", "w", server(1))
    if not is_deleted:
        volumes.attach("a", "v", server(1))
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert found.key == ("attachment_without_mapping", "b")
    assert "which Cinder copies to it" in found.text
    look, record, *deletes, complete = found.commands  # Cinder refuses to delete an attachment that Nova records
    assert "dumpxml" in look.line
    assert [each.line.rpartition(" ")[2] for each in deletes] == ["a"] * (not is_deleted)
    assert '"os-migrate_volume_completion": {"new_volume": "w", "error": false}' in complete.line
    assert complete.line.endswith('/volumes/v/action"')
    assert copy.execute(record.sql_in or "", record.line) == 1
    volumes.attachment_rows.pop("a", None)
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert [each.line for each in found.commands] == [look.line, complete.line]
    volumes.volume_rows.clear()
    volumes.add("v", migration="success")
    volumes.attach("b", "v", server(1))  # as Cinder leaves it
    assert kinds(copy, volumes) == []


def test_a_guest_that_may_have_changed_over_to_the_copy_of_its_volume(copy: NovaCopy, volumes: VolumesCopy) -> None:
    copy.use_volume(1, "v", "a", connection_info="{}")
    volumes.add("v", "detaching", migration="migrating")
    volumes.add("w", "attaching", migration="target:v")
    volumes.attach("a", "v", server(1))
    volumes.attach("b", "w", server(1), "attaching")
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert found.key == ("attachment_without_mapping", "b")
    assert "volume attachment complete b" in found.note


@pytest.mark.parametrize("age", [0.0, 1800.0, 7200.0])
def test_a_volume_that_no_server_has_is_migrated(copy: NovaCopy, volumes: VolumesCopy, age: float) -> None:
    volumes.add("v", "retyping", at=NOW - age, migration="migrating")
    volumes.add("w", "available", at=NOW - age, migration="target:v")
    volumes.add("x", migration="success")
    volumes.attach("a", "x", None)
    assert kinds(copy, volumes) == []


def test_what_changes_between_the_looks(copy: NovaCopy, volumes: VolumesCopy) -> None:
    copy.use_volume(1, "w", "b")
    for id in ("u", "v", "w"):
        volumes.add(id, "detaching" if id == "u" else "available")
    volumes.attach("a", "v", server(1))

    def change(_: float) -> None:
        volumes.volume_rows["u"] = msgspec.structs.replace(volumes.volume_rows["u"], status="available")
        copy.use_volume(1, "v", "a")
        volumes.attach("b", "w", server(1))

    found = copy.look(wait=change, services=[VolumeChecks(volumes)])
    assert (found.findings, found.passed) == ([], 3)


def verb_of(command: Command) -> str:
    words = command.line.removeprefix("ssh n1 ").split(" ")
    return "wait" if words[0] == "for" else words[2]


@pytest.mark.parametrize("values", [{"boot_index": 0}, {"connection_info": "{}"}])
def test_a_volume_that_the_guest_may_use_is_attached_anew_and_not_forgotten(
    copy: NovaCopy, volumes: VolumesCopy, values: dict[str, object]
) -> None:
    """A resize leaves attachments that are not complete, and a guest whose attachment was deleted still writes."""
    for volume, attachment in (("v", "a"), ("w", "b")):
        copy.use_volume(1, volume, attachment, **values)
        volumes.add(volume, "reserved")
    volumes.attach("b", "w", server(1), "reserved")
    found = copy.look(services=[VolumeChecks(volumes)]).findings
    assert [each.kind for each in found] == ["mapping_without_attachment", "stuck_volume"]
    for each in found:
        assert [verb_of(command) for command in each.commands] == ["get_connector", "stop", "wait", "refresh", "start"]
    copy.change("one", nova.instances, {"uuid": server(1)}, vm_state="stopped")
    for each in copy.look(services=[VolumeChecks(volumes)]).findings:
        assert [verb_of(command) for command in each.commands] == ["get_connector", "refresh"]


def test_a_volume_that_is_attaching_is_in_use_before_its_attachment_is_made_anew(
    copy: NovaCopy, volumes: VolumesCopy
) -> None:
    """Cinder reserves no volume that is attaching, also not for its own server, and Nova's refresh begins with that."""
    copy.use_volume(1, "v", "a", connection_info="{}")
    volumes.add("v", "attaching")
    volumes.attach("a", "v", server(1), "attaching")
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    lines = [each.line for each in found.commands]
    assert "refresh" in lines[lines.index("openstack volume set --state in-use v") + 1]
    volumes.add("v", "in-use")
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings  # still, if the commands ended there
    assert [verb_of(command) for command in found.commands] == ["get_connector", "stop", "wait", "refresh", "start"]


@pytest.mark.parametrize("attachments", [0, 1])
def test_no_attachment_is_made_anew_while_the_server_cannot_be_stopped(
    copy: NovaCopy, volumes: VolumesCopy, attachments: int
) -> None:
    copy.add_server(3, "n2", vm_state="resized")
    copy.hold(copy.add_migration(3, "finished"), "n1")
    copy.use_volume(3, "v", "a", boot_index=0)
    volumes.add("v", "reserved")
    if attachments:
        volumes.attach("a", "v", server(3), "reserved")
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert found.commands == []
    assert "confirm or revert its move, and look again" in found.note


def test_an_attach_that_never_began_is_forgotten(copy: NovaCopy, volumes: VolumesCopy) -> None:
    copy.use_volume(1, "v", "a")
    volumes.add("v", "reserved")
    volumes.attach("a", "v", server(1), "reserved")
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    drop, delete = found.commands
    assert delete.line.endswith("delete a")
    copy.change("one", nova.block_device_mapping, {"volume_id": "v"}, connection_info="{}")
    assert copy.execute("one", drop.line) == 0  # it went on meanwhile
    copy.change("one", nova.block_device_mapping, {"volume_id": "v"}, connection_info="null")
    assert copy.execute("one", drop.line) == 1


def test_a_detach_from_one_of_several_servers_removes_the_volume_from_none(
    copy: NovaCopy, volumes: VolumesCopy
) -> None:
    volumes.add("v", "detaching")
    for number, attachment in ((1, "a"), (2, "b")):
        copy.use_volume(number, "v", attachment, cell="one" if number == 1 else "two")
        volumes.attach(attachment, "v", server(number))
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    assert [each.line for each in found.commands] == ["openstack volume set --state in-use v"]
