"""A host's network cards and PCI devices, as libvirt's own test driver describes them."""

from pathlib import Path
from typing import Any

import pytest

from tests.prerequisites import missing
from whimbrel.adapters.libvirt import node_devices
from whimbrel.adapters.libvirt.connection import load_libvirt
from whimbrel.domain.errors import Refused
from whimbrel.domain.host_hardware import FoundNic, FoundPciDevice

NODE = """<node>
  <interface type='ethernet' name='ens1f0'><mtu size='9000'/><mac address='0c:42:a1:00:00:01'/></interface>
  <interface type='bridge' name='br0'><mtu size='1500'/><bridge/></interface>
  <interface type='ethernet' name='tap7'><mtu size='1500'/></interface>
  <device>
    <name>physical</name><parent>computer</parent>
    <capability type='pci'>
      <domain>0</domain><bus>129</bus><slot>0</slot><function>0</function>
      <product id='0x101d'/><vendor id='0x15b3'/>
      <capability type='virt_functions' maxCount='8'>
        <address domain='0x0000' bus='0x81' slot='0x01' function='0x2'/>
      </capability>
      <iommuGroup number='40'><address domain='0x0000' bus='0x81' slot='0x00' function='0x0'/></iommuGroup>
      <numa node='1'/>
    </capability>
  </device>
  <device>
    <name>virtual</name><parent>computer</parent>
    <capability type='pci'>
      <domain>0</domain><bus>129</bus><slot>1</slot><function>2</function>
      <product id='0x101e'/><vendor id='0x15b3'/>
      <capability type='phys_function'>
        <address domain='0x0000' bus='0x81' slot='0x00' function='0x0'/>
      </capability>
    </capability>
  </device>
  <device>
    <name>card</name><parent>physical</parent>
    <capability type='net'><interface>ens1f0</interface><address>0c:42:a1:00:00:01</address></capability>
  </device>
  <device>
    <name>tap</name><parent>computer</parent>
    <capability type='net'><interface>tap7</interface><address>0c:42:a1:00:00:02</address></capability>
  </device>
</node>"""


@pytest.fixture
def libvirt() -> Any:
    try:
        return load_libvirt()
    except Refused as error:
        missing("libvirt-python is needed", error.reason.partition(": ")[2])


@pytest.fixture
def libvirtd(libvirt: Any, tmp_path: Path) -> Any:
    (tmp_path / "node.xml").write_text(NODE)
    return libvirt.open(f"test://{tmp_path}/node.xml")


def test_cards_are_listed_with_what_is_named_and_exists(libvirt: Any, libvirtd: Any) -> None:
    card = FoundNic(name="ens1f0", mac="0c:42:a1:00:00:01", mtu=9000, pci_address="0000:81:00.0")
    assert node_devices.nics(libvirt, libvirtd, []) == (card,)
    assert node_devices.nics(libvirt, libvirtd, ["br0", "ens9"]) == (FoundNic(name="br0", mtu=1500), card)


def test_functions_of_pci_devices_are_told_apart(libvirt: Any, libvirtd: Any) -> None:
    assert node_devices.pci_devices(libvirt, libvirtd) == (
        FoundPciDevice(
            address="0000:81:00.0",
            vendor_id="15b3",
            product_id="101d",
            numa_node=1,
            virtual_functions=8,
            iommu_group=40,
        ),
        FoundPciDevice(address="0000:81:01.2", vendor_id="15b3", product_id="101e", physical_function="0000:81:00.0"),
    )


def test_what_has_gone_meanwhile_is_left_out(libvirt: Any, tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text(NODE.replace("<name>physical</name>", "<name>another</name>"))
    libvirtd = libvirt.open(f"test://{tmp_path}/node.xml")
    assert [nic.pci_address for nic in node_devices.nics(libvirt, libvirtd, [])] == [None]
    (tmp_path / "node.xml").write_text(NODE.replace("name='ens1f0'", "name='ens1f1'"))
    libvirtd = libvirt.open(f"test://{tmp_path}/node.xml")
    assert node_devices.nics(libvirt, libvirtd, []) == ()
