"""A guest of a simulated host as a value: its spec, its disks and devices, and the effect of a boot."""

from collections.abc import Mapping
from functools import cached_property
from typing import Literal, cast

import msgspec
from msgspec.structs import replace

from whimbrel.domain import device_assignment, local_disks
from whimbrel.domain.errors import NotFound
from whimbrel.domain.guest import LIVE, DiskName, Guest, GuestKey, GuestSpec, Power
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.domain.live_transfer import GuestCpu, TransferOptions
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.domain.server_devices import GuestVolume
from whimbrel.sim.world.disks import Disk

CONSOLE_LINES = 100


class Sending(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A live transfer as its source stores it. Amounts in bytes, times in seconds since 1970."""

    target: str  # address of the slot that waits for the guest
    options: TransferOptions
    began: float
    at: float  # the time of `remaining`
    remaining: float
    state: Literal["active", "arrived", "failed"] = "active"
    suspended: bool = False  # paused until it has arrived
    power: Power = "running"  # of the guest when it left
    rest_until: float = 0.0  # after a switch to post-copy: until then the target still needs this host
    trouble: str = ""


class SimulatedGuest(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All that a host stores of a guest, as one value. disk: the root disk; others: all other disks.

    memory: what marks the boot to which its memory goes back. comes_from: the address from which it is incoming.
    """

    spec: GuestSpec
    power: Power = "reserved"
    disk: Disk | None = None
    others: dict[DiskName, Disk] = {}
    offered: bool = False
    console: tuple[str, ...] = ()
    memory: str = ""
    cpu: GuestCpu | None = None  # the processor that it sees
    sending: Sending | None = None
    comes_from: str = ""
    rescue: RescueDisk | None = None
    rescue_disk: Disk | None = None
    in_rescue: bool = False
    passwords: dict[str, str] = {}  # user -> password
    extended: dict[str, int] = {}  # volume -> its size in GiB, if it became larger while the guest was live
    chains: dict[str, tuple[str, ...]] = {}  # volume -> its files, from the active one down, if it got some here

    @property
    def is_live(self) -> bool:
        return self.power in LIVE

    @property
    def has_memory(self) -> bool:
        return self.is_live or self.power == "suspended"

    @property
    def has_left(self) -> bool:
        """Check whether a live transfer has taken it to another host for good."""
        return self.sending is not None and self.sending.state == "arrived"

    @property
    def key(self) -> GuestKey:
        return self.spec.key

    @property
    def disks(self) -> dict[DiskName, Disk]:
        """Return all disks, complete or not."""
        root: dict[DiskName, Disk] = {"root": self.disk} if self.disk else {}
        return {**root, **self.others}

    @cached_property
    def observed(self) -> Guest:
        spec, is_defined = self.spec, self.power not in ("reserved", "incoming")
        wanted, lacking = local_disks.names_of(spec), missing(self)
        return Guest(
            key=spec.key,
            power=self.power,
            vcpus=spec.vcpus,
            memory_mib=spec.memory_mib,
            root_gib=spec.root_gib,
            has_disk=not lacking if wanted else is_defined,
            disks=tuple(name for name in wanted if name not in lacking),
            ports=tuple(nic.port_id for nic in spec.nics) if is_defined else (),
            volumes=tuple(volume.volume_id for volume in spec.volumes) if is_defined else (),
            pci=device_assignment.pci_of(spec) if is_defined else (),
            rescue=self.rescue if self.rescue_disk and self.rescue_disk.whole else None,
            in_rescue=self.in_rescue,
            files=tuple(filter(None, map(active_file, spec.volumes))) if is_defined else (),
        )


def variables_of(guest: SimulatedGuest) -> bytes:
    """Return the variables of the guest's UEFI, which it makes where it is defined first."""
    is_made = guest.spec.hardware.firmware == "uefi" and guest.power not in ("reserved", "incoming")
    return guest.spec.firmware_variables or (guest.key.slot.encode() if is_made else b"")


def active_file(volume: GuestVolume) -> str:
    """Return the file to which a guest with this volume writes, or "" if the volume has never had another one."""
    return str(volume.connection.get("data", {}).get("name", ""))


def path_of(key: GuestKey) -> str:
    return f"{key.server}/{key.slot}"


def disk_path(key: GuestKey, name: DiskName) -> str:
    return f"{path_of(key)}/{name}"


def disk_path_at(path: str) -> tuple[GuestKey, DiskName]:
    server, slot, name = path.split("/")
    return GuestKey(ServerId(server), Slot(slot)), cast(DiskName, name)


# Disks


def missing(guest: SimulatedGuest) -> tuple[DiskName, ...]:
    """Return the names of requested disks that do not exist or are incomplete."""
    has = {name for name, disk in guest.disks.items() if disk.whole}
    return tuple(name for name in local_disks.names_of(guest.spec) if name not in has)


def with_disks(guest: SimulatedGuest, disks: Mapping[DiskName, Disk]) -> SimulatedGuest:
    others = {name: disk for name, disk in disks.items() if name != "root"}
    return replace(guest, disk=disks.get("root", guest.disk), others={**guest.others, **others})


def without_disks(guest: SimulatedGuest) -> SimulatedGuest:
    return replace(guest, disk=None, others={}, offered=False)


def whole_disk(guest: SimulatedGuest, name: DiskName = "root") -> Disk:
    disk = guest.disks.get(name)
    if disk is None or not disk.whole:
        raise NotFound(f"guest {path_of(guest.key)} has no whole {name} disk")
    return disk


def check_disks(guest: SimulatedGuest) -> None:
    """Raises: NotFound: a disk does not exist or is incomplete."""
    for name in missing(guest):
        whole_disk(guest, name)


# Boots


def booted(guest: SimulatedGuest, host: HostName, cpu: GuestCpu | None = None) -> SimulatedGuest:
    """Return the guest after a boot: its disks are written to, and its console shows it. cpu: what it sees.

    A guest in rescue writes to its rescue disk only.
    """
    check_disks(guest)
    marker = f"{guest.key.server} on {host}"
    own = {} if guest.in_rescue else guest.disks
    disks = {name: replace(disk, contents=disk.contents.booted(marker)) for name, disk in own.items()}
    rescue_disk = guest.rescue_disk
    if guest.in_rescue and rescue_disk:
        rescue_disk = replace(rescue_disk, contents=rescue_disk.contents.booted(marker))
        said = _said_in_rescue(guest, rescue_disk)
    else:
        said = _said(guest.spec, disks, host)
    lines = (f"starting on {host}", f"{guest.spec.vcpus} vCPUs, {guest.spec.memory_mib} MiB of memory", said)
    # A written disk is no longer offered: a copy of it would be inconsistent.
    changed = replace(
        guest,
        power="running",
        offered=False,
        console=(*guest.console, *(f"{guest.spec.name}: {line}" for line in lines))[-CONSOLE_LINES:],
        memory=marker,
        cpu=cpu,
        sending=None,
        rescue_disk=rescue_disk,
    )
    return with_disks(changed, disks)


def _said_in_rescue(guest: SimulatedGuest, rescue_disk: Disk) -> str:
    own = guest.disk.contents.marker if guest.disk else "a volume"
    contents = rescue_disk.contents
    rescue = f"disk made of {contents.origin}, first booted as {contents.marker}"
    return f"boot {contents.boots}, rescued, beside {own}; {rescue}"


def _said(spec: GuestSpec, disks: Mapping[DiskName, Disk], host: HostName) -> str:
    others = "".join(
        f"; {name} disk of {disk.size_bytes} bytes first used as {disk.contents.marker}"
        for name, disk in disks.items()
        if name != "root"
    )
    if not spec.has_local_root:
        volume = device_assignment.boot_volume(spec)
        assert volume, "checked before"
        return f"boot from volume {volume.volume_id}, now on {host}{others}"
    disk = disks["root"]
    return (
        f"boot {disk.contents.boots}, now on {host}{others}; disk of {disk.size_bytes} bytes"
        f" made of {disk.contents.origin}, first booted as {disk.contents.marker}"
    )
