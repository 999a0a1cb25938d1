"""Commands that are left out until other services agree, and what is said instead."""

import pytest

from tests.doctor.nova_copy import NovaCopy, migration, server
from tests.doctor.services_copy import GuestsCopy, PortsCopy, VolumesCopy
from whimbrel.doctor.diagnosis import Checks
from whimbrel.doctor.guest_checks import GuestChecks
from whimbrel.doctor.port_checks import PortChecks
from whimbrel.doctor.volume_checks import VolumeChecks

REBOOT = f"openstack server reboot --hard {server(3)}"


@pytest.fixture
def volumes(copy: NovaCopy) -> VolumesCopy:
    """Return a Cinder with the volume that stuck server 3 boots from, attached as Nova records it."""
    made = VolumesCopy()
    copy.add_server(3, task_state="powering-off", vm_state="active")
    copy.use_volume(3, "v", "a", boot_index=0)
    made.add("v")
    made.attach("a", "v", server(3))
    return made


def advice(copy: NovaCopy, *services: Checks) -> tuple[list[str], str]:
    """Return the commands for the stuck server, and the note."""
    (found,) = (each for each in copy.look(services=services).findings if each.kind == "stuck_server")
    return [each.line for each in found.commands], found.note


def test_a_server_with_good_attachments_is_rebooted(copy: NovaCopy, volumes: VolumesCopy) -> None:
    lines, note = advice(copy, VolumeChecks(volumes))
    assert (lines[-1], note) == (REBOOT, "")


def test_without_cinder_a_server_with_volumes_is_not_rebooted(copy: NovaCopy, volumes: VolumesCopy) -> None:
    lines, note = advice(copy)
    assert not any("reboot" in line for line in lines)
    assert "Cinder was not asked" in note


def test_without_cinder_a_server_without_volumes_is_rebooted(copy: NovaCopy) -> None:
    copy.add_server(3, task_state="powering-off")
    lines, note = advice(copy)
    assert (lines[-1], note) == (REBOOT, "")


@pytest.mark.parametrize("case", ["missing", "of another", "on another host", "reserved", "not recorded", "no id"])
def test_a_server_is_not_rebooted_before_its_attachments_are_mended(
    copy: NovaCopy, volumes: VolumesCopy, case: str
) -> None:
    if case == "missing":
        volumes.attachment_rows.clear()
    elif case == "of another":
        volumes.attach("a", "v", server(1))
    elif case == "on another host":
        volumes.attach("a", "v", server(3), host="n2")
    elif case == "reserved":
        volumes.attach("a", "v", server(3), "reserved")
    elif case == "not recorded":
        volumes.attach("b", "w", server(3))
    else:
        copy.use_volume(3, "w", None)
    lines, note = advice(copy, VolumeChecks(volumes))
    assert not any("reboot" in line for line in lines)
    assert "mend its attachments" in note


def test_a_stopped_server_is_stopped_again_though_it_is_not_rebooted(copy: NovaCopy) -> None:
    copy.add_server(3, task_state="powering-on", vm_state="stopped")
    copy.use_volume(3, "v", "a")
    lines, _ = advice(copy)
    assert lines[-1] == f"openstack server stop {server(3)}"


def test_no_finding_of_another_kind_reboots_such_a_server(copy: NovaCopy) -> None:
    copy.use_volume(1, "v", "a")
    ports, guests = PortsCopy(), GuestsCopy("n1")
    ports.add("p", server(1), "n2")
    port, guest = copy.look(services=[PortChecks(ports), GuestChecks(guests)]).findings
    assert [each.kind for each in (port, guest)] == ["port_on_other_host", "guest_nowhere"]
    for each in (port, guest):
        assert not any("reboot" in command.line for command in each.commands)
        assert "Cinder was not asked" in each.note


@pytest.fixture
def moved(copy: NovaCopy) -> NovaCopy:
    """Return a Nova whose nova-compute ended the live migration of server 1 to n2 as error when it started."""
    copy.hold(copy.add_migration(1, "error", "live-migration"), "n1")
    return copy


def held(copy: NovaCopy, *services: Checks) -> tuple[list[str], str]:
    (found,) = (each for each in copy.look(services=services).findings if each.kind == "allocation_of_migration")
    return [each.line.split("  #")[0] for each in found.commands], found.note


ASK = f"virsh -c qemu+ssh://n2/system domstate {server(1)}"
RELEASE = f"openstack resource provider allocation delete {migration(1)}"


def test_what_a_live_migration_holds_is_released_after_a_look_at_the_target(moved: NovaCopy) -> None:
    lines, note = held(moved)
    assert lines == [ASK, RELEASE]
    assert "only if n2 answers shut off" in note


@pytest.mark.parametrize(("state", "left"), [(None, [RELEASE]), ("shut off", [RELEASE]), ("running", [])])
def test_a_hypervisor_that_is_given_is_not_left_to_the_reader(
    moved: NovaCopy, state: str | None, left: list[str]
) -> None:
    guests = GuestsCopy("n2")
    if state:
        guests.add("n2", server(1), state)
    lines, note = held(moved, GuestChecks(guests))
    assert lines == left
    assert ("the guest runs on n2" in note) == (left == [])


def test_a_hypervisor_that_is_not_given_is_asked(moved: NovaCopy) -> None:
    guests = GuestsCopy("n1")
    guests.add("n1", server(1))
    assert held(moved, GuestChecks(guests))[0] == [ASK, RELEASE]


def test_a_target_that_nova_records_is_not_asked(copy: NovaCopy) -> None:
    copy.add_server(3, "n2")
    copy.hold(copy.add_migration(3, "error", "live-migration"), "n1")
    assert held(copy)[0] == [f"openstack resource provider allocation delete {migration(3)}"]


@pytest.mark.parametrize("task", ["migrating", None])
def test_a_live_migration_is_ended_after_a_look_at_the_target(copy: NovaCopy, task: str | None) -> None:
    copy.add_server(3, task_state=task)
    copy.add_migration(3, "running", "live-migration")
    guests = GuestsCopy("n2")
    (found,) = copy.look().findings
    lines = [each.line for each in found.commands if "event list" not in each.line]
    assert "n2/system domstate" in lines[0]
    assert "UPDATE migrations" in lines[1]
    guests.add("n2", server(3))
    stuck, *_ = copy.look(services=[GuestChecks(guests)]).findings
    assert [each.line for each in stuck.commands if "event list" not in each.line] == []


def test_an_unshelve_is_asked_for_again_after_a_look_for_the_guest_that_it_had_begun(copy: NovaCopy) -> None:
    copy.add_server(3, task_state="spawning", vm_state="shelved_offloaded")
    (found,) = copy.look().findings
    assert "n1/system domstate" in found.commands[1].line


def test_bindings_and_allocations_on_another_host_are_deleted_after_a_look_at_it(copy: NovaCopy) -> None:
    copy.hold(server(1), "n2")
    ports = PortsCopy()
    ports.add("p", server(1), "n1")
    ports.add("q", server(2), "n1")
    ports.others["p"] = ["n2"]
    found = copy.look(services=[PortChecks(ports)]).findings
    assert [each.kind for each in found] == ["doubled_allocation", "port_on_other_host", "port_bound_twice"]
    assert [each.commands[0].line.split("/")[2] for each in found] == ["n2", "n1", "n2"]


def test_attachments_are_mended_before_ports(copy: NovaCopy) -> None:
    """The commands for a port reboot its server, and Nova's hard reboot deletes attachments that are not recorded."""
    ports, volumes = PortsCopy(), VolumesCopy()
    ports.add("p", server(1), "n2")
    ports.add("q", server(1), "n1", vif_type="binding_failed")
    ports.add("r", server(1), "n1")
    ports.others["r"] = ["n2"]
    ports.add("s", server(5), "n1")
    copy.use_volume(1, "v", "a")
    volumes.add("v", "available")
    volumes.add("w")
    volumes.attach("b", "w", server(1))
    volumes.attach("c", "w", server(5))
    copy.use_volume(5, "x", "d")
    found = [kind for kind, _ in copy.kinds(services=[PortChecks(ports), VolumeChecks(volumes)])]
    assert found == [
        "volume_of_gone_server", "attachment_of_gone_server", "attachment_without_mapping",
        "mapping_without_attachment", "port_of_gone_server", "port_on_other_host", "port_binding_failed",
        "port_bound_twice",
    ]  # fmt: skip


@pytest.mark.parametrize("is_known", [True, False])
def test_what_a_server_without_a_trace_uses_is_deleted_after_a_look_for_its_guest(
    copy: NovaCopy, is_known: bool
) -> None:
    """It may be newer than a database that was restored."""
    ports, volumes = PortsCopy(), VolumesCopy()
    ports.add("p", server(3), "n1")
    volumes.add("v")
    volumes.attach("a", "v", server(3))
    if is_known:
        copy.add_mapping(3, "one", queued=True)
        copy.add_record(3, deleted=3)
    for each in copy.look(services=[PortChecks(ports), VolumeChecks(volumes)]).findings:
        assert ["n1/system domstate" in command.line for command in each.commands] == [True] * (not is_known) + [False]


@pytest.mark.parametrize(("host", "question"), [("n1", "n1/system dumpxml"), ("n2", "n2/system domstate")])
def test_an_attachment_that_nova_does_not_record_is_deleted_after_a_look_at_its_host(
    copy: NovaCopy, host: str, question: str
) -> None:
    volumes = VolumesCopy()
    volumes.add("v")
    volumes.attach("a", "v", server(1), host=host)
    (found,) = copy.look(services=[VolumeChecks(volumes)]).findings
    look, delete = found.commands
    assert question in look.line
    assert delete.line.endswith("attachment delete a")
