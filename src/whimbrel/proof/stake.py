"""All that there is of one server, or of a name under which something is held, as it was read: what the laws judge."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from whimbrel.domain.guest import Guest, GuestKey
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, HostName, RunId, ServerId
from whimbrel.domain.pci import HeldDevice
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.directory import Entry
from whimbrel.ports.images import Image
from whimbrel.ports.network import Binding, Port
from whimbrel.ports.pages import Hold
from whimbrel.ports.volumes import Attachment
from whimbrel.proof.due import Claims, Roots

Seen = tuple[HostName, Guest]


class Ground(msgspec.Struct, kw_only=True, dict=True):
    """What all servers stand on: hosts, and the providers of Placement by their trees. silent: who did not answer."""

    hosts: Mapping[HostName, Host]
    roots: Roots
    names: Mapping[str, str] = {}  # of providers
    zones: Mapping[HostName, str] = {}  # in which each host is: ids
    default_zone: str = ""  # of hosts that no aggregate puts into one
    silent: Mapping[HostName, str] = {}  # hosts whose guests could not be seen, and why

    def root(self, host: HostName | None) -> str:
        """Give the root provider of a host, "" of one that is not known."""
        return self.hosts[host].id if host and host in self.hosts else ""

    def in_words(self, claims: Claims) -> list[str]:
        """Say what is held of which provider."""
        return [
            f"{self.names.get(provider, provider)}: " + ", ".join(f"{name} {n}" for name, n in sorted(amounts.items()))
            for provider, amounts in sorted(claims)
        ]


class Stake(msgspec.Struct, kw_only=True, dict=True):
    """What was read under one id. With no entry, or a deleted one, nothing is to be there."""

    id: ServerId
    entry: Entry | None = None
    records: Mapping[CellName, Server] = {}  # those that are not deleted, by the cell that has them
    holds: Mapping[CellName, Hold] = {}  # how these records are held
    runs: tuple[Run, ...] = ()  # that are not over; the parked one first
    own: Claims = []
    of_runs: Mapping[RunId, Claims] = {}
    guests: tuple[Seen, ...] = ()
    ports: tuple[Port, ...] = ()
    bindings: Mapping[str, tuple[Binding, ...]] = {}  # of ports, by id
    attachments: tuple[Attachment, ...] = ()
    devices: tuple[tuple[HostName, HeldDevice], ...] = ()
    images: tuple[Image, ...] = ()  # without a file yet, that say that they are made of this server
    is_known: bool = True  # whether the directory, a cell or the journal has ever heard of it

    @cached_property
    def is_alive(self) -> bool:
        """Tell whether there is such a server."""
        return self.entry is not None and self.entry.deleted_at is None

    @cached_property
    def record(self) -> Server | None:
        """Give the record that counts: where the directory points."""
        if self.entry is None or self.entry.deleted_at is not None:
            return None
        return self.entry.unplaced or (self.records.get(self.entry.cell) if self.entry.cell else None)

    @cached_property
    def is_settled(self) -> bool:
        """Tell whether nothing is under way: all must be exactly as the record says, where there is one."""
        return self.record is not None and not self.runs

    @cached_property
    def home(self) -> Server | None:
        """Give the record of a settled server that lives somewhere."""
        record = self.record if self.is_settled else None
        return record if record and record.host else None

    @cached_property
    def is_nobody(self) -> bool:
        """Tell whether nothing of it is to be anywhere: no such server, and nothing under way.

        Of one that only the directory has lost, all that is wrong is that.
        """
        return not self.is_alive and not self.runs and not (self.entry is None and self.records)

    @cached_property
    def move(self) -> Run | None:
        """Give the move, or the creation, that is under way."""
        return next((run for run in self.runs if isinstance(run.facts, MoveFacts)), None)

    @cached_property
    def key(self) -> GuestKey | None:
        """Give the name of the guest that the record says."""
        return GuestKey(self.id, self.record.slot) if self.record and self.record.slot else None

    def guest(self, host: HostName | None, key: GuestKey | None) -> Guest | None:
        return next((guest for at, guest in self.guests if at == host and guest.key == key), None)

    def strays(self) -> Iterator[Seen]:
        """Yield the guests that are not the one that the record says."""
        host = self.record.host if self.record else None
        for at, guest in self.guests:
            if (at, guest.key) != (host, self.key):
                yield at, guest

    @property
    def standing(self) -> Any:
        """Give what is the same as long as nobody has done anything with it: runs with their steps, and records."""
        return (
            tuple((run.id, run.epoch, run.at, run.way, run.state) for run in self.runs),
            tuple(sorted((cell, record.generation) for cell, record in self.records.items())),
            (self.entry.cell, self.entry.deleted_at, self.entry.unplaced is None) if self.entry else None,
        )


def shown(seen: Seen) -> dict[str, Any]:
    """Give a guest as evidence."""
    host, guest = seen
    return {
        "host": host,
        "slot": guest.key.slot,
        "power": guest.power,
        "vcpus": guest.vcpus,
        "memory_mib": guest.memory_mib,
        "has_disk": guest.has_disk,
    }
