"""Storage of a host's guests: one directory per slot, DIR/guests/<server>/<slot>/.

Invariant: the files of the directory are the state of the slot. `spec.json`: reserved; `domain.xml`: defined;
`disk.qcow2`: a complete root disk without a backing file; `ephemeral.qcow2` and `swap.qcow2`: the same for those disks.
`config.iso`: its config drive; `nvram.fd`: its variables of UEFI. `incoming.xml`: it waits for a live transfer, which
completes its disks;
`departure.json`: the guest leaves, or has left, by a live transfer; `memory.save`: it is suspended; `rescue.json`: it
has a rescue disk, `rescue.qcow2`; `copy.json`: a volume of it is, or was, copied to another one. A slot
is removed by one rename.
"""

import os
import re
import shutil
import threading
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import msgspec
from msgspec.structs import replace

from whimbrel.adapters.libvirt.departure import Departure
from whimbrel.adapters.qemu import durable_files
from whimbrel.adapters.qemu.durable_files import PART, Owner
from whimbrel.domain import local_disks
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import DiskName, GuestKey, GuestSpec
from whimbrel.domain.ids import ServerId, Slot
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.ports.disk_sync import sync

CONSOLE_KEPT_BYTES = 1 << 20

SAVED = b"LibvirtQemudSave"
"""The first bytes of a complete file of a guest's memory. libvirt writes others first, and replaces them at the end."""

_updating = threading.Lock()

_FILES: dict[DiskName, str] = {"root": "disk"}

SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def safe_name(name: str) -> str:
    """Return the name if it is valid as a file name. Raises: Refused."""
    if not SAFE_NAME.fullmatch(name):
        raise Refused(f"not a name for a file: {name!r}")
    return name


class Rescue(msgspec.Struct, frozen=True):
    """The complete rescue disk of a slot. is_used: whether the guest boots from it."""

    disk: RescueDisk
    is_used: bool = False


class VolumeCopy(msgspec.Struct, frozen=True):
    """The copy of a volume, written before it begins. A guest whose disk is at `place` uses its target."""

    attachment_id: str  # of the target
    place: str  # the source of the target's disk, see block_copies


@dataclass(frozen=True)
class SlotDirectory:
    """The files of one slot."""

    key: GuestKey
    path: Path
    owner: Owner | None

    @property
    def spec(self) -> Path:
        return self.path / "spec.json"

    @property
    def definition(self) -> Path:
        return self.path / "domain.xml"

    @property
    def incoming(self) -> Path:
        """Return the path of the definition of a guest that waits for a live transfer."""
        return self.path / "incoming.xml"

    def write_incoming(self, xml: str) -> None:
        durable_files.write(self.incoming, xml.encode(), self.owner)

    def adopt(self) -> None:
        """Make the definition of an incoming guest the slot's own."""
        durable_files.finish(self.incoming, self.definition)

    @property
    def departure(self) -> Path:
        return self.path / "departure.json"

    def read_departure(self) -> Departure | None:
        """Return the last live transfer from here; None: there was none, or it was ended."""
        return durable_files.read(self.departure, Departure)

    def write_departure(self, departure: Departure) -> None:
        durable_files.write(self.departure, departure.encode(), self.owner)

    def update_departure(self, change: Callable[[Departure], Departure]) -> None:
        """Change what is recorded of a live transfer, in one thread at a time."""
        with _updating:
            if departure := self.read_departure():
                self.write_departure(change(departure))

    @property
    def memory(self) -> Path:
        """Return the path of the memory of a suspended guest."""
        return self.path / "memory.save"

    def has_memory(self) -> bool:
        """Check whether the memory of the guest is kept, as a whole."""
        try:
            with self.memory.open("rb") as file:
                return file.read(len(SAVED)) == SAVED
        except FileNotFoundError:
            return False

    def sync_memory(self) -> None:
        sync(self.memory)
        sync(self.path)

    def remove_memory(self) -> None:
        """Delete the memory durably. Idempotent."""
        if self.memory.exists():
            self.memory.unlink(missing_ok=True)
            sync(self.path)

    @property
    def rescue_disk(self) -> Path:
        return self.path / "rescue.qcow2"

    @property
    def rescue(self) -> Path:
        return self.path / "rescue.json"

    def read_rescue(self) -> Rescue | None:
        return durable_files.read(self.rescue, Rescue)

    def write_rescue(self, rescue: Rescue) -> None:
        durable_files.write(self.rescue, msgspec.json.encode(rescue), self.owner)

    def remove_rescue(self) -> None:
        """Delete the rescue disk. Idempotent."""
        self.rescue.unlink(missing_ok=True)
        self.rescue_disk.unlink(missing_ok=True)

    @property
    def copy(self) -> Path:
        return self.path / "copy.json"

    def read_copy(self) -> VolumeCopy | None:
        return durable_files.read(self.copy, VolumeCopy)

    def write_copy(self, copy: VolumeCopy) -> None:
        durable_files.write(self.copy, msgspec.json.encode(copy), self.owner)

    def disk_file(self, name: DiskName) -> Path:
        return self.path / f"{_FILES.get(name, name)}.qcow2"

    def disk_part(self, name: DiskName) -> Path:
        """Return the part file of this disk."""
        return self.part(_FILES.get(name, name))

    def whole_disks(self, spec: GuestSpec) -> tuple[DiskName, ...]:
        """Return those disks of `spec` that exist."""
        return tuple(name for name in local_disks.names_of(spec) if self.disk_file(name).exists())

    def check_disks(self, spec: GuestSpec) -> None:
        """Raises: NotFound: a disk is missing."""
        here = self.whole_disks(spec)
        for name in local_disks.names_of(spec):
            if name not in here:
                raise NotFound(f"guest {self.key.slot} of server {self.key.server} has no {name} disk here")

    @property
    def config_drive(self) -> Path:
        return self.path / "config.iso"

    @property
    def nvram(self) -> Path:
        """Return the path of the variables of UEFI."""
        return self.path / "nvram.fd"

    def read_variables(self) -> bytes:
        """Return the variables of UEFI, compressed; b"": there are none."""
        try:
            return zlib.compress(self.nvram.read_bytes())
        except FileNotFoundError:
            return b""

    def take_variables(self, spec: GuestSpec) -> GuestSpec:
        """Store the variables of UEFI with which a guest comes, unless it has its own; return the spec without them."""
        if spec.firmware_variables and not self.nvram.exists():
            durable_files.write(self.nvram, zlib.decompress(spec.firmware_variables), self.owner)
        return replace(spec, firmware_variables=b"")

    @property
    def console(self) -> Path:
        return self.path / "console.log"

    def keys(self, name: DiskName) -> Path:
        """Return the directory of the key of a disk's export."""
        return self.path / ("export" if name == "root" else f"export-{name}")

    def part(self, name: str) -> Path:
        """Return the path of a file in progress."""
        return self.path / (name + PART)

    def read_spec(self) -> GuestSpec | None:
        """Return the reserved spec; None: nothing is reserved."""
        return durable_files.read(self.spec, GuestSpec)

    def read_defined_spec(self) -> GuestSpec:
        """Return the spec of a defined guest. Raises: NotFound."""
        spec = self.read_spec()
        if spec is None or not self.definition.exists():
            raise NotFound(f"no guest {self.key.slot} of server {self.key.server} is defined here")
        return spec

    def write_spec(self, spec: GuestSpec) -> None:
        content = msgspec.json.format(msgspec.json.encode(spec))
        durable_files.make_directory(self.path, self.owner)
        durable_files.write(self.spec, content, self.owner)

    def write_definition(self, xml: str) -> None:
        durable_files.write(self.definition, xml.encode(), self.owner)

    def read_definition(self) -> str | None:
        """Return the domain's XML; None: it is not defined."""
        try:
            return self.definition.read_text()
        except FileNotFoundError:
            return None

    def read_console(self) -> str:
        """Return the end of the guest's console log."""
        try:
            with self.console.open("rb") as file:
                file.seek(max(0, self.console.stat().st_size - CONSOLE_KEPT_BYTES))
                return file.read().decode(errors="replace")
        except FileNotFoundError:  # it has never run
            return ""

    def remove_parts(self) -> None:
        """Delete unfinished files."""
        for part in self.path.glob(f"*{PART}"):
            part.unlink(missing_ok=True)

    def remove_disks(self) -> None:
        for name in get_args(DiskName):
            self.disk_file(name).unlink(missing_ok=True)
        self.remove_parts()


class Slots:
    def __init__(self, directory: Path) -> None:
        self._guests = directory / "guests"
        self._trash = directory / "trash"
        self.owner = Owner.of(directory)

    def at(self, key: GuestKey) -> SlotDirectory:
        """Return the directory of a slot, whether it exists or not. Raises: Refused: not a valid file name."""
        return SlotDirectory(key, self._guests / safe_name(key.server) / safe_name(key.slot), self.owner)

    def reserved(self, key: GuestKey) -> SlotDirectory:
        """Return the directory of a reserved slot, so that a stale order cannot recreate a destroyed one.

        Raises: NotFound.
        """
        slot = self.at(key)
        if not slot.spec.exists():
            raise NotFound(f"nothing of guest {key.slot} of server {key.server} is here")
        return slot

    def all(self) -> list[SlotDirectory]:
        """Return the existing slots."""
        return [
            self.at(GuestKey(ServerId(spec.parent.parent.name), Slot(spec.parent.name)))
            for spec in sorted(self._guests.glob("*/*/spec.json"))
        ]

    def of(self, server: ServerId) -> list[SlotDirectory]:
        """Return the existing slots of a server."""
        specs = sorted((self._guests / safe_name(server)).glob("*/spec.json"))
        return [self.at(GuestKey(server, Slot(spec.parent.name))) for spec in specs]

    def remove(self, slot: SlotDirectory) -> None:
        """Remove a slot with all its files. Idempotent."""
        durable_files.make_directory(self._trash, self.owner)
        if slot.path.exists():
            slot.path.replace(self._trash / str(uuid.uuid4()))
        for removed in self._trash.iterdir():  # including leftovers of a killed process
            shutil.rmtree(removed, ignore_errors=True)
        if slot.path.parent.is_dir() and not os.listdir(slot.path.parent):
            slot.path.parent.rmdir()
