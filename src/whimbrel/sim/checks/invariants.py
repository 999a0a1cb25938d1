"""The invariants of a cloud that hold at every instant, and the accounting that is compared at the end of a story.

Numbers are those of the design, section 8.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from whimbrel.adapters.sql.cell.copy_states import standings
from whimbrel.domain.guest import Guest
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName, ProjectId, RunId, ServerId
from whimbrel.domain.pci import HeldDevice
from whimbrel.domain.run import Run, has_facts
from whimbrel.domain.server import Server
from whimbrel.moves.evacuate import EVACUATE
from whimbrel.moves.evacuation_facts import EvacuationFacts, left_behind
from whimbrel.moves.live_migrate import LIVE_MIGRATE
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.capacity import ProviderState
from whimbrel.ports.placement.placement import Allocation
from whimbrel.ports.services.volumes import Attachment
from whimbrel.ports.stores.directory import Entry, Usage
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.proof import violation as proof
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence, hosts_of_transfers
from whimbrel.proof.invariants import allocations, guests, pci_devices, ports
from whimbrel.proof.invariants.providers import counted, within_capacity
from whimbrel.proof.invariants.runs import has_reason, rising
from whimbrel.proof.invariants.table import AT_EVERY_INSTANT
from whimbrel.servers.lookup import listing
from whimbrel.sim.checks.group_placement import violated_rules
from whimbrel.sim.checks.observed_servers import EvidenceCollector, ObservedEvidence, Rows, simulated_violations
from whimbrel.sim.checks.read_cache import ReadCache
from whimbrel.sim.cloud.cloud import World

Hosts = Mapping[HostName, Host]


Judge = Callable[[ServerEvidence, CloudSnapshot], Iterator[proof.Violation]]

AT_REST: Sequence[Judge] = (
    guests.one_guest,
    allocations.as_owned,
    ports.bound_once,
    pci_devices.as_asked,
)
"""Invariants of `proof` that hold only while no host is down and no message is late."""

WAITING: Sequence[Judge] = (allocations.as_owned, ports.served, pci_devices.as_asked)
"""Those that also hold while moves wait for a verdict: guests without power and late bindings wait with the moves."""


class Violation(BaseException):
    """An invariant does not hold. Not an Exception: code under test must not handle it."""


class Invariants:
    """Checks of a world. It remembers epochs to check that they only rise."""

    def __init__(self, world: World, cache: ReadCache | None = None) -> None:
        self._world = world
        self._once = (cache or ReadCache(world)).once
        self._cells = tuple(f"cell_{name}" for name in world.plan.cells)
        self._epochs: dict[RunId, int] = {}

    def forget_epochs(self) -> None:
        """Forget the epochs seen so far: a restored journal has older ones."""
        self._epochs.clear()

    async def check(self, after: str = "") -> None:
        """Check every invariant that holds at every instant. Raises: Violation."""
        cloud = self._world.cloud
        runs = await self._once("runs", ("global",), lambda: cloud.journal.find(RunFilter()))
        servers = await self._once("servers", ("global", *self._cells), lambda: _servers(self._world))
        groups = await self._once("groups", ("global",), lambda: cloud.server_groups.find(None))
        hosts = await self._once("hosts", self._cells, self._hosts)
        problems = [
            *await self._problems(runs, servers, hosts),
            *await violated_rules(cloud, groups, runs, servers, {name: host.id for name, host in hosts.items()}),
            *await self._once("counted", ("placement",), self._counted),
            *await self._once("usage", ("global",), lambda: usage_differs(cloud, runs)),
        ]
        self._complain(problems, after)

    async def at_rest(self, invariants: Sequence[Judge] = AT_REST) -> list[str]:
        """Return the violations in a cloud without open runs and with all hosts up."""
        runs, servers = await self._world.cloud.journal.find(RunFilter()), await _servers(self._world)
        return await self._of_servers(runs, servers, await self._hosts(), invariants)

    async def _problems(self, runs: list[Run], servers: list[Server], hosts: Hosts) -> list[str]:
        return [
            *self._one_guest(),
            *await self._of_servers(runs, servers, hosts),
            *await self._once("capacity", ("placement",), self._capacity),
            *self._rising(runs),
            *await self._volumes(),
            *await self._foreign_devices(),
            *self._reasons(runs),
        ]

    def _complain(self, problems: list[str], after: str) -> None:
        if problems:
            raise Violation(f"after {after or 'the story'}: " + "; ".join(problems))

    # Reads; EventChecks limits them to some servers

    async def _allocations(self, runs: list[Run], servers: list[Server]) -> list[Allocation]:
        return await self._once("claims", ("placement",), self._world.cloud.placement.allocations)

    def _guests(self) -> Sequence[tuple[HostName, Guest]]:
        return self._world.simulated.guests()

    def _running(self) -> list[tuple[HostName, Guest]]:
        return [(host, guest) for host, guest in self._guests() if guest.is_live]

    async def _devices(self) -> list[tuple[HostName, HeldDevice]]:
        found: list[tuple[HostName, HeldDevice]] = []
        for name, cell in self._world.cloud.cells.items():
            found += await self._once(f"devices of {name}", (f"cell_{name}",), cell.devices.held)
        return found

    async def _entries(self, ids: Sequence[ServerId]) -> Mapping[ServerId, Entry]:
        read = partial(self._world.cloud.directory.entries, ids)
        return await self._once("entries", ("global", *self._cells), read)

    async def _records(self) -> Rows:
        return await self._once("records", self._cells, lambda: rows_of(self._world))

    async def _providers(self) -> list[ProviderState]:
        return await self._world.cloud.placement.providers()

    async def _names(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the root and the name of each provider."""
        providers = await self._once("providers", ("placement",), self._providers)
        return {one.id: one.root for one in providers}, {one.id: one.name for one in providers}

    async def _hosts(self) -> Hosts:
        return {host.name: host for cell in self._world.cloud.cells.values() for host in await cell.hosts.all()}

    def _one_guest(self) -> list[str]:
        """I1: no server ran twice, not even between two checks."""
        return [f"I1: {story}" for story in self._world.simulated.double_runs]

    async def _of_servers(
        self, runs: list[Run], servers: list[Server], hosts: Hosts, invariants: Sequence[Judge] = AT_EVERY_INSTANT
    ) -> list[str]:
        """Check these invariants for each server and for every other owner of something."""
        roots, names = await self._once("names", ("placement",), self._names)
        snapshot = CloudSnapshot(hosts=hosts, roots=roots, names=names)
        evidence = await self._evidence_of(runs, servers)
        found = [violation for seen in evidence for invariant in invariants for violation in invariant(seen, snapshot)]
        return [
            *(f"{violation.invariant}: {violation.sentence}" for violation in found),
            *(problem for seen in evidence for problem in simulated_violations(seen)),
        ]

    async def _evidence_of(self, runs: list[Run], servers: list[Server]) -> list[ObservedEvidence]:
        collector = EvidenceCollector(servers, runs)
        collector.collect_claims(await self._allocations(runs, servers))
        collector.collect_guests(self._guests())
        collector.collect_attachments(await self._attachments())
        collector.collect_devices(await self._devices())
        await collector.collect_ports(self._world.cloud.network)
        if len(self._world.plan.cells) > 1:
            await collector.collect_rows(await self._records(), self._world.cloud)
        return collector.evidence(await self._entries(collector.owners()))

    async def _capacity(self) -> list[str]:
        """I5: no provider is over capacity."""
        providers = await self._once("providers", ("placement",), self._providers)
        return [f"I5: {violation.sentence}" for one in providers for violation in within_capacity(one)]

    async def _counted(self) -> list[str]:
        """I5: the usage of each provider is the sum of its allocations."""
        return [f"I5: {counted(one).sentence}" for one in await self._world.placement.miscounts()]

    async def _volumes(self) -> list[str]:
        """I7: a volume is connected to one host, and the guest may run there; to two only inside a live migration.

        The source of an evacuation, where the guest cannot run any more, does not count.
        """
        connected: dict[str, set[str]] = {}
        servers: dict[str, ServerId] = {}
        for one, host in await self._attachments():
            if host is not None:
                connected.setdefault(one.volume_id, set()).add(host)
                servers[one.volume_id] = one.server
        twice = {name: on for name, on in connected.items() if len(on) > 1}
        lawful = hosts_of_transfers(await self._transfers()) if twice else {}
        dead = await self._dead_sources() if twice else {}
        problems = [
            f"I7: volume {name} is connected to {on}"
            for name, on in twice.items()
            if len(on - dead.get(servers[name], set())) > 1 and not on <= lawful.get(servers[name], frozenset())
        ]
        hosts = {one.id: host for one, host in await self._attachments()}
        for host, guest in self._running():
            used = self._world.hypervisors[host].volumes_of(guest.key)
            problems += [
                f"I7: {guest.key.server} runs on {host} with volume {one.volume_id}, which is not connected"
                for one in used
                if hosts.get(one.attachment_id) != host
            ]
        return problems

    async def _attachments(self) -> list[tuple[Attachment, str | None]]:
        """Return all attachments, each with the host that uses it.

        A stale request of a live migration or an evacuation may connect a volume after the move was rolled back: an
        attachment that was never completed, on a host without a running guest of the server, is used by none. The
        reconciler of late effects deletes it.
        """
        everything = self._world.remains.volumes.everything()
        if not any(host and one.status == "attaching" for one, host in everything):
            return everything
        sagas = (LIVE_MIGRATE.name, EVACUATE.name)
        moved = {run.subject for run in await self._world.cloud.journal.find(RunFilter(sagas=sagas))}
        running = {(guest.key.server, host) for host, guest in self._running()}
        return [
            (
                one,
                None
                if one.status == "attaching" and one.server in moved and (one.server, host) not in running
                else host,
            )
            for one, host in everything
        ]

    async def _dead_sources(self) -> dict[ServerId, set[str]]:
        """Return the sources of evacuations that began and were not cleared, whichever servers are looked at."""
        found: dict[ServerId, set[str]] = {}
        for run in await self._world.cloud.journal.find(RunFilter(sagas=(EVACUATE.name,))):
            if has_facts(run, EvacuationFacts) and run.facts.evidence:
                found.setdefault(run.subject, set()).update(host for host, _ in left_behind([run]))
        return found

    async def _transfers(self) -> list[Run]:
        """Return all open live migrations, whichever servers are looked at."""
        return await self._world.cloud.journal.find(RunFilter(sagas=(LIVE_MIGRATE.name,), only_open=True))

    async def _foreign_devices(self) -> list[str]:
        """I8: no running or incoming guest has a device that another guest holds."""
        held = {(host, one.device.address): one.holder for host, one in await self._devices()}
        return [
            f"I8: {guest.key} is {guest.power} on {host} with {address}, which it does not hold"
            for host, guest in self._guests()
            if guest.is_live or guest.power == "incoming"
            for address in self._world.hypervisors[host].pci_of(guest.key)
            if held.get((host, address)) != guest.key
        ]

    def _rising(self, runs: list[Run]) -> list[str]:
        """I11: epochs only rise."""
        fallen = [f"I11: {violation.sentence}" for violation in rising(runs, self._epochs)]
        self._epochs.update({run.id: run.epoch for run in runs})
        return fallen

    def _reasons(self, runs: list[Run]) -> list[str]:
        """I14: a run that was rolled back after a refusal has a reason."""
        return [f"I14: {violation.sentence}" for run in runs for violation in has_reason(run)]


async def _servers(world: World) -> list[Server]:
    return await listing(world.cloud, ServerQuery())


async def usage_differs(cloud: Cloud, runs: Sequence[Run]) -> list[str]:
    """I10: the quota usage of a project is the sum over its servers. runs: all runs, finished ones too."""
    totals: dict[ProjectId, Usage] = {}
    for entry in (await cloud.directory.entries(sorted({run.subject for run in runs}))).values():
        total = totals.get(entry.project_id, Usage())
        if entry.deleted_at is None:
            total = Usage(
                instances=total.instances + bool(entry.vcpus or entry.memory_mib),
                cores=total.cores + entry.vcpus,
                ram_mib=total.ram_mib + entry.memory_mib,
            )
        totals[entry.project_id] = total
    return [
        f"I10: project {project} is said to use {said}, and its servers count for {total}"
        for project, total in totals.items()
        if (said := await cloud.directory.usage(project)) != total
    ]


async def books(world: World) -> dict[str, Any]:
    """Return the state by which a finished story is judged, comparable: records, claims, guests and disks, quota."""
    servers = await _servers(world)
    entries = await world.cloud.directory.entries([ServerId(server.id) for server in servers])
    return {
        "servers": {server.id: _comparable(server) for server in servers},
        "claims": sorted(
            (one.consumer, one.provider, tuple(sorted(one.resources.items())))
            for one in await world.cloud.placement.allocations()
        ),
        "guests": sorted(
            (host, guest.key.server, guest.key.slot, guest.power, guest.vcpus, guest.memory_mib, guest.has_disk)
            for host, guest in world.simulated.guests()
        ),
        "offers": sorted(
            (name, key.server, key.slot) for name, host in world.hypervisors.items() for key in host.offers()
        ),
        "disks": sorted(
            (name, key.server, key.slot, disk, has.size_bytes, has.contents.marker or "", has.whole)
            for name, host in world.hypervisors.items()
            for key, disk, has in host.disks()
            if disk != "root"
        ),
        "rescue_disks": sorted(
            (host, guest.key.server, guest.key.slot, guest.rescue is not None, guest.in_rescue)
            for host, guest in world.simulated.guests()
            if guest.rescue or guest.in_rescue
        ),
        "quota": {entry.server_id: (entry.vcpus, entry.memory_mib) for entry in entries.values()},
        "ports": await _ports(world),
        "attachments": sorted(
            ((one.server, one.volume_id, host, one.status) for one, host in world.remains.volumes.everything()),
            key=lambda line: (*line[:2], line[2] or "", line[3]),
        ),
        "volumes": sorted(world.remains.volumes.ids()),
        "migrations": world.remains.volumes.migrations(),
        "snapshots": sorted((one.id, one.status) for one in world.remains.volumes.snapshots()),
        "pci": await _held_devices(world),
        "images": sorted(world.images.ids()),
        "records": await rows_of(world),
    }


async def _ports(world: World) -> list[tuple[Any, ...]]:
    """Return the ports by id, each with its owner, its place, and the number of its bindings."""
    bindings_of = world.cloud.network.bindings
    return [
        (port.id, port.device_id, port.device_owner, port.host, port.profile, len(await bindings_of(port.id)))
        for port in sorted(world.remains.network.everything(), key=lambda port: port.id)
    ]


def _comparable(server: Server) -> Server:
    """Remove what a move and its revert may change: counters, and ids of attachments, which cannot be kept."""
    volumes = tuple(replace(device, attachment_id="") for device in server.volumes)
    return replace(server, generation=0, updated_at=0.0, volumes=volumes)


async def rows_of(world: World, only: Sequence[ServerId] | None = None) -> Rows:
    """Return the records of all cells, copies included, without deleted servers."""
    found: Rows = []
    for cell in world.plan.cells:
        rows = await standings(world.remains.databases[f"cell_{cell}"], only)
        found += [(cell, row.id, row.standing, row.locked_by_run) for row in rows]
    return found


async def _held_devices(world: World) -> list[tuple[str, str, str, str]]:
    held = [each for cell in world.cloud.cells.values() for each in await cell.devices.held()]
    return sorted((host, one.device.address, one.holder.server, one.request or "") for host, one in held if one.holder)
