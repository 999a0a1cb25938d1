"""What a host says of itself: the settings of its operator, and what its hypervisor reports."""

from hashlib import sha256

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from whimbrel.domain.host_hardware import Hardware
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ids import HostName
from whimbrel.domain.numa import NumaNode
from whimbrel.domain.pci import PciDevice


class HostDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the cloud registers of a host. Fields of a newer agent that are unknown here are ignored."""

    name: HostName
    zone: str  # the zone that it joins when it is first registered
    driver: str  # "simulated" | "libvirt"
    vcpus: int
    memory_mib: int
    disk_gib: int
    net: HostNet
    dedicated_vcpus: int = 0  # besides `vcpus`
    traits: tuple[str, ...] = ()
    resources: dict[str, int] = {}  # resource class -> amount
    pci: tuple[PciDevice, ...] = ()  # without `live_migratable`, which programs of release 0.2 do not know
    live_migratable_pci: tuple[str, ...] | UnsetType = UNSET  # the addresses of those that are; unset: none
    hypervisor_type: str = "QEMU"
    hypervisor_version: int = 1
    cpu_info: str = "{}"
    numa: tuple[NumaNode, ...] = ()  # empty: not reported
    host_ip: str = "127.0.0.1"
    answers: bool = True  # whether the hypervisor answered; if not, its part is that of the settings
    self_fence_s: float | UnsetType = UNSET  # it stops its guests when it was cut off for so long; unset: it does not
    hardware: Hardware | UnsetType = UNSET  # unset: not reported, as by agents of release 0.2
    hardware_digest: str | UnsetType = UNSET  # where it is stored, instead of the hardware

    @property
    def devices(self) -> tuple[PciDevice, ...]:
        """Return the PCI devices with all that is said of them."""
        migratable = self.live_migratable_pci or ()
        return tuple(replace(one, live_migratable=True) if one.address in migratable else one for one in self.pci)

    def without_hardware(self) -> "HostDescription":
        """Return the description with a hash of the hardware in its place: it is read often, and hardware is large."""
        return replace(self, hardware=UNSET, hardware_digest=_digest(self.hardware)) if self.hardware else self

    def digest(self) -> str:
        """Return a hash of the contents: two descriptions with one hash say the same."""
        return _digest(self.without_hardware())


def _digest(said: HostDescription | Hardware) -> str:
    return sha256(msgspec.json.encode(said, order="deterministic")).hexdigest()
