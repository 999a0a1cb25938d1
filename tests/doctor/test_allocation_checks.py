"""What is held in Placement otherwise than the servers of Nova are placed."""

import pytest

from tests.doctor.nova_copy import NOW, NovaCopy, migration, moment, server
from whimbrel.adapters.sql.nova_databases import nova_tables as nova
from whimbrel.adapters.sql.placement_transfer import openstack_tables as placement


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


def test_a_server_that_was_evacuated_from_a_host_whose_service_was_deleted(copy: NovaCopy) -> None:
    lost = copy.add_provider(9, "n3")
    copy.add("one", nova.compute_nodes, id=9, uuid=lost, host="n3", hypervisor_hostname="n3", deleted=9)
    copy.hold_of(server(1), 9)
    doubled, left = copy.look().findings
    assert (doubled.key, left.key) == (("doubled_allocation", server(1)), ("provider_left", lost))
    assert "the compute service of a host was deleted" in doubled.cause
    assert ["delete" in doubled.commands[0].line, "heal" in doubled.commands[1].line] == [True, True]


def test_other_users_of_placement_are_left_alone(copy: NovaCopy) -> None:
    copy.add("placement", placement.providers, id=9, uuid=server(900), name="accelerators", root_provider_id=9)
    copy.add("placement", placement.allocations, consumer_id=server(901), resource_provider_id=9, resource_class_id=1,
             used=1)  # fmt: skip
    assert copy.kinds() == []


@pytest.mark.parametrize("cell", ["one", "two"])
def test_a_server_that_waits_for_a_verdict_and_no_longer_holds_its_source(copy: NovaCopy, cell: str) -> None:
    copy.add_server(3, "n2" if cell == "one" else "s1", vm_state="resized")
    copy.add_migration(3, "finished", target="n2" if cell == "one" else "s1", cell=cell, cross_cell_move=cell == "two")
    assert copy.kinds() == [("source_not_held", server(3))]
    copy.hold(migration(3), "n1")
    assert copy.kinds() == []


def test_what_a_migration_between_cells_holds_after_its_revert_died(copy: NovaCopy) -> None:
    """Rows as a Nova left them whose target died as the revert began: the row beside the copy stays open."""
    copy.change("one", nova.instances, {"uuid": server(1)}, vm_state="error")
    copy.add_record(1, "s1", hidden=True, vm_state="resized", task_state="resize_reverting")
    for cell, status in (("one", "error"), ("two", "reverting")):
        copy.add_migration(1, status, target="s1", cell=cell, cross_cell_move=True)
    copy.release(server(1))
    copy.hold(server(1), "s1")
    copy.hold(migration(1), "n1")
    assert copy.kinds() == [
        ("allocation_of_migration", migration(1)),  # released first, the source has room for the server again
        ("allocation_elsewhere", server(1)),
        ("hidden_copy", server(1)),
    ]


def test_a_live_migration_that_its_source_ended_when_it_started_says_that_the_guest_may_have_moved(
    copy: NovaCopy,
) -> None:
    copy.release(server(1))
    copy.hold(server(1), "n2")
    copy.hold(copy.add_migration(1, "error", "live-migration"), "n1")
    held, elsewhere = copy.look().findings
    assert (held.kind, elsewhere.kind) == ("allocation_of_migration", "allocation_elsewhere")
    assert "even if the guest has moved" in held.cause
    assert all("n2/system domstate" in each.commands[0].line for each in (held, elsewhere))


def test_the_allocation_of_a_server_whose_port_has_bandwidth_is_made_anew_with_it(copy: NovaCopy) -> None:
    """Nova leaves out a port that names a provider: once released, its bandwidth would be held no more."""
    copy.change("one", nova.instances, {"uuid": server(1)}, vcpus=2)
    copy.add("placement", placement.resource_classes, id=9, name="NET_BW_EGR_KILOBIT_PER_SEC")
    copy.add("placement", placement.allocations, consumer_id=server(1), resource_provider_id=1, resource_class_id=9,
             used=5)  # fmt: skip
    (found,) = copy.look().findings
    release, forget, heal = (each.line for each in found.commands)
    assert ("delete" in release, "--binding-profile allocation" in forget, "heal" in heal) == (True, True, True)


@pytest.mark.parametrize("values", [{}, {"task_state": "resize_prep"}, {"host": None, "vm_state": "shelved_offloaded"}])
def test_a_consumer_that_is_left_without_allocations(copy: NovaCopy, values: dict[str, object]) -> None:
    """A Placement that died between the two leaves such a row, and then refuses each claim of that server."""
    copy.change("one", nova.instances, {"uuid": server(1)}, **values)
    copy.release(server(1), also_consumer=False)
    found = next(each for each in copy.look().findings if each.kind == "consumer_left")
    assert found.subject == server(1)
    (command,) = found.commands
    copy.hold_of(server(1), 1)
    assert copy.execute("placement", command.line) == 0
    copy.release(server(1), also_consumer=False)
    assert copy.execute("placement", command.line) == 1
    assert "consumer_left" not in {kind for kind, _ in copy.kinds()}


def test_a_consumer_of_no_server_may_be_left(copy: NovaCopy) -> None:
    copy.hold(server(9), "n1")
    copy.release(server(9), also_consumer=False)
    assert copy.kinds() == []


def test_nova_compute_frees_what_a_deleted_server_holds(copy: NovaCopy) -> None:
    """A delete that meets a move: the claim comes after the release, and nova-compute frees it within a minute or two.

    Source: ResourceTracker._remove_deleted_instances_allocations.
    """
    copy.add_record(3, deleted=3)
    copy.add_mapping(3, "one", queued=True)
    copy.hold(server(3), "n1", at=NOW - 100.0)
    found = copy.look()
    assert (found.findings, [each.subject for each in found.in_flight]) == ([], [server(3)])
    assert copy.kinds(now=NOW + 300.0) == [("allocation_of_gone_server", server(3))]
    copy.change("one", nova.services, {"host": "n1"}, last_seen_up=moment(NOW - 1000.0))
    assert copy.kinds() == [("allocation_of_gone_server", server(3))]


def test_a_live_migration_whose_target_died_at_its_end_says_where_the_guest_is(copy: NovaCopy) -> None:
    """Rows as a Nova left them: the source gave up, and wrote the target into the server."""
    copy.add_server(3, "n2", vm_state="error")
    copy.hold(copy.add_migration(3, "error", "live-migration"), "n1")
    (found,) = copy.look().findings
    assert found.key == ("allocation_of_migration", migration(3))
    assert "the guest is there" in found.cause
    assert [line.split()[1] for line in (each.line for each in found.commands)] == ["resource", "server"]
    assert found.commands[1].line.endswith(f"--state active --auto-approve {server(3)}  # if its guest runs on n2")
