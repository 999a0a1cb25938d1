"""Evidence of each server of a simulated cloud, read at one instant, for the invariants of `proof`.

It adds what only the simulation can see: the hosts that connect to volumes, and the number of active bindings.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import CellName, HostName, RunId, ServerId
from whimbrel.domain.pci import HeldDevice
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.evacuation_facts import left_behind
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.placement import Allocation
from whimbrel.ports.services.network import Binding, Network, Port
from whimbrel.ports.services.volumes import Attachment
from whimbrel.ports.stores.directory import Entry
from whimbrel.ports.stores.pages import Hold
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.proof.due_allocations import Claims
from whimbrel.proof.evidence import ServerEvidence
from whimbrel.proof.invariants.locks import WHOLE

Rows = list[tuple[str, str, str, str | None]]
"""Records of cells: (cell, server, state, id of the run that holds it)."""


class ObservedEvidence(ServerEvidence, kw_only=True, dict=True):
    """connected: host that uses each attachment, for those in use."""

    connected: Mapping[str, str] = {}


class EvidenceCollector:
    """All evidence, by owner id."""

    def __init__(self, servers: Sequence[Server], runs: Iterable[Run]) -> None:
        self._servers = {server.id: server for server in servers}
        self._runs: dict[ServerId, list[Run]] = defaultdict(list)
        self._ended: dict[ServerId, list[Run]] = defaultdict(list)
        for run in runs:
            (self._ended if run.is_over else self._runs)[run.subject].append(run)
        self._held: dict[str, Claims] = defaultdict(list)
        self._guests: dict[ServerId, list[tuple[HostName, Guest]]] = defaultdict(list)
        self._attachments: dict[ServerId, list[tuple[Attachment, str | None]]] = defaultdict(list)
        self._devices: dict[ServerId, list[tuple[HostName, HeldDevice]]] = defaultdict(list)
        self._ports: dict[ServerId, list[Port]] = defaultdict(list)
        self._bindings: dict[str, tuple[Binding, ...]] = {}
        self._holds: dict[ServerId, dict[CellName, Hold]] = defaultdict(dict)
        self._copies: dict[ServerId, dict[CellName, Server]] = defaultdict(dict)

    def collect_claims(self, claims: Iterable[Allocation]) -> None:
        for one in claims:
            self._held[one.consumer].append((one.provider, one.resources))

    def collect_guests(self, guests: Iterable[tuple[HostName, Guest]]) -> None:
        for host, guest in guests:
            self._guests[guest.key.server].append((host, guest))

    def collect_attachments(self, attachments: Iterable[tuple[Attachment, str | None]]) -> None:
        """Add attachments, each with the host that uses it."""
        for one, host in attachments:
            self._attachments[one.server].append((one, host))

    def collect_devices(self, devices: Iterable[tuple[HostName, HeldDevice]]) -> None:
        for host, one in devices:
            if one.holder:
                self._devices[one.holder.server].append((host, one))

    async def collect_ports(self, network: Network) -> None:
        """Add the ports of existing servers that have any according to their records."""
        for port in await network.ports_of([server.id for server in self._servers.values() if server.nics]):
            self._ports[ServerId(port.device_id)].append(port)
            self._bindings[port.id] = tuple(await network.bindings(port.id))

    async def collect_rows(self, rows: Rows, cloud: Cloud) -> None:
        """Add the holders of records, and the copies, which a list of servers lacks."""
        for cell, server, standing, run in rows:
            self._holds[ServerId(server)][CellName(cell)] = Hold(RunId(run) if run else None, standing)
        for server, holds in self._holds.items():
            there = self._servers.get(server)
            for cell in holds.keys() - ({there.cell} if there else set()):
                for copy in await cloud.cell(cell).servers.find(ServerQuery(ids=[server])):
                    self._copies[server][cell] = copy

    def owners(self) -> list[ServerId]:
        """Return the ids that own anything; of consumers of claims only servers."""
        return list({**self._servers, **self._guests, **self._devices, **self._copies})

    def evidence(self, entries: Mapping[ServerId, Entry]) -> list[ObservedEvidence]:
        """Return all evidence, each claim once. Claims of other consumers are under the consumer's id."""
        found = [self._evidence(one, entries.get(one)) for one in self.owners()]
        return [*found, *(ObservedEvidence(id=ServerId(consumer), own=held) for consumer, held in self._held.items())]

    def _evidence(self, one: ServerId, entry: Entry | None) -> ObservedEvidence:
        server, runs, attachments = self._servers.get(one), self._runs.get(one, []), self._attachments.get(one, [])
        ports = tuple(self._ports.get(one, ()))
        own = {server.cell: server} if server and server.cell else {}
        return ObservedEvidence(
            id=one,
            entry=entry,
            records={**own, **self._copies.get(one, {})},
            holds=self._holds.get(one, {}),
            runs=tuple(runs),
            own=self._held.pop(one, []),
            of_runs={run.id: self._held.pop(run.id) for run in runs if run.id in self._held},
            guests=tuple(self._guests.get(one, ())),
            ports=ports,
            bindings={port.id: self._bindings[port.id] for port in ports},
            attachments=tuple(attachment for attachment, _ in attachments),
            devices=tuple(self._devices.get(one, ())),
            left_behind=left_behind([*runs, *self._ended.get(one, ())]),
            connected={attachment.id: host for attachment, host in attachments if host is not None},
        )


def simulated_violations(seen: ObservedEvidence) -> Iterator[str]:
    """Yield the violations that only the simulation can see."""
    record = seen.record
    if len(seen.holds) > 1:
        for cell, hold in seen.holds.items():
            if hold.standing == WHOLE:
                yield f"I2: the record of {seen.id} in {cell} stands whole, and there are {len(seen.holds)} of it"
    for port_id in seen.nics & seen.bindings.keys():
        active = [binding.host for binding in seen.bindings[port_id] if binding.is_active]
        if len(active) > 1:
            yield f"I6: port {port_id} of server {seen.id} is active on {' and '.join(active)}"
    if seen.is_settled and record:
        recorded = {device.attachment_id: device.host for device in record.volumes if device.host}
        if recorded != seen.connected:
            yield f"I7: server {seen.id} is said to have {recorded}, and is connected by {seen.connected}"
