"""All simulated hosts of a cloud: they read each other's offered disks, and record where servers run.

Invariant: a host reads only disks that another host of its cell offers.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

import msgspec

from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import CellName, HostName, ServerId
from whimbrel.sim.world.disks import Disk
from whimbrel.sim.world.guests import SimulatedGuest


class TransferQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question of one host to another about a live transfer. Addresses as in `offered`."""

    kind: Literal["expects", "left"]
    address: str  # of the guest on the host that is asked
    other: str  # of the guest on the other host


class TransferAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    expected: bool = False
    left: SimulatedGuest | None = None


class SimulatedHost(Protocol):
    """Interface of hosts to each other, implemented by `hypervisor.SimulatedHypervisor`."""

    cell: CellName | None

    def observed(self) -> list[Guest]: ...

    def observed_of(self, servers: Sequence[ServerId]) -> list[Guest]: ...

    async def runs(self, server: ServerId) -> bool: ...

    async def offered(self, path: str) -> Disk: ...

    async def expects(self, path: str, source: str) -> bool: ...

    async def left(self, path: str, target: str) -> SimulatedGuest | None: ...

    async def look_for(self, path: str) -> None: ...

    async def lose_power(self) -> None: ...


class SimulatedWorld:
    """double_runs: each start of a guest while another host ran the same server, as text.

    off: hosts without power: none of their guests runs, and nothing on them answers. on_power_off: called with each.
    holders: hosts with a guest of a server, in any state; the hosts maintain it.
    images: disk contents of image files, read once; an image never changes.
    address: where other processes read offered disks, "10.0.0.1:4711"; "": nowhere.
    fetch: reads a disk that another process offers: address, location, own cell; None: there are no others.
    ask_host: asks a host in another process about a live transfer, see `remote_disks`; None: there are no others.
    dirty_rates: bytes per second that a running server writes to its memory; none: 0.
    """

    def __init__(self) -> None:
        self.hosts: dict[HostName, SimulatedHost] = {}
        self.off: set[HostName] = set()
        self.on_power_off: Callable[[HostName], None] = lambda _: None
        self.holders: dict[ServerId, set[HostName]] = {}
        self._asked: dict[HostName, SimulatedHost] = {}  # their guests are in `holders`
        self.double_runs: list[str] = []
        self.images: dict[str, Disk] = {}
        self.address = ""
        self.fetch: Callable[[str, str, CellName | None], Awaitable[Disk]] | None = None
        self.ask_host: Callable[[str, TransferQuestion], Awaitable[TransferAnswer]] | None = None
        self.dirty_rates: dict[ServerId, int] = {}

    async def power_off(self, host: HostName) -> None:
        """Cut the power of a host until `power_on`. Idempotent."""
        self.off.add(host)  # first: no guest is started any more
        self.on_power_off(host)
        await self.hosts[host].lose_power()

    def power_on(self, host: HostName) -> None:
        """Return the power of a host. Its guests stay stopped. Idempotent."""
        self.off.discard(host)

    def guests(self) -> list[tuple[HostName, Guest]]:
        """Return every guest of every host, in any state. All hosts must have been opened."""
        return [(name, guest) for name, host in self.hosts.items() for guest in host.observed()]

    def guests_of(self, servers: Sequence[ServerId]) -> list[tuple[HostName, Guest]]:
        """Return the guests of these servers. All hosts must have been opened."""
        where = {host for server in servers for host in self.holders.get(server, ())}
        return [
            (name, guest) for name in self.hosts if name in where for guest in self.hosts[name].observed_of(servers)
        ]

    def running(self) -> list[tuple[HostName, Guest]]:
        """Return every guest that runs or is paused, of every host. All hosts must have been opened."""
        return [(host, guest) for host, guest in self.guests() if guest.is_live]

    async def watch_start(self, host: HostName, server: ServerId) -> None:
        """Record a start. A server that runs twice has lost its disk, even if one guest stops at once."""
        if self._asked != self.hosts:  # a host whose guests were not read yet is in no entry of `holders`
            asked = dict(self.hosts)
            for other in asked.values():
                await other.runs(server)
            self._asked = asked
        holders = self.holders.get(server, set()) - {host}
        others = [name for name in self.hosts if name in holders and await self.hosts[name].runs(server)]
        if others:
            self.double_runs.append(f"server {server} was started on {host} while it ran on {', '.join(others)}")

    async def expects(self, address: str, source: str) -> bool:
        """Check whether a guest waits at an address for the one at `source`. Raises: Unavailable."""
        return (await self.answer(TransferQuestion(kind="expects", address=address, other=source))).expected

    async def left(self, address: str, target: str) -> SimulatedGuest | None:
        """Return the guest of an address if it has left for `target`. Raises: Unavailable; NotFound."""
        return (await self.answer(TransferQuestion(kind="left", address=address, other=target))).left

    async def tell_arrived(self, address: str) -> None:
        """Make the target check at once, if it is in this process. Otherwise it checks at the next request."""
        name, _, path = address.partition("/")
        host = self.hosts.get(HostName(name.partition("@")[0]))
        if host:
            await host.look_for(path)

    async def answer(self, question: TransferQuestion) -> TransferAnswer:
        place, _, path = question.address.partition("/")
        name, _, address = place.partition("@")
        host = self.hosts.get(HostName(name))
        if host is None and address and self.ask_host:
            return await self.ask_host(address, question)
        if host is None:
            raise Unavailable(f"host {name} does not answer")
        if question.kind == "expects":
            return TransferAnswer(expected=await host.expects(path, question.other))
        return TransferAnswer(left=await host.left(path, question.other))

    async def offered(self, location: str, cell: CellName | None) -> Disk:
        """Return an offered disk. Raises: Unavailable: not offered now; Refused: it is of another cell.

        location: "HOST/PATH", or "HOST@ADDRESS/PATH" of a host that may be in another process.
        """
        place, _, path = location.partition("/")
        name, _, address = place.partition("@")
        host = self.hosts.get(HostName(name))
        if host is None and address and self.fetch:
            return await self.fetch(address, f"{name}/{path}", cell)
        if host is None:
            raise Unavailable(f"host {name} does not answer")
        if host.cell != cell:
            raise Refused(f"host {name} is of cell {host.cell}: disks go from cell to cell by the image service")
        return await host.offered(path)
