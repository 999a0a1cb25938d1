"""The laws of a cloud that hold at every instant, and the books that are compared at the end of a story.

Numbers are those of the design, section 8.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.journal import RunFilter
from whimbrel.ports.servers import ServerQuery
from whimbrel.servers.lookup import listing
from whimbrel.sim.world import World

Claims = list[tuple[str, dict[str, int]]]
"""What a consumer holds: (provider, amounts)."""


Hosts = Mapping[HostName, Host]


class Violation(BaseException):
    """A law does not hold. Not an Exception: no code under test may take it for trouble of its own."""


class Invariants:
    """Checks a world; remembers epochs, to see that they only rise."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._epochs: dict[str, int] = {}

    async def check(self, after: str = "") -> None:
        """Check every law that holds at every instant. Raises: Violation."""
        runs = await self._world.cloud.journal.find(RunFilter())
        servers = await _servers(self._world)
        hosts = {host.name: host for cell in self._world.cloud.cells.values() for host in await cell.hosts.all()}
        problems = [
            *self._one_guest(),
            *await self._claims(runs, servers, hosts),
            *await self._capacity(),
            *self._homes(servers, hosts),
            *self._rising(runs),
            *await self._quota(runs, servers),
            *self._reasons(runs),
        ]
        if problems:
            raise Violation(f"after {after or 'the story'}: " + "; ".join(problems))

    def _one_guest(self) -> list[str]:
        """I1: a server has at most one running guest."""
        counts = Counter(guest.key.server for _, guest in self._world.simulated.running())
        twice = [f"I1: {server} runs {number} times" for server, number in counts.items() if number > 1]
        return [*twice, *(f"I1: {story}" for story in self._world.simulated.double_runs)]

    async def _claims(self, runs: list[Run], servers: list[Server], hosts: Hosts) -> list[str]:
        """I3, I4: what placement holds is what live servers and open moves own, and no more."""
        held: dict[str, Claims] = {}
        for one in await self._world.cloud.placement.allocations():
            held.setdefault(one.consumer, []).append((one.provider, one.resources))
        open_runs = {run.subject: run for run in runs if not run.is_over}
        problems = self._unclaimed(held, open_runs, hosts)
        for server in servers:
            run = open_runs.get(server.id)
            own, moves = held.pop(server.id, []), held.pop(run.id, []) if run else []
            if run is None or not isinstance(run.facts, MoveFacts):
                going = run is not None and run.saga == "delete"
                legal = server.host is None or going or _owns(server, own, hosts)
            else:
                legal = self._legal(run.facts, own, moves)
            if not legal:
                problems.append(f"I3: server {server.id} holds {own}, its move {moves}")
        return [*problems, *(f"I4: {consumer} holds {what} and is nobody" for consumer, what in held.items())]

    def _unclaimed(self, held: dict[str, Claims], open_runs: dict[ServerId, Run], hosts: Hosts) -> list[str]:
        """I3: where anything of a guest is, its server or the server's move has a claim."""
        problems = []
        for name, guest in self._world.simulated.guests():
            run = open_runs.get(guest.key.server)
            claims = held.get(guest.key.server, []) + (held.get(run.id, []) if run else [])
            if hosts[name].id not in {provider for provider, _ in claims}:
                problems.append(f"I3: a guest of {guest.key.server} is on {name}, where nobody claims anything for it")
        return problems

    def _legal(self, facts: MoveFacts, own: Claims, moves: Claims) -> bool:
        source = [(facts.source.provider, facts.old_flavor.resources())] if facts.source and facts.old_flavor else []
        target = [(facts.target.provider, facts.new_flavor.resources())] if facts.target else []
        return (own, moves) in ((source, []), ([], source), (target, source), (target, []))

    async def _capacity(self) -> list[str]:
        """I5: no provider is over capacity."""
        return [
            f"I5: provider {provider.id} is over capacity: {provider.free}"
            for provider in await self._world.cloud.placement.providers()
            if any(amount < 0 for amount in provider.free.values())
        ]

    def _homes(self, servers: list[Server], hosts: Hosts) -> list[str]:
        """I2: the directory names one home, the record is there, and so is its host."""
        lost = [s for s in servers if s.host is not None and (s.host not in hosts or hosts[s.host].cell != s.cell)]
        return [f"I2: server {server.id} is said to be on {server.host} of {server.cell}" for server in lost]

    def _rising(self, runs: list[Run]) -> list[str]:
        """I11: epochs only rise."""
        fallen = [run for run in runs if run.epoch < self._epochs.get(run.id, 0)]
        self._epochs.update({run.id: run.epoch for run in runs})
        return [f"I11: run {run.id} fell back to epoch {run.epoch}" for run in fallen]

    async def _quota(self, runs: list[Run], listed: list[Server]) -> list[str]:
        """I10: a server counts once: as what it is, or as the larger of what it may become."""
        open_runs = {run.subject: run for run in runs if not run.is_over and isinstance(run.facts, MoveFacts)}
        servers = {server.id: server for server in listed}
        entries = await self._world.cloud.directory.entries(list(servers))
        problems = []
        for entry in entries.values():
            flavors = [servers[entry.server_id].flavor]
            if run := open_runs.get(entry.server_id):
                flavors += [flavor for flavor in (run.facts.old_flavor, run.facts.new_flavor) if flavor]
            if entry.deleted_at is None and entry.vcpus not in {flavor.vcpus for flavor in flavors}:
                problems.append(f"I10: server {entry.server_id} counts for {entry.vcpus} cpus")
        return problems

    def _reasons(self, runs: list[Run]) -> list[str]:
        """I14: what was turned back by a refusal says why."""
        silent = [run for run in runs if run.state == "undone" and run.turned == "refused" and not run.message]
        return [f"I14: run {run.id} was refused without a reason" for run in silent]


def _owns(server: Server, own: Claims, hosts: Hosts) -> bool:
    assert server.host
    return own == [(hosts[server.host].id, server.flavor.resources())]


async def _servers(world: World) -> list[Server]:
    return await listing(world.cloud, ServerQuery())


async def books(world: World) -> dict[str, Any]:
    """Give everything that a finished story is judged by, comparable: records, claims, guests and disks, quota."""
    servers = await _servers(world)
    entries = await world.cloud.directory.entries([ServerId(server.id) for server in servers])
    return {
        "servers": {server.id: replace(server, generation=0, updated_at=0.0) for server in servers},
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
    }
