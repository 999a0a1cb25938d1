"""The laws of a cloud that hold at every instant, and the books that are compared at the end of a story.

Numbers are those of the design, section 8.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from whimbrel.adapters.sql.standings import standings
from whimbrel.domain.guest import Guest
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName, RunId, ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.directory import Entry
from whimbrel.ports.journal import RunFilter
from whimbrel.ports.placement import Allocation, ProviderState
from whimbrel.ports.servers import ServerQuery
from whimbrel.proof.due import Claims, Roots
from whimbrel.proof.laws.claims import as_owned
from whimbrel.proof.laws.homes import one_home
from whimbrel.proof.laws.providers import within_capacity
from whimbrel.proof.laws.quota import counts_once
from whimbrel.proof.laws.runs import has_reason, rising
from whimbrel.proof.stake import Ground, Stake
from whimbrel.servers.lookup import listing
from whimbrel.sim.groups import broken_rules
from whimbrel.sim.readings import Readings
from whimbrel.sim.world import World

Hosts = Mapping[HostName, Host]
Rows = list[tuple[str, str, str, str | None]]
"""Records of cells: (cell, server, how it stands, by which run it is held)."""


LAWS = (as_owned, one_home, counts_once)
"""Of a server, of those of a proof: what its other laws look at, this world sees better than any service tells."""


class Violation(BaseException):
    """A law does not hold. Not an Exception: no code under test may take it for trouble of its own."""


class Invariants:
    """Checks a world; remembers epochs, to see that they only rise."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._once = Readings(world).once
        self._cells = tuple(f"cell_{name}" for name in world.plan.cells)
        self._epochs: dict[RunId, int] = {}

    async def check(self, after: str = "") -> None:
        """Check every law that holds at every instant. Raises: Violation."""
        cloud = self._world.cloud
        runs = await self._once("runs", ("global",), lambda: cloud.journal.find(RunFilter()))
        servers = await self._once("servers", ("global", *self._cells), lambda: _servers(self._world))
        groups = await self._once("groups", ("global",), lambda: cloud.server_groups.find(None))
        hosts = await self._once("hosts", self._cells, self._hosts)
        problems = [
            *await self._problems(runs, servers, hosts),
            *await broken_rules(cloud, groups, runs, servers, {name: host.id for name, host in hosts.items()}),
        ]
        self._complain(problems, after)

    async def _problems(self, runs: list[Run], servers: list[Server], hosts: Hosts) -> list[str]:
        return [
            *self._one_guest(),
            *await self._of_servers(runs, servers, hosts),
            *await self._capacity(),
            *await self._copies(runs),
            *self._rising(runs),
            *await self._ports(runs, servers),
            *self._volumes(runs, servers),
            *await self._devices(runs, servers),
            *self._reasons(runs),
        ]

    def _complain(self, problems: list[str], after: str) -> None:
        if problems:
            raise Violation(f"after {after or 'the story'}: " + "; ".join(problems))

    # What is looked at; Watch looks at less

    async def _allocations(self, runs: list[Run], servers: list[Server]) -> list[Allocation]:
        return await self._once("claims", ("placement",), self._world.cloud.placement.allocations)

    def _guests(self) -> list[tuple[HostName, Guest]]:
        return self._world.simulated.guests()

    def _running(self) -> list[tuple[HostName, Guest]]:
        return [(host, guest) for host, guest in self._guests() if guest.power == "running"]

    async def _entries(self, servers: list[Server]) -> dict[ServerId, Entry]:
        directory = self._world.cloud.directory
        read = partial(directory.entries, [server.id for server in servers])
        return await self._once("entries", ("global", *self._cells), read)

    async def _records(self) -> Rows:
        return await self._once("records", self._cells, lambda: rows_of(self._world))

    async def _providers(self) -> list[ProviderState]:
        return await self._world.cloud.placement.providers()

    async def _hosts(self) -> Hosts:
        return {host.name: host for cell in self._world.cloud.cells.values() for host in await cell.hosts.all()}

    def _one_guest(self) -> list[str]:
        """I1: a server has at most one running guest."""
        counts = Counter(guest.key.server for _, guest in self._running())
        twice = [f"I1: {server} runs {number} times" for server, number in counts.items() if number > 1]
        return [*twice, *(f"I1: {story}" for story in self._world.simulated.double_runs)]

    async def _of_servers(self, runs: list[Run], servers: list[Server], hosts: Hosts) -> list[str]:
        """I2, I3, I4, I10: the laws of a proof that hold at every instant, whatever is under way."""
        held: dict[str, Claims] = {}
        for one in await self._allocations(runs, servers):
            held.setdefault(one.consumer, []).append((one.provider, one.resources))
        going: dict[ServerId, list[Run]] = {}
        for run in runs:
            if not run.is_over:
                going.setdefault(run.subject, []).append(run)
        roots: Roots = {one.id: one.root for one in await self._once("providers", ("placement",), self._providers)}
        problems = self._unclaimed(held, going, hosts, roots)
        ground, entries = Ground(hosts=hosts, roots=roots), await self._entries(servers)
        for server in servers:
            stake = await self._stake(server, entries.get(server.id), going.get(server.id, []), held)
            found = [violation for law in LAWS for violation in law(stake, ground)]
            problems += [f"{violation.law}: {violation.sentence}" for violation in found]
        return [*problems, *(f"I4: {consumer} holds {what} and is nobody" for consumer, what in held.items())]

    async def _stake(self, server: Server, entry: Entry | None, runs: list[Run], held: dict[str, Claims]) -> Stake:
        """Give what there is of a server, for the laws; what it and its runs hold is taken out of `held`."""
        return Stake(
            id=server.id,
            entry=entry,
            records={server.cell: server} if server.cell else {},
            runs=tuple(runs),
            own=held.pop(server.id, []),
            of_runs={run.id: held.pop(run.id) for run in runs if run.id in held},
            ports=tuple(await self._world.cloud.network.ports_of([server.id])) if server.nics else (),
        )

    def _unclaimed(
        self, held: dict[str, Claims], going: dict[ServerId, list[Run]], hosts: Hosts, roots: Roots
    ) -> list[str]:
        """I3: where anything of a guest is, its server or the server's move has a claim."""
        problems = []
        for name, guest in self._guests():
            owners = [guest.key.server, *(run.id for run in going.get(guest.key.server, []))]
            claims = [part for owner in owners for part in held.get(owner, [])]
            if hosts[name].id not in {roots.get(provider) for provider, _ in claims}:
                problems.append(f"I3: a guest of {guest.key.server} is on {name}, where nobody claims anything for it")
        return problems

    async def _capacity(self) -> list[str]:
        """I5: no provider is over capacity."""
        providers = await self._once("providers", ("placement",), self._providers)
        return [f"I5: {violation.sentence}" for one in providers for violation in within_capacity(one)]

    async def _ports(self, runs: list[Run], servers: list[Server]) -> list[str]:
        """I6: each port of a server has one active binding; once settled it is on the guest's host."""
        busy = {run.subject for run in runs if not run.is_over}
        owners = {server.id: server for server in servers if server.nics}
        problems = []
        named = {nic.port_id for server in owners.values() for nic in server.nics}
        for port in await self._world.cloud.network.ports_of(list(owners)):
            if port.id not in named:
                continue  # it is on its way to its server
            server, bindings = owners[ServerId(port.device_id)], await self._world.cloud.network.bindings(port.id)
            active = [binding.host for binding in bindings if binding.is_active]
            if len(active) != 1 or (server.id not in busy and active != [server.host]):
                problems.append(f"I6: port {port.id} of the server on {server.host} is bound by {bindings}")
        return problems

    def _volumes(self, runs: list[Run], servers: list[Server]) -> list[str]:
        """I7: a volume is connected to one host, where its guest may run; once settled, as the record says."""
        busy = {run.subject for run in runs if not run.is_over}
        connected: dict[str, set[str]] = {}
        held: dict[str, list[tuple[str, str, str | None]]] = {}
        for one, host in self._world.remains.volumes.everything():
            held.setdefault(one.server, []).append((one.volume_id, one.id, host))
            if host is not None:
                connected.setdefault(one.volume_id, set()).add(host)
        problems = [f"I7: volume {name} is connected to {on}" for name, on in connected.items() if len(on) > 1]
        running = {(guest.key.server, host): guest.volumes for host, guest in self._running()}
        for (owner, host), volumes in running.items():
            loose = [name for name in volumes if connected.get(name) != {host}]
            problems += [f"I7: {owner} runs on {host} with volume {name}, which is not connected" for name in loose]
        for server in servers:
            recorded = [(device.volume_id, device.attachment_id, device.host) for device in server.volumes]
            used = [one for one in held.get(server.id, []) if one[2] is not None]
            if server.id not in busy and sorted(recorded) != sorted(used):
                problems.append(f"I7: server {server.id} is said to have {recorded}, and has {held.get(server.id)}")
        return problems

    async def _devices(self, runs: list[Run], servers: list[Server]) -> list[str]:
        """I8: a PCI device has one owner, a guest of its host; and no running guest has another's."""
        if not self._world.plan.functions:
            return []
        open_runs = {run.subject: run.id for run in runs if not run.is_over}
        slots = {server.id: server.slot for server in servers}
        problems = []
        for name, cell in self._world.plan.homes():
            held = {one.device.address: one.holder for one in await self._world.cloud.cell(cell).devices.of(name)}
            for address, holder in held.items():
                if holder and holder.slot not in (slots.get(holder.server), open_runs.get(holder.server)):
                    kept = holder.server in open_runs  # a move keeps the source's until the verdict
                    problems += [] if kept else [f"I8: {address} of {name} is held by {holder}, which is nobody"]
            for host, guest in self._running():
                foreign = [one for one in guest.pci if host == name and held.get(one) != guest.key]
                problems += [f"I8: {guest.key} runs on {name} with {one}, which it does not hold" for one in foreign]
        return problems

    async def _copies(self, runs: list[Run]) -> list[str]:
        """I2: a record stands alone, or its copy is that of a move between their cells."""
        if len(self._world.plan.cells) == 1:
            return []
        going = {run.subject: run.id for run in runs if not run.is_over}
        rows = await self._records()
        cells: dict[str, list[str]] = {}
        for cell, server, _, _ in rows:
            cells.setdefault(server, []).append(cell)
        problems = [
            f"I2: the record of {server} in {cell} stands {standing}, and there are {len(cells[server])} of it"
            for cell, server, standing, _ in rows
            if (standing == "whole" and len(cells[server]) > 1) or (standing != "whole" and server not in going)
        ]
        strays = [server for server, found in cells.items() if len(found) > 1 and server not in going]
        return [*problems, *(f"I2: {server} has records in {cells[server]}" for server in strays)]

    def _rising(self, runs: list[Run]) -> list[str]:
        """I11: epochs only rise."""
        fallen = [f"I11: {violation.sentence}" for violation in rising(runs, self._epochs)]
        self._epochs.update({run.id: run.epoch for run in runs})
        return fallen

    def _reasons(self, runs: list[Run]) -> list[str]:
        """I14: what was turned back by a refusal says why."""
        return [f"I14: {violation.sentence}" for run in runs for violation in has_reason(run)]


async def _servers(world: World) -> list[Server]:
    return await listing(world.cloud, ServerQuery())


async def books(world: World) -> dict[str, Any]:
    """Give everything that a finished story is judged by, comparable: records, claims, guests and disks, quota."""
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
        "quota": {entry.server_id: (entry.vcpus, entry.memory_mib) for entry in entries.values()},
        "ports": [
            (
                port.id,
                port.device_id,
                port.device_owner,
                port.host,
                port.profile,
                len(await world.cloud.network.bindings(port.id)),
            )
            for port in sorted(world.remains.network.everything(), key=lambda port: port.id)
        ],
        "attachments": sorted(
            (one.server, one.volume_id, host, one.status) for one, host in world.remains.volumes.everything()
        ),
        "volumes": sorted(world.remains.volumes.ids()),
        "pci": await _held_devices(world),
        "images": sorted(world.images.ids()),
        "records": await rows_of(world),
    }


def _comparable(server: Server) -> Server:
    """Leave out what a way there and back may change: counters, and the ids of attachments, which cannot be kept."""
    volumes = tuple(replace(device, attachment_id="") for device in server.volumes)
    return replace(server, generation=0, updated_at=0.0, volumes=volumes)


async def rows_of(world: World, only: Sequence[ServerId] | None = None) -> Rows:
    """List the records of all cells, the copies too, but not those of deleted servers."""
    found: Rows = []
    for cell in world.plan.cells:
        rows = await standings(world.remains.databases[f"cell_{cell}"], only)
        found += [(cell, row.id, row.standing, row.locked_by_run) for row in rows]
    return found


async def _held_devices(world: World) -> list[tuple[str, str, str, str]]:
    held = []
    for name, cell in world.plan.homes():
        for one in await world.cloud.cell(cell).devices.of(name):
            if one.holder:
                held.append((str(name), one.device.address, str(one.holder.server), one.request or ""))
    return sorted(held)
