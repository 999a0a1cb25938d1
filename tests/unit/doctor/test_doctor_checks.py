"""What the doctor finds in the records of a Nova, and what it leaves alone."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.unit.doctor.nova_copy import NOW, OLD, NovaCopy, migration, moment, server
from whimbrel.adapters.sql.nova_books import nova_tables as nova
from whimbrel.adapters.sql.nova_books.read_only import reading
from whimbrel.adapters.sql.placement_transfer import openstack_tables as placement
from whimbrel.doctor.stuck_limits import StuckLimits
from whimbrel.domain.errors import Refused

YOUNG = NOW - 10.0


@pytest.fixture
def copy(tmp_path: Path) -> NovaCopy:
    made = NovaCopy.in_files(tmp_path)
    made.add_server(1)
    made.add_server(2, "s1")
    return made


def test_a_healthy_cloud_has_no_findings(copy: NovaCopy) -> None:
    copy.add_server(3, "n2", vm_state="resized")  # waits for its verdict
    copy.hold(copy.add_migration(3, "finished"), "n1")
    copy.add_record(4, None, cell="cell0", vm_state="error", launched_at=None)  # found no host
    copy.add_mapping(4, "cell0")
    copy.add_record(5, None, vm_state="shelved_offloaded")
    copy.add_mapping(5, "one")
    copy.add_spec(5)
    copy.add_server(6, "n2")  # was evacuated, and its source has not come back
    copy.hold(server(6), "n1")
    copy.add_migration(6, "done", "evacuation")
    copy.add_record(7, "n1", deleted=7)  # gone
    copy.add_mapping(7, "one", queued=True)
    copy.add_migration(8, "confirmed", deleted=8)
    found = copy.look()
    assert (found.servers, found.findings, found.in_flight) == (6, [], [])


def test_a_resize_in_each_of_its_states_is_in_flight(copy: NovaCopy) -> None:
    copy.add_server(3, "n1", at=YOUNG, task_state="resize_prep")
    copy.add_server(4, "n1", at=YOUNG, task_state="resize_prep")
    copy.release(server(4))
    copy.hold(copy.add_migration(4, "pre-migrating", at=YOUNG), "n1", at=YOUNG)
    copy.add_server(5, "n2", at=NOW - 1800.0, task_state="resize_migrating")  # copies its disk
    copy.add_server(6, at=YOUNG, vm_state="resized")
    copy.add_migration(6, "confirming", at=YOUNG)
    found = copy.look()
    assert found.findings == []
    assert [each.subject for each in found.in_flight] == [server(5), server(3), server(4), server(6)]


def test_a_create_in_each_of_its_states_is_in_flight(copy: NovaCopy) -> None:
    copy.add_mapping(3, None, YOUNG)
    copy.add("api", nova.build_requests, YOUNG, instance_uuid=server(3))
    copy.hold(server(3), "n1", at=YOUNG)
    copy.add_record(4, None, YOUNG, vm_state="building", task_state="scheduling")
    copy.add_mapping(4, None, YOUNG)
    assert copy.kinds() == []


def test_a_create_that_stands_still_between_two_task_states_is_stuck(copy: NovaCopy) -> None:
    copy.add_server(3, vm_state="building", task_state=None, launched_at=None)
    assert copy.kinds(now=OLD + 200.0) == []
    assert commands(copy) == ["delete"]
    assert "with no task state" in copy.look().findings[0].text


@pytest.mark.parametrize("task", ["resize_prep", "resize_migrated", "rebuilding", "migrating", "deleting"])
def test_a_task_state_that_nothing_changes_is_stuck(copy: NovaCopy, task: str) -> None:
    copy.add_server(3, task_state=task)
    copy.hold(copy.add_migration(3, "pre-migrating"), "n1")
    assert copy.kinds() == [("stuck_server", server(3))]


MOVED = {"task_state": "resize_migrated"}


@pytest.mark.parametrize(
    ("values", "verbs"),
    [
        ({"task_state": "resize_prep"}, ["migrations", "--state active", "release"]),
        (MOVED, ["migrations", "--state active", "release", "--hard"]),
        ({**MOVED, "vm_state": "stopped"}, ["migrations", "--state active", "release", "--hard", "stop"]),
        ({**MOVED, "vcpus": 2}, ["migrations", "--state active", "release", "release", "heal", "--hard"]),
    ],
)
def test_how_a_move_that_stands_still_is_stopped(copy: NovaCopy, values: dict[str, object], verbs: list[str]) -> None:
    copy.add_server(3, **values)
    copy.hold(copy.add_migration(3, "post-migrating"), "n1")
    assert commands(copy) == verbs


@pytest.mark.parametrize(
    ("values", "verbs"),
    [
        ({"task_state": "deleting"}, ["--state error", "delete"]),
        ({"task_state": "spawning", "vm_state": "building", "launched_at": None}, ["delete"]),
        ({"task_state": "rebuild_spawning"}, ["--state active", "rebuild"]),
        ({"task_state": "shelving_offloading", "vm_state": "shelved"}, ["instances", "shelve"]),
        ({"task_state": "spawning", "vm_state": "shelved_offloaded"}, ["release", "instances", "unshelve"]),
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


def test_an_evacuation_that_stands_still_is_ended_before_its_source_returns(copy: NovaCopy) -> None:
    copy.add_server(3, task_state="rebuilding")
    copy.add_migration(3, "accepted", "evacuation")
    assert commands(copy) == ["migrations", "--state active", "evacuate"]
    assert "destroys its guest" in copy.look().findings[0].cause


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


def test_a_delete_that_died_at_its_end_is_asked_for_again(copy: NovaCopy) -> None:
    copy.add_server(3, vm_state="deleted")
    copy.add_server(4, vm_state="deleted")
    copy.release(server(4))
    found = copy.look().findings
    assert [each.key for each in found] == [("stuck_server", server(3)), ("stuck_server", server(4))]
    assert [each.commands[-1].line.split()[2] for each in found] == ["delete", "delete"]


VERBS = {
    "UPDATE migrations": "migrations", "UPDATE instances": "instances", "allocation delete": "release",
    "heal_allocations": "heal", "server set": "", "server reboot": "", "server resize": "", "server": "",
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


def test_a_host_that_is_down_works_on_nothing(copy: NovaCopy) -> None:
    copy.add_server(3, at=NOW - 1800.0, task_state="resize_migrating")
    assert copy.kinds() == []
    copy.change("one", nova.services, {"host": "n1"}, last_seen_up=moment(NOW - 1000.0))
    assert copy.kinds() == [("stuck_server", server(3))]


def test_a_confirmation_that_never_ended(copy: NovaCopy) -> None:
    copy.add_server(3, "n2", vm_state="resized")
    copy.hold(copy.add_migration(3, "confirming"), "n1")
    (found,) = copy.look().findings
    assert (found.kind, found.subject) == ("stuck_confirm", server(3))
    assert found.commands[0].sql_in == "one"


def test_a_revert_goes_on_after_its_migration_is_reverted(copy: NovaCopy) -> None:
    copy.add_server(3, "n2", at=NOW - 1800.0, vm_state="resized", task_state="resize_reverting")
    copy.hold(copy.add_migration(3, "reverted"), "n1")
    assert copy.kinds() == []
    (found,) = copy.look(now=NOW + 7200.0).findings
    assert (found.kind, found.subject) == ("stuck_server", server(3))
    assert f"{migration(3)} is reverted and holds" in found.text


def test_a_server_that_waits_for_a_verdict_that_nobody_can_give(copy: NovaCopy) -> None:
    copy.add_server(3, "n2", vm_state="resized")
    copy.hold(copy.add_migration(3, "confirmed"), "n1")
    assert copy.kinds() == [("stuck_verify", server(3)), ("allocation_of_migration", migration(3))]


def test_a_migration_record_that_never_ends(copy: NovaCopy) -> None:
    copy.add_migration(1, "pre-migrating")
    assert copy.kinds() == [("stale_migration", server(1))]


def test_an_evacuation_that_was_never_carried_out_says_what_it_will_do(copy: NovaCopy) -> None:
    copy.add_migration(1, "accepted", "evacuation")
    (found,) = copy.look().findings
    assert "destroys its guest" in found.cause


def test_a_server_that_holds_nothing(copy: NovaCopy) -> None:
    copy.release(server(1))
    assert copy.kinds() == [("no_allocation", server(1))]


def test_a_server_that_holds_another_host(copy: NovaCopy) -> None:
    copy.release(server(1))
    copy.hold(server(1), "n2")
    assert copy.kinds() == [("allocation_elsewhere", server(1))]


def test_a_server_without_a_host_that_holds_one(copy: NovaCopy) -> None:
    copy.add_record(3, None, vm_state="shelved_offloaded")
    copy.add_mapping(3, "one")
    copy.hold(server(3), "n1")
    assert copy.kinds() == [("allocation_elsewhere", server(3))]


def test_an_offloaded_server_that_is_still_recorded_on_a_host(copy: NovaCopy) -> None:
    copy.add_server(3, vm_state="shelved_offloaded")
    copy.release(server(3))
    (found,) = copy.look().findings
    assert found.key == ("offloaded_on_host", server(3))
    assert "host = NULL" in found.commands[-1].line


def test_a_server_that_holds_two_hosts(copy: NovaCopy) -> None:
    copy.hold(server(1), "n2")
    assert copy.kinds() == [("doubled_allocation", server(1))]


def test_a_server_that_holds_other_amounts(copy: NovaCopy) -> None:
    copy.release(server(1))
    copy.hold(server(1), "n1", (2, 1024, 1))
    assert copy.kinds() == [("wrong_amounts", server(1))]


def test_what_a_migration_holds_after_its_end(copy: NovaCopy) -> None:
    copy.hold(copy.add_migration(1, "confirmed"), "n2")
    assert copy.kinds() == [("allocation_of_migration", migration(1))]


def test_what_is_held_by_what_is_gone(copy: NovaCopy) -> None:
    copy.add_record(3, deleted=3)
    copy.hold(server(3), "n1")
    copy.hold(copy.add_migration(4, "error", deleted=4), "n1")
    copy.hold(server(5), "n1")
    assert copy.kinds() == [
        ("allocation_of_gone_server", server(3)),
        ("allocation_of_gone_server", migration(4)),
        ("allocation_of_nobody", server(5)),
    ]


def test_other_users_of_placement_are_left_alone(copy: NovaCopy) -> None:
    copy.add("placement", placement.providers, id=9, uuid=server(900), name="accelerators", root_provider_id=9)
    copy.add("placement", placement.allocations, consumer_id=server(901), resource_provider_id=9, resource_class_id=1,
             used=1)  # fmt: skip
    assert copy.kinds() == []


def test_mappings(copy: NovaCopy) -> None:
    copy.change("api", nova.instance_mappings, {"instance_uuid": server(1)}, cell_id=3)
    copy.remove("api", nova.instance_mappings, instance_uuid=server(2))
    copy.add_mapping(3, "one")
    copy.add_mapping(4, None)
    copy.add("api", nova.build_requests, instance_uuid=server(4))
    assert copy.kinds() == [
        ("stuck_create", server(4)),
        ("no_mapping", server(2)),
        ("mapping_to_wrong_cell", server(1)),
        ("mapping_of_nothing", server(3)),
    ]


def test_a_build_request_that_is_left(copy: NovaCopy) -> None:
    copy.add_record(3, None, cell="cell0", vm_state="error", launched_at=None)
    copy.add_mapping(3, "cell0")
    copy.add("api", nova.build_requests, instance_uuid=server(3))
    assert copy.kinds(now=OLD + 200.0) == []
    assert copy.kinds() == [("stuck_create", server(3))]


def test_a_create_that_stands_still_before_it_is_mapped(copy: NovaCopy) -> None:
    copy.add_record(3, None, cell="one", vm_state="building", task_state="scheduling", launched_at=None)
    copy.add_mapping(3, None)
    copy.add("api", nova.build_requests, instance_uuid=server(3))
    stuck, mapping = copy.look().findings
    assert (stuck.kind, mapping.kind) == ("stuck_server", "mapping_to_wrong_cell")
    assert "instance_mappings" in stuck.commands[1].line
    assert stuck.commands[2].line == f"openstack server delete {server(3)}"


def test_copies_in_two_cells(copy: NovaCopy) -> None:
    copy.add_record(1, "s1")
    copy.add_record(2, "n1", hidden=True)
    assert copy.kinds() == [("server_in_two_cells", server(1)), ("hidden_copy", server(2))]


def test_a_move_between_cells_has_two_copies(copy: NovaCopy) -> None:
    copy.change("two", nova.instances, {"uuid": server(2)}, vm_state="resized")
    copy.add_record(2, "n1", hidden=True)
    for cell, status in (("one", "post-migrating"), ("two", "finished")):  # that of the source stays so
        copy.add_migration(2, status, target="s1", cell=cell, cross_cell_move=True)
    copy.hold(migration(2), "n1")
    assert copy.kinds() == []


def test_a_move_between_cells_that_died_leaves_a_copy(copy: NovaCopy) -> None:
    copy.add_record(2, "n1", hidden=True)
    for cell, status in (("one", "pre-migrating"), ("two", "error")):
        copy.add_migration(2, status, source="s1", target="n1", cell=cell, cross_cell_move=True)
    (found,) = copy.look().findings
    assert found.key == ("hidden_copy", server(2))
    assert all(each.sql_in == "one" and each.line.startswith("DELETE") for each in found.commands)


def test_a_move_between_cells_that_died_while_both_were_visible(copy: NovaCopy) -> None:
    copy.change("two", nova.instances, {"uuid": server(2)}, task_state="resize_migrated")
    copy.add_record(2, "n1", vm_state="resized")
    for cell, status in (("one", "finished"), ("two", "post-migrating")):
        copy.add_migration(2, status, source="s1", target="n1", cell=cell, cross_cell_move=True)
    assert copy.kinds(now=OLD + 200.0) == []
    (found,) = copy.look().findings
    assert found.key == ("server_in_two_cells", server(2))
    assert [(each.sql_in, "hidden = true" in each.line) for each in found.commands] == [("one", True)]


def test_request_specs(copy: NovaCopy) -> None:
    copy.remove("api", nova.request_specs, instance_uuid=server(1))
    copy.add_spec(1, flavor=2, zone="east")
    copy.remove("api", nova.request_specs, instance_uuid=server(2))
    assert copy.kinds() == [("spec_missing", server(2)), ("spec_flavor", server(1)), ("spec_zone", server(1))]
    copy.add("api", nova.aggregate_hosts, host="n1", aggregate_id=1)
    copy.add("api", nova.aggregate_metadata, aggregate_id=1, key="availability_zone", value="east")
    assert ("spec_zone", server(1)) not in copy.kinds()


def test_pci_devices(copy: NovaCopy) -> None:
    def device(address: str, of: str, **values: object) -> None:
        copy.add("one", nova.pci_devices, compute_node_id=1, address=address, dev_type="type-VF", status="allocated",
                 instance_uuid=of, deleted=0, **values)  # fmt: skip

    device("0000:01:00.0", server(1))
    device("0000:01:00.1", server(1), parent_addr="0000:01:00.0")
    device("0000:02:00.0", server(3))
    device("0000:03:00.0", server(2))
    assert copy.kinds() == [
        ("pci_of_gone_server", "n1/0000:02:00.0"),
        ("pci_on_other_host", "n1/0000:03:00.0"),
        ("pci_claimed_twice", "n1/0000:01:00.1"),
    ]


def test_volume_attachments(copy: NovaCopy) -> None:
    copy.add_server(3)
    for owner, attachment in ((server(1), "a"), (server(3), "a"), (server(4), "b"), (server(1), "c")):
        copy.add("one", nova.block_device_mapping, instance_uuid=owner, volume_id="v", attachment_id=attachment,
                 deleted=0)  # fmt: skip
    assert copy.kinds() == [
        ("volume_of_gone_server", f"{server(4)}/v"),
        ("attachment_shared", f"{server(1)}/v"),
        ("attachment_shared", f"{server(3)}/v"),
    ]


# Two looks


def test_what_changed_between_the_looks_is_no_finding(copy: NovaCopy) -> None:
    copy.release(server(1))
    later = copy.look(wait=lambda _: copy.change("one", nova.instances, {"uuid": server(1)}, at=OLD + 1.0))
    assert (later.findings, later.passed) == ([], 1)
    assert copy.look(wait=lambda _: copy.hold(server(1), "n1")).findings == []


def test_what_was_written_a_moment_ago_is_in_flight(copy: NovaCopy) -> None:
    copy.release(server(1))
    copy.change("one", nova.instances, {"uuid": server(1)}, at=YOUNG)
    found = copy.look()
    assert (found.findings, [each.subject for each in found.in_flight]) == ([], [server(1)])
    assert copy.kinds(limits=StuckLimits(settle_s=5.0)) == [("no_allocation", server(1))]


# Reading


def test_many_servers_are_read_by_ranges(copy: NovaCopy) -> None:
    for number in range(2100):
        copy.add_mapping(number * 2_000_000 + 10, "one", queued=True)
    copy.add_server(0xF0000000)
    copy.release(server(0xF0000000))
    copy.add_server(0xFFFFFFFF)
    found = copy.look()
    assert (found.servers, [each.key for each in found.findings]) == (4, [("no_allocation", server(0xF0000000))])


def test_an_unknown_schema_is_refused(copy: NovaCopy) -> None:
    copy.change_version("two", "0123456789ab")
    with pytest.raises(Refused, match="cell two has schema version 0123456789ab"):
        copy.look()


def test_nothing_can_be_written(copy: NovaCopy) -> None:
    with (
        reading("it", copy.urls.api, nova.API_VERSIONS, any_schema=False) as connection,
        pytest.raises(sa.exc.OperationalError, match="readonly"),
    ):
        connection.execute(sa.delete(nova.instance_mappings))
