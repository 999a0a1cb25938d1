"""Operations that stand still, and those that are in flight."""

import pytest

from tests.doctor.nova_copy import NOW, YOUNG, NovaCopy, migration, moment, server
from whimbrel.adapters.sql.nova_databases import nova_tables as nova


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


@pytest.mark.parametrize("task", ["resize_prep", "resize_migrated", "rebuilding", "migrating", "deleting"])
def test_a_task_state_that_nothing_changes_is_stuck(copy: NovaCopy, task: str) -> None:
    copy.add_server(3, task_state=task)
    copy.hold(copy.add_migration(3, "pre-migrating"), "n1")
    assert copy.kinds() == [("stuck_server", server(3))]


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


def test_a_process_that_may_still_work_is_named(copy: NovaCopy) -> None:
    copy.add_server(3, task_state="migrating")
    copy.add_migration(3, "running", "live-migration")
    copy.add("one", nova.instance_actions, id=1, instance_uuid=server(3), action="live-migration", deleted=0)
    copy.add("one", nova.instance_actions_events, action_id=1, event="compute_live_migration", host="n1", deleted=0)
    (found,) = copy.look().findings
    assert "compute_live_migration on n1" in found.note
    assert "only if n2 answers" in found.note
    copy.change("one", nova.services, {"host": "n1"}, last_seen_up=moment(NOW - 1000.0))
    assert "compute_live_migration" not in copy.look().findings[0].note
