"""The network cards and PCI devices that a host has, as found there, and how its settings differ from them."""

from collections.abc import Iterable

import msgspec

from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.pci import PciDevice


class FoundNic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A network device. None: not known."""

    name: str  # "ens5"
    mac: str | None = None
    speed_mbps: int | None = None
    mtu: int | None = None
    state: str | None = None  # of its link: "up", "down" ...
    pci_address: str | None = None


class FoundPciDevice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A PCI device. None: it has none."""

    address: str  # "0000:81:00.1"
    vendor_id: str  # "8086"
    product_id: str
    numa_node: int | None = None
    physical_function: str | None = None  # of a virtual function: the address of its physical one
    virtual_functions: int = 0  # of a physical function: how many it can have
    iommu_group: int | None = None
    driver: str | None = None


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """What was found on a host. None: it cannot be listed there. Unknown fields of a newer agent are ignored."""

    nics: tuple[FoundNic, ...] | None = None
    pci: tuple[FoundPciDevice, ...] | None = None

    def mismatches(self, net: HostNet, devices: Iterable[PciDevice]) -> list[str]:
        """Return a sentence about each of these NICs and devices of the settings that is not as it was found."""
        return [*self._missing_nics(net), *self._other_devices(devices)]

    def _missing_nics(self, net: HostNet) -> list[str]:
        if self.nics is None:
            return []
        found = {nic.name for nic in self.nics}
        return [f"NIC {card.name} was not found" for card in net.cards if card.name not in found]

    def _other_devices(self, devices: Iterable[PciDevice]) -> list[str]:
        if self.pci is None:
            return []
        found, wrong = {device.address: f"{device.vendor_id}:{device.product_id}" for device in self.pci}, []
        for device in devices:
            ids = f"{device.vendor_id}:{device.product_id}"
            if device.address not in found:
                wrong.append(f"PCI device {device.address} ({ids}) was not found")
            elif found[device.address] != ids:
                wrong.append(f"PCI device {device.address} is {found[device.address]}, and {ids} in the settings")
        return wrong
