"""Where a host keeps its guests: one directory per slot, DIR/guests/<server>/<slot>/.

Law: a slot is what its directory holds. Its `spec.json`: reserved; its `domain.xml`: defined; its `disk.qcow2`: a whole
root disk, which needs no other file; its `ephemeral.qcow2` and `swap.qcow2`: those disks, likewise. A slot that was
removed has left its place in one rename.
"""

import os
import re
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import msgspec

from whimbrel.adapters.qemu import durable_files
from whimbrel.adapters.qemu.durable_files import PART, Owner
from whimbrel.domain import local_disks
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import DiskName, GuestKey, GuestSpec
from whimbrel.domain.ids import ServerId, Slot

CONSOLE_KEPT_BYTES = 1 << 20

_FILES: dict[DiskName, str] = {"root": "disk"}

SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def safe_name(name: str) -> str:
    """Give the name back if it can be a file's. Raises: Refused."""
    if not SAFE_NAME.fullmatch(name):
        raise Refused(f"not a name for a file: {name!r}")
    return name


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
    def disk(self) -> Path:
        return self.disk_file("root")

    def disk_file(self, name: DiskName) -> Path:
        return self.path / f"{_FILES.get(name, name)}.qcow2"

    def disk_part(self, name: DiskName) -> Path:
        """Give the file that becomes this disk."""
        return self.part(_FILES.get(name, name))

    def whole_disks(self, spec: GuestSpec) -> tuple[DiskName, ...]:
        """List the disks that are here of those that `spec` says."""
        return tuple(name for name in local_disks.names_of(spec) if self.disk_file(name).exists())

    def check_disks(self, spec: GuestSpec) -> None:
        """Raises: NotFound: a disk is not here."""
        here = self.whole_disks(spec)
        for name in local_disks.names_of(spec):
            if name not in here:
                raise NotFound(f"guest {self.key.slot} of server {self.key.server} has no {name} disk here")

    @property
    def console(self) -> Path:
        return self.path / "console.log"

    def keys(self, name: DiskName) -> Path:
        """Where the key of a disk's export lies."""
        return self.path / ("export" if name == "root" else f"export-{name}")

    def part(self, name: str) -> Path:
        """Give the name of a file that is being made."""
        return self.path / (name + PART)

    def read_spec(self) -> GuestSpec | None:
        """Give what was reserved here; None: nothing."""
        try:
            return msgspec.json.decode(self.spec.read_bytes(), type=GuestSpec)
        except FileNotFoundError:
            return None

    def write_spec(self, spec: GuestSpec) -> None:
        content = msgspec.json.format(msgspec.json.encode(spec))
        durable_files.make_directory(self.path, self.owner)
        durable_files.write(self.spec, content, self.owner)

    def write_definition(self, xml: str) -> None:
        durable_files.write(self.definition, xml.encode(), self.owner)

    def read_definition(self) -> str | None:
        """Give the domain's XML; None: it is not defined."""
        try:
            return self.definition.read_text()
        except FileNotFoundError:
            return None

    def read_console(self) -> str:
        """Give the end of what the guest wrote on its console."""
        try:
            with self.console.open("rb") as file:
                file.seek(max(0, self.console.stat().st_size - CONSOLE_KEPT_BYTES))
                return file.read().decode(errors="replace")
        except FileNotFoundError:  # it has never run
            return ""

    def remove_parts(self) -> None:
        """Throw away what nobody finished."""
        for part in self.path.glob(f"*{PART}"):
            part.unlink(missing_ok=True)

    def remove_disks(self) -> None:
        for name in get_args(DiskName):
            self.disk_file(name).unlink(missing_ok=True)
        self.remove_parts()


class Slots:
    """All slots of one host."""

    def __init__(self, directory: Path) -> None:
        self._guests = directory / "guests"
        self._trash = directory / "trash"
        self.owner = Owner.of(directory)

    def at(self, key: GuestKey) -> SlotDirectory:
        """Give the place of a slot, whether anything is there or not. Raises: Refused: not a name for a file."""
        return SlotDirectory(key, self._guests / safe_name(key.server) / safe_name(key.slot), self.owner)

    def reserved(self, key: GuestKey) -> SlotDirectory:
        """Give the place of a slot that was reserved: what was destroyed does not come back by a late order.

        Raises: NotFound.
        """
        slot = self.at(key)
        if not slot.spec.exists():
            raise NotFound(f"nothing of guest {key.slot} of server {key.server} is here")
        return slot

    def all(self) -> list[SlotDirectory]:
        """List the slots that are there."""
        return [
            self.at(GuestKey(ServerId(spec.parent.parent.name), Slot(spec.parent.name)))
            for spec in sorted(self._guests.glob("*/*/spec.json"))
        ]

    def remove(self, slot: SlotDirectory) -> None:
        """Take a slot away with all that is in it; fine if it is not there."""
        durable_files.make_directory(self._trash, self.owner)
        if slot.path.exists():
            slot.path.replace(self._trash / str(uuid.uuid4()))
        for removed in self._trash.iterdir():  # with what a killed process did not come to
            shutil.rmtree(removed, ignore_errors=True)
        if slot.path.parent.is_dir() and not os.listdir(slot.path.parent):
            slot.path.parent.rmdir()
