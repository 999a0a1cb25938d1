"""Which disks a guest has of its host, under which names, and how much room they take."""

import pytest
from msgspec.structs import replace

from whimbrel.domain import device_assignment, local_disks
from whimbrel.domain.errors import Refused
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.ids import ProjectId, ServerId, Slot
from whimbrel.domain.server_devices import GuestVolume

SPEC = GuestSpec(
    key=GuestKey(ServerId("server-1"), Slot("run-1")),
    name="web",
    vcpus=1,
    memory_mib=512,
    root_gib=10,
    image_id="i",
    project_id=ProjectId("p"),
    ephemeral_gib=5,
    swap_mib=1025,
)
FLAVOR = Flavor(flavor_id="1", name="f", vcpus=1, memory_mib=512, root_gib=10, ephemeral_gib=5, swap_mib=1025)


def volume(device: str) -> GuestVolume:
    return GuestVolume(volume_id=device, attachment_id="a", device=device, connection={"driver_volume_type": "x"})


def test_a_guest_has_what_its_flavor_gives() -> None:
    assert local_disks.devices_of(SPEC) == {"root": "/dev/vda", "ephemeral": "/dev/vdb", "swap": "/dev/vdc"}
    assert local_disks.devices_of(replace(SPEC, ephemeral_gib=0)) == {"root": "/dev/vda", "swap": "/dev/vdb"}
    assert local_disks.devices_of(replace(SPEC, has_local_root=False, swap_mib=0)) == {"ephemeral": "/dev/vdb"}


def test_they_take_the_room_that_placement_counts() -> None:
    for local in (True, False):
        spec = replace(SPEC, has_local_root=local)
        assert local_disks.gib_of(spec) == FLAVOR.resources(local)["DISK_GB"] == (17 if local else 7)


@pytest.mark.parametrize("local", [True, False])
def test_no_volume_gets_their_names(local: bool) -> None:
    spec = replace(SPEC, has_local_root=local)
    assert local_disks.kept_devices(local, FLAVOR) == set(local_disks.devices_of(spec).values())


def test_a_volume_that_has_such_a_name_keeps_it() -> None:
    spec = replace(SPEC, volumes=(volume("/dev/vdb"), volume("/dev/vdz")))
    assert local_disks.devices_of(spec) == {"root": "/dev/vda", "ephemeral": "/dev/vdy", "swap": "/dev/vdc"}
    device_assignment.check(spec)
    assert device_assignment.with_volume(spec, volume("/dev/vdb")) == spec
    with pytest.raises(Refused, match="/dev/vdb"):
        device_assignment.with_volume(SPEC, volume("/dev/vdb"))


def test_nothing_is_called_as_the_root_disk() -> None:
    with pytest.raises(Refused, match="/dev/vda"):
        device_assignment.check(replace(SPEC, volumes=(volume("/dev/vda"),)))
