"""The SQL that is printed: it does what it says, and nothing once the state has changed."""

from collections.abc import Callable

import pytest

from tests.doctor.nova_copy import NovaCopy, migration, server
from whimbrel.adapters.sql.nova_databases import nova_tables as nova
from whimbrel.doctor.doctor_finding import Command

Change = Callable[[NovaCopy], None]


def printed(copy: NovaCopy, kind: str) -> list[Command]:
    return [each for found in copy.look().findings if found.kind == kind for each in found.commands if each.sql_in]


def execute(copy: NovaCopy, commands: list[Command]) -> int:
    """Run what is of tables that the copy has. Return how many rows were changed."""
    return sum(
        copy.execute("api" if each.sql_in == "the API database" else each.sql_in or "", each.line)
        for each in commands
        if nova.metadata.tables.keys() & set(each.line.split()[1:3])
    )


def instance(number: int, cell: str = "one", **values: object) -> Change:
    return lambda copy: copy.change(cell, nova.instances, {"uuid": server(number)}, **values)


def mapping(number: int, **values: object) -> Change:
    return lambda copy: copy.change("api", nova.instance_mappings, {"instance_uuid": server(number)}, **values)


def paused(copy: NovaCopy) -> None:
    copy.add_server(3, vm_state="paused", task_state="image_snapshot")


def offloaded(copy: NovaCopy) -> None:
    copy.add_server(3, vm_state="shelved_offloaded")
    copy.release(server(3))


def copied(copy: NovaCopy) -> None:
    copy.add_server(3)
    copy.add_record(3, "s1", hidden=True)


def mapped_wrong(copy: NovaCopy) -> None:
    copy.add_server(3)
    mapping(3, cell_id=3)(copy)


def mapped_nowhere(copy: NovaCopy) -> None:
    copy.add_server(3)
    mapping(3, cell_id=None)(copy)


def only_mapped(copy: NovaCopy) -> None:
    copy.add_mapping(3, "one")


def moving(copy: NovaCopy) -> None:
    copy.add_server(3)
    copy.add_migration(3, "pre-migrating")


def with_device(copy: NovaCopy) -> None:
    copy.add("one", nova.pci_devices, compute_node_id=1, address="a", dev_type="type-VF", status="allocated",
             instance_uuid=server(3), deleted=0)  # fmt: skip


def with_volume(copy: NovaCopy) -> None:
    copy.use_volume(3, "v", "a")


def attached_anew(copy: NovaCopy) -> None:
    copy.change("one", nova.block_device_mapping, {"volume_id": "v"}, attachment_id="b")


def restored(copy: NovaCopy) -> None:
    copy.add_record(3)


@pytest.mark.parametrize(
    ("state", "kind", "change"),
    [
        (paused, "stuck_server", instance(3, task_state=None)),
        (paused, "stuck_server", instance(3, host="n2")),
        (offloaded, "offloaded_on_host", instance(3, task_state="unshelving")),
        (offloaded, "offloaded_on_host", instance(3, host="n2")),
        (copied, "hidden_copy", instance(3, "two", hidden=False)),
        (copied, "hidden_copy", instance(3, "two", task_state="resize_prep")),
        (mapped_wrong, "mapping_to_wrong_cell", mapping(3, cell_id=1)),
        (mapped_nowhere, "mapping_to_wrong_cell", mapping(3, cell_id=3)),
        (only_mapped, "mapping_of_nothing", mapping(3, cell_id=3)),
        (moving, "stale_migration", lambda copy: copy.change(
            "one", nova.migrations, {"uuid": migration(3)}, status="finished")),
        (with_device, "pci_of_gone_server", restored),
        (with_volume, "volume_of_gone_server", restored),
        (with_volume, "volume_of_gone_server", attached_anew),
    ],
)  # fmt: skip
def test_sql_changes_nothing_once_the_state_has_changed(
    copy: NovaCopy, state: Change, kind: str, change: Change
) -> None:
    state(copy)
    commands = printed(copy, kind)
    change(copy)
    assert execute(copy, commands) == 0


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (paused, "stuck_server"), (offloaded, "offloaded_on_host"), (copied, "hidden_copy"),
        (mapped_wrong, "mapping_to_wrong_cell"), (mapped_nowhere, "mapping_to_wrong_cell"),
        (only_mapped, "mapping_of_nothing"), (moving, "stale_migration"), (with_device, "pci_of_gone_server"),
        (with_volume, "volume_of_gone_server"),
    ],
)  # fmt: skip
def test_sql_mends_what_was_seen(copy: NovaCopy, state: Change, kind: str) -> None:
    state(copy)
    assert execute(copy, printed(copy, kind)) >= 1
    assert printed(copy, kind) == []


def test_an_attachment_that_a_live_server_names_too_is_not_deleted(copy: NovaCopy) -> None:
    copy.use_volume(1, "v", "a")
    copy.use_volume(3, "v", "a")
    found = [each for each in copy.look().findings if each.kind == "volume_of_gone_server"]
    assert [[command.sql_in for command in each.commands] for each in found] == [["one"]]


@pytest.mark.parametrize("name", [None, "one"])
def test_a_cell_without_a_name_of_its_own_is_named_by_its_uuid(copy: NovaCopy, name: str | None) -> None:
    copy.change("api", nova.cell_mappings, {"name": "two"}, name=name)
    copy.add_server(3, "s1")
    mapping(3, cell_id=None)(copy)
    [command] = printed(copy, "mapping_to_wrong_cell")
    assert execute(copy, [command]) == 1
    assert printed(copy, "mapping_to_wrong_cell") == []
