"""A nic, a volume or a PCI device as libvirt reads it, and what is refused before libvirt hears of it."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from whimbrel.adapters.libvirt.device_xml import Fitted, fitted, nic_in, nic_xml, pci_xml, volume_in, volume_xml
from whimbrel.domain.errors import Refused
from whimbrel.domain.server_devices import GuestNic, GuestVolume

NIC = GuestNic(port_id="6a0d1e2c-1111-4000-8000-000000000001", mac="fa:16:3e:01:02:03", vif_type="ovs", mtu=1450)
NBD = {"driver_volume_type": "nbd", "data": {"server": "10.0.0.1", "port": 10809, "export": "a&b"}}
VOLUME = GuestVolume(volume_id="v1", attachment_id="a1", device="/dev/vdb", connection=NBD)


def found(element: ET.Element, path: str) -> dict[str, str]:
    child = element.find(path)
    assert child is not None, path
    return dict(child.attrib)


def domain_of(*devices: ET.Element) -> str:
    domain = ET.Element("domain")
    ET.SubElement(domain, "devices").extend(devices)
    return ET.tostring(domain, encoding="unicode")


@pytest.mark.parametrize("vif_type", ["ovs", "bridge", "tap"])
def test_a_nic_is_a_tap_with_the_name_that_the_network_service_looks_for(vif_type: str) -> None:
    nic = nic_xml(replace(NIC, vif_type=vif_type), "tap")
    assert nic.get("type") == "ethernet"
    assert found(nic, "target") == {"dev": "tap6a0d1e2c-11"}
    assert found(nic, "mac") == {"address": NIC.mac}
    assert found(nic, "mtu") == {"size": "1450"}
    assert nic_xml(replace(NIC, mtu=None), "tap").find("mtu") is None


def test_a_nic_of_a_host_without_rights_is_qemus_own() -> None:
    nic = nic_xml(NIC, "user")
    assert (nic.get("type"), nic.find("target"), nic.find("mtu")) == ("user", None, None)


def test_what_cannot_be_plugged_is_refused_with_advice() -> None:
    with pytest.raises(Refused, match=r"guest_nics = 'user'"):
        nic_xml(NIC, None)
    with pytest.raises(Refused, match="'vhostuser'"):
        nic_xml(replace(NIC, vif_type="vhostuser"), "tap")


def test_a_virtual_function_is_handed_over_with_mac_and_vlan() -> None:
    direct = replace(NIC, vif_type="hw_veb", pci_address="0000:81:10.3", vif_details={"vlan": 7})
    nic = nic_xml(direct, None)
    address = {"type": "pci", "domain": "0x0000", "bus": "0x81", "slot": "0x10", "function": "0x3"}
    assert (nic.get("type"), nic.get("managed")) == ("hostdev", "yes")
    assert found(nic, "source/address") == address
    assert found(nic, "vlan/tag") == {"id": "7"}
    assert found(nic, "mac") == {"address": NIC.mac}
    assert found(pci_xml("0000:81:10.3"), "source/address") == address


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
        {"data": {}},
        {"driver_volume_type": "nbd", "data": {"server": "x", "port": 1}},
        {"driver_volume_type": "local"},
    ],
)
def test_connections_that_this_host_does_not_know_are_refused(connection: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="volume v1"):
        volume_xml(replace(VOLUME, connection=connection))


def test_what_was_given_is_found_again_and_what_is_foreign_is_not_ours() -> None:
    direct = replace(NIC, port_id="direct", vif_type="hw_veb", pci_address="0000:81:10.3")
    foreign = ET.Element("interface", type="user"), ET.Element("disk", type="file")
    ET.SubElement(foreign[0], "alias", name="net0")
    xml = domain_of(*foreign, nic_xml(NIC, "tap"), nic_xml(direct, "tap"), volume_xml(VOLUME), pci_xml("0001:02:03.4"))
    assert fitted(xml) == Fitted((NIC.port_id, "direct"), ("v1",), ("0001:02:03.4", "0000:81:10.3"))
    assert nic_in(xml, "net0") is None
    assert volume_in(xml, "v2") is None
    nic, volume = nic_in(xml, NIC.port_id), volume_in(xml, "v1")
    assert nic is not None
    assert volume is not None
    assert found(nic, "mac") == {"address": NIC.mac}
    assert fitted("<domain/>") == Fitted()
