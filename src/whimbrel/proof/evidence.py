"""The evidence about one server, or about one id under which something is held: the input of the invariants."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
"""The sagas that create and delete a server; repairs also run for ids that are not servers."""


class CloudSnapshot(msgspec.Struct, kw_only=True, dict=True):
    """Cloud-wide facts: hosts, and the provider trees of Placement.

    guests: all that were found. unreachable: hosts with guests that could not be read, and the reason.
    unreachable_cells:
    the same for cells and their records.
    """

    hosts: Mapping[HostName, Host]
    roots: Roots
    names: Mapping[str, str] = {}  # provider -> name
    zones: Mapping[HostName, str] = {}  # host -> zone id
    zone_names: Mapping[str, str] = {}
    default_zone: str = ""  # of hosts outside all zone aggregates
    aliases: tuple[PciAlias, ...] = ()  # by which flavors request devices
    guests: Mapping[ServerId, Sequence[Seen]] = {}
    unreachable: Mapping[HostName, str] = {}
    unreachable_cells: Mapping[CellName, str] = {}
    is_held: bool = False  # all runs, until a restore ends

    def root(self, host: HostName | None) -> str:
        """Return the root provider of a host, or "" if the host is unknown."""
        return self.hosts[host].id if host and host in self.hosts else ""

    def zone_name(self, zone: str) -> str:
        """Return the display name. An id without a row predates zone ids and is itself the name."""
        return self.zone_names.get(zone, zone)

    def in_words(self, claims: Claims) -> list[str]:
        """Format claims, one string for each provider."""
        return [
            f"{self.names.get(provider, provider)}: " + ", ".join(f"{name} {n}" for name, n in sorted(amounts.items()))
            for provider, amounts in sorted(claims)
        ]


class UnendedSwap(msgspec.Struct, frozen=True, kw_only=True):
    """A volume under the server is migrated to another one, which is attached too. The guest uses either of them."""

    volume_id: str  # by which record and guest name both
    target_id: str
    is_awaited: bool  # the volume service waits for the report of its end


class FileSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot that the volume service has not got, although the guest writes to its file."""

    volume_id: str
    is_awaited: bool  # the volume service waits for the host's report


class ServerEvidence(msgspec.Struct, kw_only=True, dict=True):
    """What was read under one id. Without an entry, or with a deleted one, nothing else may exist."""

    id: ServerId
    entry: Entry | None = None
    records: Mapping[CellName, Server] = {}  # not deleted, by cell
    holds: Mapping[CellName, Hold] = {}  # locks of these records
    runs: tuple[Run, ...] = ()  # open runs; the parked one first
    own: Claims = []
    owner: Owner | None = None  # of its claims
    is_consumer: bool = True  # whether Placement has a consumer row
    of_runs: Mapping[RunId, Claims] = {}
    guests: tuple[Seen, ...] = ()
    ports: tuple[Port, ...] = ()
    bindings: Mapping[str, tuple[Binding, ...]] = {}  # port id -> bindings
    lost_ports: frozenset[str] = frozenset()  # ports of its guests that the network service does not have
    attachments: tuple[Attachment, ...] = ()
    uses: Mapping[str, VolumeUse] = {}  # of the volumes that its record names
    swaps: Mapping[str, UnendedSwap] = {}  # attachment of the new volume -> swap that no open run carries out
    file_snapshots: Mapping[str, FileSnapshot] = {}  # snapshots that no open run takes and the guest has taken, by id
    lost_merges: Mapping[str, str] = {}  # snapshot of which the host has to merge files, and no open run does -> volume
    devices: tuple[tuple[HostName, HeldDevice], ...] = ()
    images: tuple[Image, ...] = ()  # that wait for its snapshot, carry its disk, or were made when it was shelved
    kept: Mapping[str, str | None] = {}  # images from which it would be restored -> status, None: it is not there
    is_known: bool = True  # whether the directory, a cell or the journal has a row of it
    is_run: bool = False  # the id is that of an open run
    is_ended: bool = False  # the journal has a completed delete
    is_lost: bool = False  # not in the directory; the journal has its creation and no delete
    unknown_lock: RunId | None = None  # a run that locks the record and is not in the journal
    made_for: ProjectId | None = None  # from the journal; read only if the directory has no entry or another project
    left_behind: frozenset[tuple[HostName, Slot]] = frozenset()  # on dead hosts, by evacuations
    uncovered: tuple[Seen, ...] = ()  # for unknown consumers: guests on the claimed hosts without a claim there

    @cached_property
    def is_alive(self) -> bool:
        return self.entry is not None and self.entry.deleted_at is None

    @cached_property
    def record(self) -> Server | None:
        """Return the authoritative record: the one that the directory points to."""
        if self.entry is None or self.entry.deleted_at is not None:
            return None
        return self.entry.unplaced or (self.records.get(self.entry.cell) if self.entry.cell else None)

    @cached_property
    def projects(self) -> frozenset[str]:
        """Return the server's projects according to all sources; two if its record is in dispute."""
        entry = [self.entry.project_id] if self.entry else []
        made_for = [self.made_for] if self.made_for else []
        return frozenset([*entry, *made_for, *(record.project_id for record in self.records.values())])

    @cached_property
    def nics(self) -> frozenset[str]:
        """Return the ids of the ports that its record names."""
        return frozenset(nic.port_id for nic in self.record.nics) if self.record else frozenset()

    @cached_property
    def named_ports(self) -> list[Port]:
        """Return the existing ports that its record names."""
        return [port for port in self.ports if port.id in self.nics]

    @cached_property
    def swapped(self) -> frozenset[str]:
        """Return the recorded volumes of which the guest may use another one."""
        return frozenset(swap.volume_id for swap in self.swaps.values())

    @cached_property
    def is_settled(self) -> bool:
        """Check whether it has a record and no open run: everything must match the record exactly."""
        return self.record is not None and not self.runs

    @cached_property
    def waiting(self) -> Move | None:
        """Return the move that waits for a verdict if it is the only open run and owes no undo: its state is known."""
        if self.record is None or len(self.runs) != 1 or self.runs[0].state != "parked" or self.runs[0].debts:
            return None
        return self.move

    @cached_property
    def is_still(self) -> bool:
        """Check whether no run is working on it: it is settled, or waits for a verdict."""
        return self.is_settled or self.waiting is not None

    @cached_property
    def way_back(self) -> tuple[HostName, GuestKey] | None:
        """Return the location of the guest that a revert would restore."""
        source = self.waiting.facts.source if self.waiting else None
        return (source.host, GuestKey(self.id, source.slot)) if source else None

    def is_explained(self, host: HostName, key: GuestKey) -> bool:
        """Check whether an open run may have a guest with this key on this host, at any of its steps."""
        if self.record is None or any(run.saga in (DELETE, REPAIR) for run in self.runs):
            return True
        sources = [move.facts.source for move in moves_of(self.runs) if move.facts.source]
        known = [(self.record.host, self.record.slot), *((place.host, place.slot) for place in sources)]
        of_targets = [Slot(run.id) for run in self.runs]
        return (host, key.slot) in known or key.slot in of_targets

    @cached_property
    def home(self) -> Server | None:
        """Return the record of a server that has a host and on which no run is working."""
        record = self.record if self.is_still else None
        return record if record and record.host else None

    @cached_property
    def is_unknown(self) -> bool:
        """Check whether nothing may exist for it: no such server and no open run.

        A server that is only missing from the directory does not count: the missing entry is its one violation.
        """
        return not self.is_alive and not self.runs and not self.is_run and not (self.entry is None and self.records)

    @cached_property
    def move(self) -> Move | None:
        """Return the open move or creation."""
        return next(iter(moves_of(self.runs)), None)

    @cached_property
    def key(self) -> GuestKey | None:
        return GuestKey(self.id, self.record.slot) if self.record and self.record.slot else None

    def guest(self, host: HostName | None, key: GuestKey | None) -> Guest | None:
        return next((guest for at, guest in self.guests if at == host and guest.key == key), None)

    def orphans(self) -> Iterator[Seen]:
        """Yield the guests that the record does not name, without those that wait to be cleared."""
        host = self.record.host if self.record else None
        for at, guest in self.guests:
            if (at, guest.key) != (host, self.key) and not self.is_left_behind(at, guest):
                yield at, guest

    def is_left_behind(self, host: HostName, guest: Guest) -> bool:
        """Check whether an evacuation left this guest on a dead host, off. It is destroyed when that returns."""
        return (host, guest.key.slot) in self.left_behind and guest.power == "stopped"

    @property
    def state_key(self) -> Any:
        """Return a value that changes with every change to the server: steps of its runs, record generations, entry."""
        return (
            tuple((run.id, run.epoch, run.at, run.way, run.state) for run in self.runs),
            tuple(sorted((cell, record.generation) for cell, record in self.records.items())),
            (self.entry.cell, self.entry.deleted_at, self.entry.unplaced is None) if self.entry else None,
        )


def hosts_of_transfers(runs: Iterable[Run]) -> dict[ServerId, frozenset[HostName]]:
    """Return server -> the two hosts between which an open live migration may transfer it now."""
    return {
        move.subject: frozenset((move.facts.source.host, move.facts.target.host))
        for move in moves_of(runs)
        if move.facts.live and move.facts.source and move.facts.target and not move.is_over
    }


def shown(seen: Seen) -> dict[str, Any]:
    host, guest = seen
    return {
        "host": host,
        "slot": guest.key.slot,
        "power": guest.power,
        "vcpus": guest.vcpus,
        "memory_mib": guest.memory_mib,
        "has_disk": guest.has_disk,
    }
