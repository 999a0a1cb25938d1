"""Real guests with an ephemeral and a swap disk: what was written on the one goes along, the other is new and works."""

import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.hypervisors import LibvirtPair, libvirt_hosts, libvirt_pair, new_spec  # noqa: F401
from tests.live.test_libvirt_cloud import Cloud, cloud_of
from whimbrel.adapters.libvirt.slots import SlotDirectory, Slots
from whimbrel.domain.guest import Guest

MARKED_AT = 300 << 20
"""Somewhere in the data of the file system."""
GROUPS = {"small": (1, 64), "large": (2, 128)}
"""Flavors: GiB of the ephemeral, MiB of the swap disk."""


@pytest.fixture(params=["", '[[cell]]\nname = "two"\n'], ids=["in a cell", "between cells"])
def cloud(request: pytest.FixtureRequest, libvirt_pair: LibvirtPair) -> Iterator[Cloud]:  # noqa: F811
    with cloud_of(libvirt_pair, request.param) as found:
        for name, (ephemeral, swap) in GROUPS.items():
            sizes = {"vcpus": 1, "ram": 64, "disk": 1, "OS-FLV-EXT-DATA:ephemeral": ephemeral, "swap": swap}
            found.operator.post("compute", "/flavors", {"flavor": {"id": name, "name": name, **sizes}})
        yield found


@pytest.mark.long
def test_a_marker_on_the_ephemeral_disk_goes_from_host_to_host(cloud: Cloud, libvirt_pair: LibvirtPair) -> None:  # noqa: F811
    server = cloud.boot(imageRef=cloud.tick_image(), flavorRef="small")
    cloud.until(lambda: cloud.boots(server) == 1)
    [(source, guest)] = cloud.guests()
    assert guest.disks == ("root", "ephemeral", "swap")
    assert targets(libvirt_pair, source, guest) == ["vda", "vdb", "vdc"]
    cloud.act(server, "SHUTOFF", {"os-stop": None})
    slot = slot_of(libvirt_pair, source, guest)
    mark(slot)
    assert_whole(slot, *GROUPS["small"])
    cloud.act(server, "ACTIVE", {"os-start": None})
    cloud.until(lambda: cloud.boots(server) == 2)

    cloud.act(server, "VERIFY_RESIZE", {"resize": {"flavorRef": "large"}})
    cloud.act(server, "ACTIVE", {"revertResize": None})
    assert [(host, one.key) for host, one in cloud.guests()] == [(source, guest.key)]
    cloud.act(server, "VERIFY_RESIZE", {"resize": {"flavorRef": "large"}})
    cloud.act(server, "ACTIVE", {"confirmResize": None})
    [(target, guest)] = cloud.guests()
    assert target != source
    assert targets(libvirt_pair, target, guest) == ["vda", "vdb", "vdc"]
    assert_whole(slot_of(libvirt_pair, target, guest), *GROUPS["large"])

    cloud.act(server, "SHUTOFF", {"os-stop": None})
    cloud.act(server, "VERIFY_RESIZE", {"migrate": None})
    cloud.act(server, "SHUTOFF", {"confirmResize": None})
    [(back, guest)] = cloud.guests()
    assert (back, guest.disks) == (source, ("root", "ephemeral", "swap"))
    assert_whole(slot_of(libvirt_pair, back, guest), *GROUPS["large"])
    images = cloud.operator.get("image", "/v2/images")["images"]
    assert [image["name"] for image in images] == ["tick"], "what carried the disks is gone"

    smaller = {"resize": {"flavorRef": "small"}}
    cloud.member.post("compute", f"/servers/{server}/action", smaller)
    cloud.until_status(server, "SHUTOFF")
    cloud.until(lambda: "Unable to resize disk down" in last_failure(cloud, server))
    assert [(host, one.key) for host, one in cloud.guests()] == [(back, guest.key)]
    cloud.member.delete("compute", f"/servers/{server}")
    cloud.until(lambda: cloud.guests() == [])
    assert not list((libvirt_pair.directory(back) / "guests").glob("*/*"))


def targets(pair: LibvirtPair, host: str, guest: Guest) -> list[str]:
    """Return the disks that libvirt says the running guest has."""
    with pair.hosts.connection(host) as connection:
        devices = ET.fromstring(connection.lookupByUUIDString(guest.key.server).XMLDesc())
    return [target.get("dev", "") for target in devices.iterfind("devices/disk/target")]


def slot_of(pair: LibvirtPair, host: str, guest: Guest) -> SlotDirectory:
    return Slots(pair.directory(host)).at(guest.key)


def mark(slot: SlotDirectory) -> None:
    _qemu_io(slot.disk_file("ephemeral"), f"write -P 0x5a {MARKED_AT} 65536")


def assert_whole(slot: SlotDirectory, ephemeral_gib: int, swap_mib: int) -> None:
    """See the marker, a sound file system with its label, and the signature of swap. The disks may be in use."""
    disk = slot.disk_file("ephemeral")
    _qemu_io(disk, f"read -P 0x5a {MARKED_AT} 65536")
    raw = _raw(disk, slot.path.parent.parent / "ephemeral.raw")
    assert raw.stat().st_size == ephemeral_gib << 30
    told = subprocess.check_output(["/usr/sbin/dumpe2fs", "-h", raw], text=True, stderr=subprocess.DEVNULL)
    assert "Filesystem volume name:   ephemeral0" in told
    subprocess.run(["/usr/sbin/e2fsck", "-fn", raw], check=True, capture_output=True)
    raw.unlink()
    raw = _raw(slot.disk_file("swap"), slot.path.parent.parent / "swap.raw")
    assert raw.stat().st_size == swap_mib << 20
    assert raw.read_bytes()[4086:4096] == b"SWAPSPACE2"
    raw.unlink()


def _raw(disk: Path, raw: Path) -> Path:
    subprocess.run(["qemu-img", "convert", "-U", "-f", "qcow2", "-O", "raw", disk, raw], check=True)
    return raw


def _qemu_io(disk: Path, command: str) -> None:
    shared = ["-U", "-r"] if command.startswith("read") else []
    told = subprocess.run(["qemu-io", *shared, "-f", "qcow2", "-c", command, disk], check=True, capture_output=True)
    assert b"failed" not in told.stdout, told.stdout


def last_failure(cloud: Cloud, server: str) -> Any:
    path = f"/servers/{server}/os-instance-actions"
    last = cloud.member.get("compute", path)["instanceActions"][0]["request_id"]
    return cloud.member.get("compute", f"{path}/{last}")["instanceAction"]["message"] or ""
