"""What a server has besides its guest: network interfaces and volumes, as its record and its guest know them."""

from collections.abc import Collection, Iterator
from itertools import chain, product
from string import ascii_lowercase
from typing import Any

import msgspec


class FixedIp(msgspec.Struct, frozen=True):
    address: str  # without a prefix length
    subnet_id: str


class Nic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server's port, as the server's record keeps it. The order of a server's nics is the guest's order."""

    port_id: str
    network_id: str
    label: str  # the network's name, under which the compute API shows the addresses
    mac: str
    addresses: tuple[FixedIp, ...] = ()
    vnic_type: str = "normal"
    tag: str | None = None
    is_ours: bool = False  # made for this server, and deleted with it; else it is its owner's, and only let go


class BlockDevice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A volume of a server, as the server's record keeps it."""

    id: str  # the block device's own uuid, bdm_uuid of the compute API
    volume_id: str
    attachment_id: str  # by which the server uses it
    host: str  # from where: the host that the attachment is for
    device: str  # "/dev/vdb"
    boot_index: int | None = None  # 0: the guest boots from it
    delete_on_termination: bool = False
    tag: str | None = None


class RequestedNic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A nic that a server is to be made with. A port that is there, or one to be made on a network."""

    network_id: str | None = None  # known for a port too, once it was looked up
    port_id: str | None = None
    fixed_ip: str | None = None
    tag: str | None = None


class RequestedVolume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A volume that a server is to be made with. One that is there, or one to be made of one source or of none."""

    volume_id: str | None = None
    snapshot_id: str | None = None
    image_id: str | None = None
    is_blank: bool = False
    size_gib: int | None = None  # of the one to be made; None: as large as its source
    volume_type: str | None = None
    boot_index: int | None = None  # 0: the guest boots from it; None: it never does
    device: str | None = None  # "/dev/vdb"; None: the next free name
    delete_on_termination: bool = False
    tag: str | None = None


class GuestNic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A nic as a hypervisor plugs it."""

    port_id: str
    mac: str
    vif_type: str  # as the network service bound it: "ovs" | "bridge" | "tap" | "hw_veb" ...
    vif_details: dict[str, Any] = {}
    network_id: str = ""
    mtu: int | None = None
    pci_address: str | None = None  # of the virtual function that was claimed, for vnic_type direct


class GuestVolume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A volume as a hypervisor reaches it; connection: what the volume service gave for this host, secrets in it."""

    volume_id: str
    attachment_id: str
    device: str  # "/dev/vdb"
    connection: dict[str, Any] = {}  # {"driver_volume_type": ..., "data": {...}}
    boot_index: int | None = None
    read_only: bool = False


def free_disk_names(taken: Collection[str]) -> Iterator[str]:
    """Yield the names of disks that are not taken, in the guest's order: /dev/vda ... /dev/vdz, /dev/vdaa ..."""
    for letters in chain(ascii_lowercase, map("".join, product(ascii_lowercase, repeat=2))):
        if (name := f"/dev/vd{letters}") not in taken:
            yield name
