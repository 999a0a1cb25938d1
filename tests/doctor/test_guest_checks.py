"""Guests that hypervisors have otherwise than Nova."""

import pytest

from tests.doctor.nova_copy import YOUNG, NovaCopy, server
from tests.doctor.services_copy import GuestsCopy
from whimbrel.adapters.sql.nova_databases import nova_tables as nova
from whimbrel.adapters.sql.placement_transfer import openstack_tables as placement
from whimbrel.doctor.guest_checks import GuestChecks
from whimbrel.domain.errors import Invalid


@pytest.fixture
def guests() -> GuestsCopy:
    made = GuestsCopy("n1", "n2")
    made.add("n1", server(1))
    return made


def kinds(copy: NovaCopy, guests: GuestsCopy, **how: object) -> list[tuple[str, str]]:
    return copy.kinds(services=[GuestChecks(guests)], **how)


def test_guests_where_they_belong(copy: NovaCopy, guests: GuestsCopy) -> None:
    copy.add_server(3, "n2", vm_state="resized")
    copy.hold(copy.add_migration(3, "finished"), "n1")
    guests.add("n1", server(3), "shut off")  # until the confirmation
    guests.add("n2", server(3))
    copy.add_server(4, vm_state="stopped")
    guests.add("n1", server(4), "shut off")
    guests.add("n1", server(900), is_of_nova=False)
    assert kinds(copy, guests) == []


def test_a_server_that_runs_twice(copy: NovaCopy, guests: GuestsCopy) -> None:
    guests.add("n2", server(1))
    (found,) = copy.look(services=[GuestChecks(guests)]).findings
    assert found.key == ("guest_twice", server(1))
    assert [each.line for each in found.commands] == [f"virsh -c test://n2 destroy {server(1)}"]


def test_a_guest_that_runs_elsewhere(copy: NovaCopy, guests: GuestsCopy) -> None:
    del guests.rows["n1"][server(1)]
    guests.add("n2", server(1))
    guests.add("n2", server(2))
    found = copy.look(services=[GuestChecks(guests)]).findings
    assert [each.key for each in found] == [("guest_elsewhere", server(1)), ("guest_elsewhere", server(2))]
    assert not any("destroy" in command.line for each in found for command in each.commands)
    assert all("users may be using this guest" in each.note for each in found)


def test_a_server_without_a_guest(copy: NovaCopy, guests: GuestsCopy) -> None:
    guests.rows["n1"].clear()
    assert kinds(copy, guests) == [("guest_nowhere", server(1))]


@pytest.mark.parametrize("host", [None, "n2"])
@pytest.mark.parametrize(("state", "verb"), [("active", "reboot"), ("shelved", "shelveOffload"), ("rescued", "")])
def test_no_reboot_is_printed_that_nova_refuses(
    copy: NovaCopy, guests: GuestsCopy, state: str, verb: str, host: str | None
) -> None:
    """host: where the guest runs instead; None: nowhere."""
    copy.add_server(3, vm_state=state)
    if host:
        guests.add(host, server(3))
    (found,) = copy.look(services=[GuestChecks(guests)]).findings
    assert found.kind == ("guest_elsewhere" if host else "guest_nowhere")
    lines = [each.line for each in found.commands if "virsh" not in each.line]
    assert [verb in line for line in lines] == [True] * bool(verb)
    assert ("Nova reboots no server" in found.note) == (not verb)


@pytest.mark.parametrize("state", ["active", "stopped"])
def test_a_server_that_was_evacuated_from_a_machine_that_runs(copy: NovaCopy, guests: GuestsCopy, state: str) -> None:
    """At microversion 2.95 and later an evacuation leaves the server stopped."""
    copy.add_server(3, "n2", vm_state=state)
    for resource, used in enumerate((1, 512, 1), start=1):
        copy.add("placement", placement.allocations, consumer_id=server(3), resource_provider_id=1,
                 resource_class_id=resource, used=used)  # fmt: skip
    copy.add_migration(3, "done", "evacuation")
    guests.add("n1", server(3))
    guests.add("n2", server(3), "running" if state == "active" else "shut off")
    (found,) = copy.look(services=[GuestChecks(guests)]).findings
    assert found.kind == ("guest_twice" if state == "active" else "guest_elsewhere")
    assert "the machine ran on" in found.cause
    assert [each.line.split()[:3] for each in found.commands] == [["virsh", "-c", "test://n1"]]
    guests.add("n1", server(3), "shut off")
    assert kinds(copy, guests) == []  # nova-compute of the source removes it when it starts


def test_a_guest_that_a_move_left(copy: NovaCopy, guests: GuestsCopy) -> None:
    guests.add("n2", server(1), "shut off")
    (found,) = copy.look(services=[GuestChecks(guests)]).findings
    assert found.key == ("guest_left_over", server(1))
    assert [each.line.split(" ")[3] for each in found.commands] == ["undefine"]
    guests.rows["n1"].clear()
    nowhere, left = copy.look(services=[GuestChecks(guests)]).findings
    assert [each.kind for each in (nowhere, left)] == ["guest_nowhere", "guest_left_over"]
    assert left.commands == []  # this may be all that there is


def test_a_guest_of_a_server_that_is_gone(copy: NovaCopy, guests: GuestsCopy) -> None:
    copy.add_record(3, deleted=3)
    copy.add_mapping(3, "one", queued=True)
    guests.add("n1", server(3))
    guests.add("n2", server(4))
    known, unknown = copy.look(services=[GuestChecks(guests)]).findings
    assert [each.key for each in (known, unknown)] == [
        ("guest_of_no_server", server(3)), ("guest_of_no_server", server(4))
    ]  # fmt: skip
    assert [each.line.split(" ")[3] for each in known.commands] == ["destroy", "undefine"]
    # It may be a server that is newer than a database that was restored.
    assert [each.line.split(" ")[3] for each in unknown.commands] == ["dumpxml"]


def test_what_goes_on(copy: NovaCopy, guests: GuestsCopy) -> None:
    copy.change("one", nova.instances, {"uuid": server(1)}, at=YOUNG, task_state="migrating")
    guests.add("n2", server(1))
    assert kinds(copy, guests) == []


def test_a_guest_that_moves_between_the_looks(copy: NovaCopy, guests: GuestsCopy) -> None:
    guests.rows["n1"].clear()
    found = copy.look(wait=lambda _: guests.add("n1", server(1)), services=[GuestChecks(guests)])
    assert (found.findings, found.passed) == ([], 1)


def test_a_host_that_nova_does_not_know(copy: NovaCopy) -> None:
    with pytest.raises(Invalid, match="n9"):
        kinds(copy, GuestsCopy("n1", "n9"))
