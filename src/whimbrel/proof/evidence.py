"""All that there is of one server, or of a name under which something is held, as it was read: what the laws judge."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from whimbrel.domain.guest import Guest, GuestKey
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, HostName, ProjectId, RunId, ServerId, Slot
from whimbrel.domain.pci import HeldDevice, PciAlias
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.facts import Move, moves_of
from whimbrel.ports.placement.placement import Owner
from whimbrel.ports.services.images import Image
from whimbrel.ports.services.network import Binding, Port
from whimbrel.ports.services.volumes import Attachment, VolumeUse
from whimbrel.ports.stores.directory import Entry
from whimbrel.ports.stores.pages import Hold
from whimbrel.proof.due_allocations import Claims, Roots

Seen = tuple[HostName, Guest]

CREATE, DELETE, REPAIR = "create", "delete", "repair"
"""The sagas by which a server begins and ends, and what is done also under ids that are no server's."""


class CloudSnapshot(msgspec.Struct, kw_only=True, dict=True):
    """What all servers stand on: hosts, and the providers of Placement by their trees.

    guests: all that were seen. silent: hosts whose guests could not be seen, and why. blind: the same of cells, whose
    records nobody saw.
    """

    hosts: Mapping[HostName, Host]
    roots: Roots
    names: Mapping[str, str] = {}  # of providers
    zones: Mapping[HostName, str] = {}  # in which each host is: ids
    zone_names: Mapping[str, str] = {}
    default_zone: str = ""  # of hosts that no aggregate puts into one
    aliases: tuple[PciAlias, ...] = ()  # by which flavors ask for devices
    guests: Mapping[ServerId, Sequence[Seen]] = {}
    unreachable: Mapping[HostName, str] = {}
    unreachable_cells: Mapping[CellName, str] = {}

    def root(self, host: HostName | None) -> str:
        """Give the root provider of a host, "" of one that is not known."""
        return self.hosts[host].id if host and host in self.hosts else ""

    def zone_name(self, zone: str) -> str:
        """Give the name for people to see. An id without a row is from before zones had ids: it was the name."""
        return self.zone_names.get(zone, zone)

    def in_words(self, claims: Claims) -> list[str]:
        """Say what is held of which provider."""
        return [
            f"{self.names.get(provider, provider)}: " + ", ".join(f"{name} {n}" for name, n in sorted(amounts.items()))
            for provider, amounts in sorted(claims)
        ]


class ServerEvidence(msgspec.Struct, kw_only=True, dict=True):
    """What was read under one id. With no entry, or a deleted one, nothing is to be there."""

    id: ServerId
    entry: Entry | None = None
    records: Mapping[CellName, Server] = {}  # those that are not deleted, by the cell that has them
    holds: Mapping[CellName, Hold] = {}  # how these records are held
    runs: tuple[Run, ...] = ()  # that are not over; the parked one first
    own: Claims = []
    owner: Owner | None = None  # of what it holds
    is_consumer: bool = True  # whether Placement knows who it is
    of_runs: Mapping[RunId, Claims] = {}
    guests: tuple[Seen, ...] = ()
    ports: tuple[Port, ...] = ()
    bindings: Mapping[str, tuple[Binding, ...]] = {}  # of ports, by id
    attachments: tuple[Attachment, ...] = ()
    uses: Mapping[str, VolumeUse] = {}  # of the volumes that its record names
    devices: tuple[tuple[HostName, HeldDevice], ...] = ()
    images: tuple[Image, ...] = ()  # that wait for a file of it, or carry its disk
    is_known: bool = True  # whether the directory, a cell or the journal has ever heard of it
    is_run: bool = False  # it is the id of something under way, which holds what is held under it
    is_ended: bool = False  # the journal knows that it was deleted
    is_lost: bool = False  # the directory does not know it, and the journal knows that it was made and not deleted
    unknown_lock: RunId | None = None  # a run that locks its record, and is not in the journal
    made_for: ProjectId | None = None  # by the journal; read only where the directory has no entry, or another project
    uncovered: tuple[Seen, ...] = ()  # guests where it holds something, and is no server, that hold nothing there

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
    def projects(self) -> frozenset[str]:
        """Return the projects of which it is, as far as anything says so: two where its record is in dispute."""
        entry = [self.entry.project_id] if self.entry else []
        made_for = [self.made_for] if self.made_for else []
        return frozenset([*entry, *made_for, *(record.project_id for record in self.records.values())])

    @cached_property
    def nics(self) -> frozenset[str]:
        """Give the ports that its record names."""
        return frozenset(nic.port_id for nic in self.record.nics) if self.record else frozenset()

    @cached_property
    def named_ports(self) -> list[Port]:
        """List the ports that its record names, as far as they are there."""
        return [port for port in self.ports if port.id in self.nics]

    @cached_property
    def is_settled(self) -> bool:
        """Tell whether nothing is under way: all must be exactly as the record says, where there is one."""
        return self.record is not None and not self.runs

    @cached_property
    def waiting(self) -> Move | None:
        """Give the move that waits for a verdict while nothing else is done: what there is of it is known exactly."""
        if self.record is None or len(self.runs) != 1 or self.runs[0].state != "parked" or self.runs[0].debts:
            return None
        return self.move

    @cached_property
    def is_still(self) -> bool:
        """Tell whether nothing is done with it: it is settled, or waits for a verdict."""
        return self.is_settled or self.waiting is not None

    @cached_property
    def way_back(self) -> tuple[HostName, GuestKey] | None:
        """Give where the guest is that a revert would bring back."""
        source = self.waiting.facts.source if self.waiting else None
        return (source.host, GuestKey(self.id, source.slot)) if source else None

    def is_explained(self, host: HostName, key: GuestKey) -> bool:
        """Tell whether what is under way may have a guest of this name there, whichever of its steps it is at."""
        if self.record is None or any(run.saga in (DELETE, REPAIR) for run in self.runs):
            return True
        sources = [move.facts.source for move in moves_of(self.runs) if move.facts.source]
        known = [(self.record.host, self.record.slot), *((place.host, place.slot) for place in sources)]
        of_targets = [Slot(run.id) for run in self.runs]
        return (host, key.slot) in known or key.slot in of_targets

    @cached_property
    def home(self) -> Server | None:
        """Give the record of a server that lives somewhere, if nothing is done with it."""
        record = self.record if self.is_still else None
        return record if record and record.host else None

    @cached_property
    def is_nobody(self) -> bool:
        """Tell whether nothing of it is to be anywhere: no such server, and nothing under way.

        Of one that only the directory has lost, all that is wrong is that.
        """
        return not self.is_alive and not self.runs and not self.is_run and not (self.entry is None and self.records)

    @cached_property
    def move(self) -> Move | None:
        """Give the move, or the creation, that is under way."""
        return next(iter(moves_of(self.runs)), None)

    @cached_property
    def key(self) -> GuestKey | None:
        """Give the name of the guest that the record says."""
        return GuestKey(self.id, self.record.slot) if self.record and self.record.slot else None

    def guest(self, host: HostName | None, key: GuestKey | None) -> Guest | None:
        return next((guest for at, guest in self.guests if at == host and guest.key == key), None)

    def orphans(self) -> Iterator[Seen]:
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
