"""Commands that are left out until other services agree, and what is said instead."""

import pytest

from tests.doctor.nova_copy import NovaCopy, server
from tests.doctor.services_copy import GuestsCopy, PortsCopy, VolumesCopy
from whimbrel.doctor.guest_checks import GuestChecks
from whimbrel.doctor.looks import Checks
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


def advice(copy: NovaCopy, *beside: Checks) -> tuple[list[str], str]:
    """Return the commands for the stuck server, and the note."""
    (found,) = (each for each in copy.look(beside=beside).findings if each.kind == "stuck_server")
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
    port, guest = copy.look(beside=[PortChecks(ports), GuestChecks(guests)]).findings
    assert [each.kind for each in (port, guest)] == ["port_on_other_host", "guest_nowhere"]
    for each in (port, guest):
        assert not any("reboot" in command.line for command in each.commands)
        assert "Cinder was not asked" in each.note
