"""A nic or a PCI device as libvirt reads it, and what is refused before libvirt hears of it."""

import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace

from whimbrel.adapters.libvirt.device_xml import Fitted, fitted, nic_in, nic_xml, pci_xml, volume_in
from whimbrel.adapters.libvirt.volume_xml import volume_xml
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


def test_a_nic_is_added_to_the_bridge_of_open_vswitch_that_its_binding_names() -> None:
    nic = nic_xml(replace(NIC, vif_details={"bridge_name": "br-vms", "ovs_hybrid_plug": False}), "ovs")
    assert nic.get("type") == "bridge"
    assert found(nic, "source") == {"bridge": "br-vms"}
    assert found(nic, "virtualport") == {"type": "openvswitch"}
    assert found(nic, "virtualport/parameters") == {"interfaceid": NIC.port_id}
    assert found(nic, "target") == {"dev": "tap6a0d1e2c-11"}
    assert found(nic_xml(NIC, "ovs"), "source") == {"bridge": "br-int"}
    assert nic_xml(replace(NIC, vif_type="bridge"), "ovs").get("type") == "ethernet"


def test_a_bridge_for_iptables_before_open_vswitch_is_refused() -> None:
    with pytest.raises(Refused, match="firewall_driver = openvswitch"):
        nic_xml(replace(NIC, vif_details={"ovs_hybrid_plug": True}), "ovs")


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
