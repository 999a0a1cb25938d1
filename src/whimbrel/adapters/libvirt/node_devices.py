"""A host's network cards and PCI devices, from libvirt's node devices and interfaces.

Source: https://libvirt.org/formatnode.html.
"""

import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection
from typing import Final

from whimbrel.adapters.libvirt.connection import Libvirt
from whimbrel.domain.host_hardware import FoundNic, FoundPciDevice

COMPUTER: Final = "computer"
"""The parent of devices that belong to no hardware: bridges, taps of guests."""

UNKNOWN_SPEED: Final = 2**32 - 1
"""A speed of -1, as libvirt reads it: the driver knows none."""

PCI: Final = "capability[@type='pci']"
PARTS: Final = ("domain", "bus", "slot", "function")


def nics(libvirt: Libvirt, libvirtd: Libvirt, names: Collection[str]) -> tuple[FoundNic, ...]:
    """Return the devices of network cards, and those of these names that exist, whatever they are."""

    def device_xml(name: str) -> str:
        return str(libvirtd.nodeDeviceLookupByName(name).XMLDesc())

    def interface_xml(name: str) -> str:
        return str(libvirtd.interfaceLookupByName(name).XMLDesc())

    cards: dict[str, str | None] = {}
    for device in libvirtd.listAllDevices(libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_NET):
        net = _described(libvirt, device.XMLDesc)
        if net is not None and (parent := net.findtext("parent", COMPUTER)) != COMPUTER:
            card = _described(libvirt, device_xml, parent)
            cards[net.findtext("capability/interface", "")] = None if card is None else _own_address(card)
    found = []
    for name in sorted({*cards, *names}):
        nic = _described(libvirt, interface_xml, name)
        if nic is not None:
            found.append(_nic(nic, cards.get(name)))
    return tuple(found)


def pci_devices(libvirt: Libvirt, libvirtd: Libvirt) -> tuple[FoundPciDevice, ...]:
    listed = libvirtd.listAllDevices(libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV)
    described = [_described(libvirt, device.XMLDesc) for device in listed]
    found = [_pci_device(device) for device in described if device is not None]
    return tuple(sorted(found, key=lambda device: device.address))


def _described(libvirt: Libvirt, xml: Callable[..., str], *named: str) -> ET.Element | None:
    """Return the description of a device; None: there is no such device, or it has gone meanwhile."""
    try:
        return ET.fromstring(xml(*named))
    except libvirt.libvirtError as error:
        if error.get_error_code() in (libvirt.VIR_ERR_NO_NODE_DEVICE, libvirt.VIR_ERR_NO_INTERFACE):
            return None
        raise


def _nic(interface: ET.Element, pci_address: str | None) -> FoundNic:
    speed = _number(interface, "link", "speed")
    return FoundNic(
        name=interface.get("name", ""),
        mac=_text(interface, "mac", "address"),
        speed_mbps=None if speed == UNKNOWN_SPEED else speed,
        mtu=_number(interface, "mtu", "size"),
        state=_text(interface, "link", "state"),
        pci_address=pci_address,
    )


def _pci_device(device: ET.Element) -> FoundPciDevice:
    function = device.find(f"{PCI}/capability[@type='phys_function']/address")
    return FoundPciDevice(
        address=_own_address(device) or "",
        vendor_id=_id(device, f"{PCI}/vendor"),
        product_id=_id(device, f"{PCI}/product"),
        numa_node=_number(device, f"{PCI}/numa", "node"),
        physical_function=None if function is None else _address(*(function.get(part, "0") for part in PARTS)),
        virtual_functions=_number(device, f"{PCI}/capability[@type='virt_functions']", "maxCount") or 0,
        iommu_group=_number(device, f"{PCI}/iommuGroup", "number"),
        driver=device.findtext("driver/name"),
    )


def _own_address(device: ET.Element) -> str | None:
    """Return the address of a PCI device; None: it is another one."""
    pci = device.find(PCI)
    return None if pci is None else _address(*(pci.findtext(part, "0") for part in PARTS))


def _address(domain: str, bus: str, slot: str, function: str) -> str:
    return f"{int(domain, 0):04x}:{int(bus, 0):02x}:{int(slot, 0):02x}.{int(function, 0):x}"


def _id(device: ET.Element, path: str) -> str:
    return (_text(device, path, "id") or "").removeprefix("0x")


def _number(element: ET.Element, path: str, name: str) -> int | None:
    text = _text(element, path, name)
    return None if text is None else int(text, 0)


def _text(element: ET.Element, path: str, name: str) -> str | None:
    found = element.find(path)
    return None if found is None else found.get(name)
