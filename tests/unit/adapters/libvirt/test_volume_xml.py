"""A volume as libvirt reads it, for each kind of connection, and what is refused before libvirt hears of it."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from whimbrel.adapters.brick.brick_request import PROTOCOLS
from whimbrel.adapters.libvirt.volume_xml import CONNECTED_AS, volume_xml
from whimbrel.domain.errors import Refused
from whimbrel.domain.server_devices import GuestVolume

NBD = {"driver_volume_type": "nbd", "data": {"server": "10.0.0.1", "port": 10809, "export": "a&b"}}
VOLUME = GuestVolume(volume_id="v1", attachment_id="a1", device="/dev/vdb", connection=NBD)
NFS = {"export": "filer:/volumes", "name": "volume-v1", "options": None, "format": "raw"}
RBD = {
    "name": "volumes/volume-v1", "hosts": ["10.0.0.1", "[fd00::1]"], "ports": ["6789", "6789"], "auth_enabled": True,
    "auth_username": "cinder", "secret_type": "ceph", "secret_uuid": "457eb676-33da-42ec-9a8c-9293d545c337",
}  # fmt: skip


def reached(kind: str, data: dict[str, Any]) -> GuestVolume:
    return replace(VOLUME, connection={"driver_volume_type": kind, "data": data})


def found(element: ET.Element, path: str) -> dict[str, str]:
    child = element.find(path)
    assert child is not None, path
    return dict(child.attrib)


def test_a_volume_over_nbd() -> None:
    disk = volume_xml(VOLUME)
    assert found(disk, "source") == {"protocol": "nbd", "name": "a&b"}
    assert found(disk, "source/host") == {"name": "10.0.0.1", "port": "10809"}
    assert found(disk, "driver")["type"] == "raw", "never what the contents claim to be"
    assert found(disk, "target") == {"dev": "vdb", "bus": "virtio"}
    assert (disk.findtext("serial"), disk.find("boot"), disk.find("readonly")) == ("v1", None, None)


def test_a_volume_that_is_booted_from_or_only_read() -> None:
    assert found(volume_xml(replace(VOLUME, boot_index=0)), "boot") == {"order": "1"}
    assert volume_xml(replace(VOLUME, boot_index=-1)).find("boot") is None
    assert volume_xml(replace(VOLUME, read_only=True)).find("readonly") is not None


def test_a_local_volume_is_a_file_or_a_device(tmp_path: Path) -> None:
    def source(path: str) -> tuple[str | None, dict[str, str]]:
        disk = volume_xml(replace(VOLUME, connection={"driver_volume_type": "local", "data": {"device_path": path}}))
        return disk.get("type"), found(disk, "source")

    file = tmp_path / "volume"
    file.touch()
    assert source(str(file)) == ("file", {"file": str(file)})
    blocks = [path for path in Path("/dev").iterdir() if path.is_block_device()]
    for device in blocks[:1]:
        assert source(str(device)) == ("block", {"dev": str(device)})


@pytest.mark.parametrize(
    "connection",
    [
        {"driver_volume_type": "rbd", "data": {}},
        {"driver_volume_type": "sheepdog", "data": {}},
        {"data": {}},
        {"driver_volume_type": "nbd", "data": {"server": "x", "port": 1}},
        {"driver_volume_type": "local"},
    ],
)
def test_connections_that_this_host_does_not_know_are_refused(connection: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="volume v1"):
        volume_xml(replace(VOLUME, connection=connection))


@pytest.mark.parametrize("kind", ["iscsi", "iser", "fibre_channel", "nvmeof"])
def test_what_a_host_logs_in_to_is_a_block_device(kind: str) -> None:
    disk = volume_xml(reached(kind, {"target_lun": 1}), "/dev/dm-3")
    assert disk.get("type") == "block"
    assert found(disk, "source") == {"dev": "/dev/dm-3"}
    assert found(disk, "driver")["type"] == "raw"


@pytest.mark.parametrize("disk_format", ["raw", "qcow2"])
def test_a_file_of_a_share_has_the_format_that_the_service_says(disk_format: str) -> None:
    disk = volume_xml(reached("nfs", {**NFS, "format": disk_format}), "/run/shares/f00/volume-v1")
    assert disk.get("type") == "file"
    assert found(disk, "source") == {"file": "/run/shares/f00/volume-v1"}
    assert found(disk, "driver")["type"] == disk_format


def test_what_is_not_connected_has_a_path_that_does_not_exist() -> None:
    paths = {found(volume_xml(reached(kind, {})), "source").popitem()[1] for kind in CONNECTED_AS}
    assert paths == {"/dev/disk/by-whimbrel/v1"}


def test_a_volume_of_ceph_is_reached_by_qemu_with_libvirts_secret() -> None:
    disk = volume_xml(reached("rbd", RBD))
    assert disk.get("type") == "network"
    assert found(disk, "source") == {"protocol": "rbd", "name": "volumes/volume-v1"}
    assert [host.attrib for host in disk.iterfind("source/host")] == [
        {"name": "10.0.0.1", "port": "6789"},
        {"name": "fd00::1", "port": "6789"},
    ]
    assert found(disk, "source/auth") == {"username": "cinder"}
    assert found(disk, "source/auth/secret") == {"type": "ceph", "uuid": RBD["secret_uuid"]}
    open_to_all = volume_xml(reached("rbd", {**RBD, "auth_enabled": False}))
    assert open_to_all.find("source/auth") is None


@pytest.mark.parametrize("kind", ["nfs", "iscsi", "rbd", "nbd"])
def test_an_encrypted_volume_is_refused_by_name(kind: str) -> None:
    with pytest.raises(Refused, match="volume v1 is encrypted"):
        volume_xml(reached(kind, {"encrypted": True}))


def test_a_format_that_could_name_other_files_is_refused() -> None:
    with pytest.raises(Refused, match="'vmdk'"):
        volume_xml(reached("nfs", {**NFS, "format": "vmdk"}))


def test_a_volume_that_the_service_lets_be_read_only_is_read_only() -> None:
    assert volume_xml(reached("nfs", {**NFS, "access_mode": "ro"})).find("readonly") is not None


def test_each_kind_that_os_brick_connects_has_its_element() -> None:
    assert set(PROTOCOLS) == set(CONNECTED_AS)
