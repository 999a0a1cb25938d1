"""Network interfaces and volumes of a server, in its record and in its guest."""

from collections.abc import Collection, Iterator
from itertools import chain, product
from string import ascii_lowercase
from typing import Any

import msgspec

from whimbrel.domain.guest_hardware import DeviceType, DiskBus


class FixedIp(msgspec.Struct, frozen=True):
    address: str  # without a prefix length
    subnet_id: str


class FloatingAddress(msgspec.Struct, frozen=True):
    """An address of an external network, which the network service translates to a fixed one."""

    address: str
    fixed_address: str


class Nic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server's port in the server's record. The order of nics is the order in the guest."""

    port_id: str
    network_id: str
    label: str  # network name, the key of the addresses in the compute API
    mac: str
    addresses: tuple[FixedIp, ...] = ()
    floating: tuple[FloatingAddress, ...] = ()
    vnic_type: str = "normal"
    tag: str | None = None
    is_ours: bool = False  # made for and deleted with this server; else only released


class BlockDevice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A volume in a server's record."""

    id: str  # the block device's own uuid, bdm_uuid of the compute API
    volume_id: str
    attachment_id: str  # the server's attachment
    host: str  # the host of the attachment; "": it only reserves the volume for a server without a host
    device: str  # "/dev/vdb"
    boot_index: int | None = None  # 0: the guest boots from it
    delete_on_termination: bool = False
    tag: str | None = None
    bus: DiskBus | None = None  # as requested; None: that of the guest's disks
    device_type: DeviceType = "disk"


class RequestedNic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A requested nic: an existing port, or a port to be made on a network."""

    network_id: str | None = None  # for a port: set once it was looked up
    port_id: str | None = None
    fixed_ip: str | None = None
    tag: str | None = None


class RequestedVolume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A requested volume: an existing one, or one to be made, with at most one source."""

    volume_id: str | None = None
    snapshot_id: str | None = None
    image_id: str | None = None
    is_blank: bool = False
    size_gib: int | None = None  # of a volume to be made; None: size of its source
    volume_type: str | None = None
    boot_index: int | None = None  # 0: boot volume; None: never booted from
    device: str | None = None  # "/dev/vdb"; None: the next free name
    delete_on_termination: bool = False
    tag: str | None = None
    bus: DiskBus | None = None  # None: that of the guest's disks
    device_type: DeviceType = "disk"


TAP_NAME_LENGTH = 14
"""The length to which Nova and Neutron cut the name of a tap device."""


def tap_name(port_id: str) -> str:
    """Return the name of a port's tap device, by which Nova and Neutron know it."""
    return f"tap{port_id}"[:TAP_NAME_LENGTH]


class GuestNic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A nic for a hypervisor to plug."""

    port_id: str
    mac: str
    vif_type: str  # from the port's binding: "ovs" | "bridge" | "tap" | "hw_veb" ...
    vif_details: dict[str, Any] = {}
    network_id: str = ""
    mtu: int | None = None
    pci_address: str | None = None  # of the claimed virtual function, for vnic_type direct


class GuestVolume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A volume for a hypervisor to attach. connection: from the volume service for this host; contains secrets."""

    volume_id: str
    attachment_id: str
    device: str  # "/dev/vdb"
    connection: dict[str, Any] = {}  # {"driver_volume_type": ..., "data": {...}}
    boot_index: int | None = None
    read_only: bool = False
    bus: DiskBus | None = None  # None: that of the guest's disks
    device_type: DeviceType = "disk"


def free_disk_names(taken: Collection[str]) -> Iterator[str]:
    """Yield free device names, in the guest's order: /dev/vda ... /dev/vdz, /dev/vdaa ..."""
    for letters in chain(ascii_lowercase, map("".join, product(ascii_lowercase, repeat=2))):
        if (name := f"/dev/vd{letters}") not in taken:
            yield name
