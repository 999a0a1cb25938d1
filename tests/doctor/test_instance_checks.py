"""Where servers are recorded: mappings, build requests, copies in two cells, request specs."""

import pytest

from tests.doctor.nova_copy import OLD, NovaCopy, migration, node, server
from whimbrel.adapters.sql.nova_databases import nova_tables as nova


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


@pytest.mark.parametrize(
    ("values", "is_wrong"),
    [
        ({}, True),
        ({"vm_state": "stopped"}, True),
        ({"vm_state": "error"}, False),
        ({"vm_state": "soft-delete"}, False),
    ],
)
def test_a_mapping_of_a_live_server_that_says_it_is_being_deleted(
    copy: NovaCopy, values: dict[str, object], is_wrong: bool
) -> None:
    """Rows as a Nova left them whose API died in a restore, after it had asked nova-compute."""
    copy.change("api", nova.instance_mappings, {"instance_uuid": server(1)}, queued_for_delete=True)
    copy.change("one", nova.instances, {"uuid": server(1)}, **values)
    assert copy.kinds() == [("mapping_queued_for_delete", server(1))] * is_wrong
    if is_wrong:
        copy.execute("api", copy.look().findings[0].commands[0].line)
        assert copy.kinds() == []


@pytest.mark.parametrize(("queued", "is_counted"), [(False, True), (True, False), (None, False)])
def test_a_deleted_server_that_quotas_still_count(copy: NovaCopy, queued: bool | None, is_counted: bool) -> None:
    """Rows as a Nova left them whose API died after it had asked nova-compute for a delete.

    A mapping from before Nova recorded it (None) is not counted.
    """
    copy.add_record(3, deleted=3)
    copy.add_mapping(3, "one", queued=queued)
    assert copy.kinds(now=OLD + 200.0) == []
    assert copy.kinds() == [("mapping_of_deleted_server", server(3))] * is_counted
    if is_counted:
        assert copy.execute("api", copy.look().findings[0].commands[0].line) == 1
        assert copy.kinds() == []


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
    assert "build_requests" in stuck.commands[2].line
    assert stuck.commands[3].line == f"openstack server delete {server(3)}"


def test_a_build_request_of_a_deleted_server(copy: NovaCopy) -> None:
    """Rows as a Nova left them: the server was mapped to its cell by hand, and deleted there."""
    copy.add_record(3, None, cell="one", vm_state="deleted", launched_at=None, deleted=3)
    copy.add_mapping(3, "one", queued=True)
    copy.add("api", nova.build_requests, instance_uuid=server(3))
    assert copy.kinds(now=OLD + 200.0) == []
    (found,) = copy.look().findings
    assert found.key == ("stuck_create", server(3))
    copy.execute("api", found.commands[0].line)
    assert copy.kinds() == []


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


def test_a_copy_that_a_delete_of_the_server_left(copy: NovaCopy) -> None:
    """Rows as a Nova left them: its conductor died while it confirmed the move, and the server was deleted in error."""
    copy.add_record(3, "s1", vm_state="deleted", deleted=3)
    copy.add_record(3, "n1", hidden=True, task_state="resize_migrated")
    copy.add_mapping(3, "two", queued=True)
    copy.add_migration(3, "post-migrating", target="s1", cell="one", cross_cell_move=True)
    copy.add_migration(3, "finished", target="s1", cell="two", cross_cell_move=True, deleted=3)
    copy.hold(migration(3), "n1")
    held, left = copy.look().findings
    assert [each.key for each in (held, left)] == [
        ("allocation_of_gone_server", migration(3)), ("hidden_copy", server(3))
    ]  # fmt: skip
    assert {each.sql_in for each in left.commands} == {"one"}
    assert copy.execute("one", left.commands[-1].line) == 1
    copy.release(migration(3))
    assert copy.kinds() == []


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


def test_a_server_in_error_runs_again_before_it_is_resized(copy: NovaCopy) -> None:
    """Rows as a Nova left them whose target could not make the guest: a resize would look for it there, and fail."""
    copy.change("one", nova.instances, {"uuid": server(1)}, vm_state="error")
    copy.remove("api", nova.request_specs, instance_uuid=server(1))
    copy.add_spec(1, flavor=2)
    (found,) = copy.look().findings
    assert ["--state active" in found.commands[0].line, "reboot --hard" in found.commands[1].line] == [True, True]
    assert len(found.commands) == 2
    copy.change("one", nova.instances, {"uuid": server(1)}, vm_state="active")
    (found,) = copy.look().findings
    assert [each.line.split()[2] for each in found.commands] == ["resize", "resize"]
    assert "turns it off" in found.commands[0].line


def test_a_server_whose_compute_node_was_renamed(copy: NovaCopy) -> None:
    copy.change("one", nova.instances, {"uuid": server(1)}, node="old")
    (found,) = copy.look().findings
    assert found.key == ("no_compute_node", server(1))
    assert copy.execute("one", found.commands[0].line) == 1
    assert copy.kinds() == []


def test_a_server_whose_host_is_gone(copy: NovaCopy) -> None:
    copy.change("one", nova.instances, {"uuid": server(1)}, node="n9", host="n9")
    (found,) = copy.look().findings
    assert (found.key, found.commands) == (("no_compute_node", server(1)), [])
    assert "host = n9" in found.note


def test_a_node_that_ironic_moved_to_another_host(copy: NovaCopy) -> None:
    copy.change("one", nova.compute_nodes, {"host": "n2"}, hypervisor_hostname=node("n2"))
    copy.change("one", nova.instances, {"uuid": server(1)}, node=node("n2"))
    assert copy.kinds() == []


@pytest.mark.parametrize("values", [{"node": "n2"}, {"host": "n2"}])
def test_a_server_on_the_node_of_another_host(copy: NovaCopy, values: dict[str, object]) -> None:
    """Its host was renamed in Nova's database, and not its node, or the other way round: no host counts it."""
    copy.change("one", nova.instances, {"uuid": server(1)}, **values)
    (found,) = copy.look().findings
    assert found.key == ("no_compute_node", server(1))
    assert copy.execute("one", found.commands[0].line) == 1
    assert copy.kinds() in ([], [("allocation_elsewhere", server(1))])  # by where its guest was placed
