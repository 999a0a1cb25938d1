"""The commands that free a server whose operation stands still."""

import pytest

from tests.doctor.nova_copy import OLD, NovaCopy, migration, server
from whimbrel.adapters.sql.nova_databases import nova_tables as nova

MOVED = {"task_state": "resize_migrated"}


@pytest.mark.parametrize(
    ("values", "verbs"),
    [
        ({"task_state": "resize_prep"}, ["migrations", "--state active", "release"]),
        (MOVED, ["migrations", "--state active", "release", "--hard"]),
        ({"task_state": "resize_migrating"}, ["migrations", "--state active", "release", "disks", "--hard"]),
        ({**MOVED, "vm_state": "stopped"}, ["migrations", "--state active", "release", "--hard", "stop"]),
        ({**MOVED, "vcpus": 2}, ["migrations", "--state active", "release", "release", "heal", "--hard"]),
    ],
)
def test_how_a_move_that_stands_still_is_stopped(copy: NovaCopy, values: dict[str, object], verbs: list[str]) -> None:
    copy.add_server(3, **values)
    copy.hold(copy.add_migration(3, "post-migrating"), "n1")
    assert commands(copy) == verbs


def test_a_create_that_stands_still_between_two_task_states_is_stuck(copy: NovaCopy) -> None:
    copy.add_server(3, vm_state="building", task_state=None, launched_at=None)
    assert copy.kinds(now=OLD + 200.0) == []
    assert commands(copy) == ["delete"]
    assert "with no task state" in copy.look().findings[0].text


@pytest.mark.parametrize(
    ("values", "verbs"),
    [
        ({"task_state": "deleting"}, ["--state error", "delete"]),
        ({"task_state": "spawning", "vm_state": "building", "launched_at": None}, ["delete"]),
        ({"task_state": "rebuild_spawning"}, ["--state active", "--hard"]),  # of an unknown action
        ({"task_state": "shelving_offloading", "vm_state": "shelved"}, ["instances", "offload"]),
        ({"task_state": "spawning", "vm_state": "shelved_offloaded"}, ["virsh", "release", "instances", "unshelve"]),
        ({"task_state": "resuming", "vm_state": "suspended"}, ["instances", "resume"]),
        ({"task_state": "image_uploading"}, ["--state active"]),
        ({"task_state": "soft-deleting"}, ["--state active", "delete"]),
        ({"task_state": "image_snapshot", "vm_state": "paused"}, ["instances"]),
        ({"task_state": "shelving", "vm_state": "suspended"}, ["instances", "shelve"]),
        ({"task_state": "rebooting_hard", "vm_state": "paused"}, ["instances", "--hard"]),
        ({"task_state": "unshelving", "vm_state": "shelved"}, ["instances", "unshelve"]),
    ],
)
def test_how_an_operation_that_stands_still_is_ended(
    copy: NovaCopy, values: dict[str, object], verbs: list[str]
) -> None:
    copy.add_server(3, **values)
    assert commands(copy) == verbs


def test_a_restore_that_stands_still_never_leaves_a_deleted_server_without_a_task(copy: NovaCopy) -> None:
    """Nova destroys such a server within a minute: its time of deletion is gone since the restore began."""
    copy.add_server(3, vm_state="soft-delete", task_state="restoring")
    assert commands(copy) == ["--state active", "--hard"]
    copy.change("api", nova.instance_mappings, {"instance_uuid": server(3)}, queued_for_delete=True)
    (found,) = copy.look().findings
    assert copy.execute("api", found.commands[1].line) == 1
    copy.change("one", nova.instances, {"uuid": server(3)}, vm_state="active", task_state=None)
    assert copy.kinds() == []


def test_a_server_that_boots_from_a_volume_is_not_rebuilt_again(copy: NovaCopy) -> None:
    """Nova refuses it while the volume is reserved, as a rebuild that died leaves it."""
    copy.add_server(3, task_state="rebuilding", image_ref="")
    copy.add("one", nova.instance_actions, instance_uuid=server(3), action="rebuild", request_id="r", deleted=0)
    assert commands(copy) == ["--state active", "--hard"]


@pytest.mark.parametrize(("action", "verb"), [("evacuate", "--hard"), ("rebuild", "rebuild")])
def test_an_evacuation_that_stands_still_never_makes_disks_anew(copy: NovaCopy, action: str, verb: str) -> None:
    """Its record has ended, as when its source has come back: only the action shows that it is no rebuild of a user."""
    copy.add_server(3, task_state="rebuilding")
    copy.add("one", nova.instance_actions, instance_uuid=server(3), action=action, request_id="r", deleted=0)
    assert commands(copy) == ["--state active", verb]


def test_commands_can_be_run_one_after_another_by_a_script(copy: NovaCopy) -> None:
    copy.add_server(3, task_state="powering-on", vm_state="stopped")
    (found,) = copy.look().findings
    lines = [each.line for each in found.commands[1:]]
    assert lines == [
        f"openstack server set --state active --auto-approve {server(3)}",  # it would ask
        f"openstack server reboot --hard --wait {server(3)}",  # it would refuse to stop meanwhile
        f"openstack server stop {server(3)}",
    ]


def test_a_revert_that_stands_still_on_the_target_is_asked_for_again(copy: NovaCopy) -> None:
    copy.add_server(3, "n2", vm_state="resized", task_state="resize_reverting")
    copy.hold(copy.add_migration(3, "reverted"), "n1")
    assert commands(copy) == ["instances", "migrations", "revert"]


def test_a_revert_that_stands_still_on_the_source_is_stopped_there(copy: NovaCopy) -> None:
    copy.add_server(3, vm_state="resized", task_state="resize_reverting")
    copy.hold(copy.add_migration(3, "reverted"), "n1")
    assert commands(copy) == ["--state active", "release", "--hard"]


def test_a_move_between_cells_that_died_at_its_end_is_ended(copy: NovaCopy) -> None:
    copy.change("two", nova.instances, {"uuid": server(2)}, task_state="resize_migrated")
    copy.add_record(2, "n1", hidden=True, vm_state="resized")
    for cell, status in (("one", "finished"), ("two", "post-migrating")):
        copy.add_migration(2, status, source="s1", target="n1", cell=cell, cross_cell_move=True)
    copy.release(server(2))
    copy.hold(server(2), "n1")
    copy.hold(migration(2), "s1")
    (found,) = copy.look().findings
    assert [each.sql_in for each in found.commands] == [None, "one", "the API database", "two"]
    for each in found.commands[1:]:
        copy.execute("api" if each.sql_in == "the API database" else each.sql_in or "", each.line)
    assert copy.kinds() == []


def test_a_revert_between_cells_that_died_is_asked_for_again_in_the_targets_cell(copy: NovaCopy) -> None:
    copy.change("two", nova.instances, {"uuid": server(2)}, task_state="resize_reverting")
    copy.add_record(2, "n1", hidden=True, vm_state="resized", task_state="resize_reverting")
    for cell in ("one", "two"):
        copy.add_migration(2, "reverting", source="s1", target="n1", cell=cell, cross_cell_move=True)
    copy.release(server(2))
    copy.hold(server(2), "n1")
    copy.hold(migration(2), "s1")
    (found,) = copy.look().findings
    assert found.commands[-1].line == f"openstack server resize revert {server(2)}"
    for each in found.commands[1:-1]:
        copy.execute("api" if each.sql_in == "the API database" else each.sql_in or "", each.line)
    assert copy.kinds() == []  # it waits for its verdict


def test_a_revert_between_cells_that_died_before_the_rows_were_swapped_is_asked_for_again(copy: NovaCopy) -> None:
    """Rows as a Nova left them whose conductor died after RevertResizeTask._update_instance_in_source_cell."""
    copy.change("two", nova.instances, {"uuid": server(2)}, vm_state="resized", task_state="resize_reverting")
    copy.add_record(2, "n1", hidden=True, task_state="resize_reverting")
    for cell in ("one", "two"):
        copy.add_migration(2, "reverting", source="n1", target="s1", cell=cell, cross_cell_move=True)
    copy.hold(migration(2), "n1")
    assert commands(copy) == ["instances", "migrations", "revert"]
    for each in copy.look().findings[0].commands[1:-1]:
        copy.execute(each.sql_in or "", each.line)
    assert copy.kinds() == []  # it waits for its verdict


def test_a_guest_is_looked_for_where_the_copy_is_and_not_ended_where_the_server_is(copy: NovaCopy) -> None:
    copy.change("two", nova.instances, {"uuid": server(2)}, task_state="resize_finish")
    copy.add_record(2, "n1", hidden=True)
    copy.add_migration(2, "post-migrating", source="n1", target="s1", cell="two", cross_cell_move=True)
    (found,) = (each for each in copy.look().findings if each.kind == "stuck_server")
    assert [each.line.split()[2] for each in found.commands if "virsh" in each.line] == ["qemu+ssh://n1/system"]


@pytest.mark.parametrize("status", ["accepted", "pre-migrating"])
def test_an_evacuation_that_stands_still_is_ended_before_its_source_returns(copy: NovaCopy, status: str) -> None:
    """A Nova whose target died at the end of the evacuation had the guest there, and the server on the source."""
    copy.add_server(3, task_state="rebuilding")
    copy.add_migration(3, status, "evacuation")
    is_claimed = status == "pre-migrating"
    assert commands(copy) == [*["virsh"] * is_claimed, "migrations", "--state active", "evacuate"]
    (found,) = copy.look().findings
    assert "destroys its guest" in found.cause
    assert ("nova-compute of n2 died" in found.cause) == is_claimed
    assert ("n2/system domstate" in found.commands[1].line) == is_claimed


@pytest.mark.parametrize("task", ["rebuild_spawning", None])
def test_an_evacuation_that_came_to_its_target_is_left_for_its_source_to_clean_up(
    copy: NovaCopy, task: str | None
) -> None:
    copy.add_server(3, "n2", task_state=task, vm_state="active" if task else "error")
    copy.hold(server(3), "n1")
    copy.add_migration(3, "pre-migrating", "evacuation")
    (found,) = copy.look().findings
    (end,) = (each for each in found.commands if each.sql_in)
    assert "status = 'done'" in end.line
    copy.execute("one", end.line)
    if task is None:
        assert copy.kinds() == []


@pytest.mark.parametrize(("task", "status"), [("deleting", "finished"), ("soft-deleting", "confirming")])
def test_a_server_whose_move_was_not_confirmed_is_not_deleted_in_error(copy: NovaCopy, task: str, status: str) -> None:
    """A Nova left the source's allocation, port binding and copy behind when the server was set to error first."""
    copy.add_server(3, "n2", vm_state="resized", task_state=task)
    copy.hold(copy.add_migration(3, status), "n1")
    assert commands(copy) == ["instances", "delete"]
    (found,) = copy.look().findings
    assert "nova-compute of n1 died while the move was confirmed" in found.cause
    assert "once nova-compute of n1 runs" in found.commands[-1].line


def test_a_delete_that_died_at_its_end_is_asked_for_again(copy: NovaCopy) -> None:
    copy.add_server(3, vm_state="deleted")
    copy.add_server(4, vm_state="deleted")
    copy.release(server(4))
    found = copy.look().findings
    assert [each.key for each in found] == [("stuck_server", server(3)), ("stuck_server", server(4))]
    assert [each.commands[-1].line.split()[2] for each in found] == ["delete", "delete"]


def test_a_soft_delete_is_not_asked_for_again_without_a_word_on_reclaim(copy: NovaCopy) -> None:
    copy.add_server(3, task_state="soft-deleting")
    (found,) = copy.look().findings
    assert "reclaim_instance_interval" in found.commands[-1].line


VERBS = {
    "shelveOffload": "offload", "virsh": "virsh",
    "ls -d": "disks", "UPDATE migrations": "migrations", "UPDATE instances": "instances",
    "allocation delete": "release", "heal_allocations": "heal", "server set": "", "server reboot": "",
    "server resize": "", "server": "",
}  # fmt: skip


def commands(copy: NovaCopy) -> list[str]:
    """Return what the only finding is mended by, a word for each command after that which shows the server's events."""
    (found,) = copy.look().findings
    lines = [each.line for each in found.commands]
    assert "event list" in lines[0]
    return [_verb(line) for line in lines[1:]]


def _verb(line: str) -> str:
    begin, verb = next((begin, verb) for begin, verb in VERBS.items() if begin in line)
    words = line.partition(begin)[2].split()
    return verb or " ".join(words[:2] if words[0] == "--state" else words[:1])
