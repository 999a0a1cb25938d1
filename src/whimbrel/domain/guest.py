"""Guests: what a hypervisor runs for a server."""

import re
from typing import Literal

import msgspec

from whimbrel.domain.config_drive import ConfigDrive
from whimbrel.domain.errors import Behind, Superseded
from whimbrel.domain.guest_hardware import NO_REQUESTS, Hardware
from whimbrel.domain.ids import ProjectId, RunId, ServerId, Slot
from whimbrel.domain.numa import NumaNode
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.domain.server_devices import GuestNic, GuestVolume

DiskName = Literal["root", "ephemeral", "swap"]
"""A guest's local disks, see `domain.local_disks`."""

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

NAME_PREFIX = "whimbrel-"


def instance_name(server: ServerId) -> str:
    """Return the name of a server's guest on a hypervisor."""
    return NAME_PREFIX + server


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """The run that orders, and how current it is. Every store and agent that changes something checks it.

    An order with an older epoch or incarnation than the newest seen is stale and refused. An order with a newer
    epoch but less progress than was seen comes from a journal that is behind: its database was restored.
    """

    run: RunId
    epoch: int
    progress: int = 0  # 1 + steps in the journal's log of the run; 0: an older release does not send it
    incarnation: int = 0  # of the cloud; 0: an older release does not send it

    def check(self, where: str, epoch: int, progress: int) -> None:
        """Compare with the newest order of the run seen `where`. Raises: Superseded: it is older; Behind: see above."""
        if epoch > self.epoch:
            raise Superseded(f"{where} has seen epoch {epoch} of run {self.run}, newer than {self.epoch}")
        if not 0 < self.progress < progress:
            return
        if epoch == self.epoch:
            raise Superseded(f"{where} has seen step {progress} of run {self.run}: step {self.progress} comes late")
        raise Behind(
            f"{where} has carried out step {progress} of run {self.run}, and the journal knows of {self.progress}"
        )


class Obeyed(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a host's ledger: the newest order of a run that its agent has obeyed."""

    run: RunId
    epoch: int
    at: float  # seconds since 1970
    server: ServerId | None = None
    number: int = 0  # sequence number of the entry on the host
    progress: int = 0  # see Order; 0: unknown
    incarnation: int = 0


class Ledger(msgspec.Struct, frozen=True):
    """The orders that the agent of a host has obeyed, the newest first. incarnation: the highest seen."""

    incarnation: int = 0
    entries: tuple[Obeyed, ...] = ()


class GuestKey(msgspec.Struct, frozen=True):
    """The key of a guest on a host. During a resize on one host both slots of a server exist; at most one runs."""

    server: ServerId
    slot: Slot


class GuestSpec(msgspec.Struct, frozen=True, kw_only=True):
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
    has_local_root: bool = True  # False: it boots from the volume with boot_index 0
    ephemeral_gib: int = 0  # 0: no such disk
    swap_mib: int = 0
    pci: tuple[str, ...] = ()  # addresses of passed-through devices, except those of its nics
    config_drive: ConfigDrive | None = None  # None: it has none
    guest_agent: bool = False  # whether it has a channel to QEMU's guest agent
    requires_quiesce: bool = False  # no snapshot while it runs, unless its file systems are frozen
    hardware: Hardware = NO_REQUESTS
    firmware_variables: bytes = b""  # those of UEFI with which it comes here, compressed; b"": none, or it has them


Power = Literal["reserved", "incoming", "running", "paused", "suspended", "stopped"]
"""reserved: room and name are taken, nothing is defined yet. incoming: it waits for a live transfer from another host.

A paused guest has its memory, as a running one has, and counts as running where only one guest may run. A suspended one
is off, and its memory is on a disk of its host.
"""

LIVE: tuple[Power, ...] = ("running", "paused")


class Guest(msgspec.Struct, frozen=True, kw_only=True):
    """A guest as the hypervisor reports it now."""

    key: GuestKey
    power: Power
    vcpus: int
    memory_mib: int
    root_gib: int
    has_disk: bool  # all its disks are complete; for a guest without disks: it is defined
    ports: tuple[str, ...] = ()  # plugged ports, by id
    volumes: tuple[str, ...] = ()  # attached volumes, by id
    pci: tuple[str, ...] = ()  # addresses of its devices, those of its nics included
    disks: tuple[DiskName, ...] = ()  # complete disks
    rescue: RescueDisk | None = None  # its complete rescue disk
    in_rescue: bool = False  # whether it boots from that
    files: tuple[str, ...] = ()  # to which it writes, of volumes that are files of a share, by name

    @property
    def file_snapshots(self) -> list[str]:
        """Return the ids in the names of its files: the volume service names a file by its newest snapshot."""
        return [suffix for name in self.files if _UUID.fullmatch(suffix := name.rpartition(".")[2])]

    @property
    def is_live(self) -> bool:
        """Check whether it has its memory here: it runs or is paused."""
        return self.power in LIVE

    @property
    def has_memory(self) -> bool:
        """Check whether its memory is kept, in the host's memory or on its disk."""
        return self.is_live or self.power == "suspended"


class DiskExport(msgspec.Struct, frozen=True, kw_only=True):
    """How another host of the same cell reads a disk while the guest is stopped."""

    scheme: str  # "simulated" | "nbd" | "file"
    location: str  # what the reading driver needs, e.g. an NBD URL
    size_bytes: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a long order. The agent reports a failed job once, as Refused or Unavailable."""

    finished: bool
    percent: int = 0
    result: dict[str, str] = {}


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    vcpus: int
    memory_mib: int
    disk_gib: int
    hypervisor_type: str
    hypervisor_version: int
    cpu_info: str = "{}"
    numa: tuple[NumaNode, ...] = ()  # empty: unknown
    traits: tuple[str, ...] = ()  # of the hardware that guests can have
