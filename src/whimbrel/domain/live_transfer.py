"""Live transfers: a running guest's memory and local disks, copied to another host while the guest runs.

The hypervisors decide when the guest switches over. Who has it afterwards is observed on both hosts, never assumed.
Amounts are in bytes, times in seconds, unless a name says otherwise.
"""

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from whimbrel.domain.config_drive import ConfigDrive
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import DiskName
from whimbrel.domain.guest_hardware import NO_REQUESTS, Hardware


class GuestCpu(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The processor that a running guest sees. document: the same in the hypervisor's own format; "": none."""

    arch: str = ""
    vendor: str = ""
    model: str = ""
    features: tuple[str, ...] = ()
    document: str = ""


class CpuFit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a host can run a guest that sees a certain processor. reason: why not; "": it can."""

    reason: str = ""
    missing: tuple[str, ...] = ()  # features

    @property
    def fits(self) -> bool:
        return not self.reason


class LiveGuest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a target must know of a running guest before it can receive it."""

    address: str  # of the guest on its host, for the other hypervisor
    cpu: GuestCpu = GuestCpu()
    hypervisor_type: str = ""
    hypervisor_version: int = 0
    disks: dict[DiskName, int] = {}  # local disks, which are copied: virtual size
    config_drive: ConfigDrive | None = None  # as the guest sees it; the same at the target
    hardware: Hardware = NO_REQUESTS  # as the guest has it; the same at the target
    machine: str = ""  # the type of its machine, with its version; "": the hypervisor has no such types
    pci: dict[str, str] = {}  # devices that move with it: address at the source -> at the target
    immovable: str = ""  # why it cannot be moved while it runs, for example a device; "": it can


class TransferTarget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the source reaches the target. Treat as a secret: it may contain a key."""

    scheme: str  # "simulated" | "libvirt"
    address: str  # unique for each slot on each host: a transfer is recognized by it
    migration_uri: str = ""  # where the memory goes; "": the hypervisors agree on it
    definition: str = ""  # of the guest at the target, in the hypervisor's own format
    disks: tuple[DiskName, ...] = ()  # to be copied
    pci: dict[str, str] = {}  # as of `LiveGuest`: the devices that the source may send


def check_devices(pci: Mapping[str, str], there: Collection[str]) -> None:
    """Check that the devices of a guest at its target are those to which its own are moved. Raises: Refused."""
    if differing := set(pci.values()).symmetric_difference(there):
        raise Refused(
            f"PCI device {min(differing)} is in the guest at one host only: a live transfer moves all devices"
        )


class TransferOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    bandwidth_mib_s: int = 0  # 0: unlimited
    max_pause_ms: int = 500  # longest pause of the guest at the switch-over
    auto_converge: bool = False  # whether the guest may be throttled
    post_copy: bool = False  # whether post-copy may be ordered later


class Steering(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of a transfer under way; None, False: as it is."""

    bandwidth_mib_s: int | None = None
    max_pause_ms: int | None = None
    suspend: bool = False  # pause the guest until it has arrived; it runs again there
    post_copy: bool = False  # switch over now; what is missing follows. Never rolled back.


TransferState = Literal["none", "active", "arrived", "failed"]


class TransferProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A transfer as its source sees it.

    none: there is no transfer to this target, and the guest is here. arrived: this host has handed the guest over and
    never runs it again. failed: the guest is here, `trouble` says why.
    """

    state: TransferState
    target: str = ""  # address of the target
    is_post_copy: bool = False  # the guest runs at the target and still needs this host
    memory_total: int = 0
    memory_processed: int = 0
    memory_remaining: int = 0
    disk_total: int = 0
    disk_processed: int = 0
    disk_remaining: int = 0
    dirty_rate: int = 0  # bytes per second that the guest writes to its memory
    rate: int = 0  # bytes per second that are copied
    throttle_percent: int = 0
    pause_ms: int = 0  # of the guest at the switch-over: expected; at the end: measured
    elapsed_s: float = 0.0
    trouble: str = ""
