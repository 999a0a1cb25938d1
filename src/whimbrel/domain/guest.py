"""A guest: what runs on a hypervisor for a server."""

from typing import Literal

import msgspec

from whimbrel.domain.devices import GuestNic, GuestVolume
from whimbrel.domain.ids import ProjectId, RunId, ServerId, Slot
from whimbrel.domain.numa import NumaNode

DiskName = Literal["root", "ephemeral", "swap"]
"""The disks that a guest has of its host, see `domain.local_disks`."""

NAME_PREFIX = "whimbrel-"


def instance_name(server: ServerId) -> str:
    """Give the name by which a hypervisor knows the guest of a server."""
    return NAME_PREFIX + server


class Order(msgspec.Struct, frozen=True):
    """Who orders: a run and its epoch. A door that changes something refuses an epoch older than the newest seen."""

    run: RunId
    epoch: int


class GuestKey(msgspec.Struct, frozen=True):
    """Names one guest on a host. During a resize on one host both slots of a server are there; at most one runs."""

    server: ServerId
    slot: Slot


class GuestSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a guest is made of."""

    key: GuestKey
    name: str
    vcpus: int
    memory_mib: int
    root_gib: int  # 0: as large as the image
    image_id: str | None
    project_id: ProjectId
    metadata: dict[str, str] = {}
    user_data: str | None = None
    nics: tuple[GuestNic, ...] = ()
    volumes: tuple[GuestVolume, ...] = ()
    has_local_root: bool = True  # False: it boots from the volume with boot_index 0 and has no root disk of its own
    ephemeral_gib: int = 0  # 0: it has no such disk
    swap_mib: int = 0
    pci: tuple[str, ...] = ()  # addresses of the host's devices that it is given whole, besides those of its nics


class Guest(msgspec.Struct, frozen=True, kw_only=True):
    """A guest as the hypervisor sees it now. reserved: room and name are taken, nothing is defined yet."""

    key: GuestKey
    power: Literal["reserved", "running", "stopped"]
    vcpus: int
    memory_mib: int
    root_gib: int
    has_disk: bool  # all its disks are here, whole; of one that has none: it is defined
    ports: tuple[str, ...] = ()  # what is plugged, by port id
    volumes: tuple[str, ...] = ()  # what is attached, by volume id
    pci: tuple[str, ...] = ()  # which of the host's devices it holds, by address, those of its nics too
    disks: tuple[DiskName, ...] = ()  # which are here, whole


class DiskExport(msgspec.Struct, frozen=True, kw_only=True):
    """How another host of the same cell reads a disk while its guest is stopped."""

    scheme: str  # "simulated" | "nbd" | "file"
    location: str  # what the reading driver needs, e.g. an NBD URL
    size_bytes: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a long order is. A failed job is reported once as Refused or Unavailable by the agent instead."""

    finished: bool
    percent: int = 0
    result: dict[str, str] = {}


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """What a hypervisor has to give and what it is."""

    vcpus: int
    memory_mib: int
    disk_gib: int
    hypervisor_type: str
    hypervisor_version: int
    cpu_info: str = "{}"
    numa: tuple[NumaNode, ...] = ()  # none: it is not known
