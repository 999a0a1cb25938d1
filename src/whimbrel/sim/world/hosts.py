"""All simulated hosts of a cloud: they read each other's offered disks, and record where servers run.

Invariant: a host reads only disks that another host of its cell offers.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import CellName, HostName, ServerId
from whimbrel.sim.world.disks import Disk


class SimulatedHost(Protocol):
    """Interface of hosts to each other, implemented by `hypervisor.SimulatedHypervisor`."""

    cell: CellName | None

    def observed(self) -> list[Guest]: ...

    def observed_of(self, servers: Sequence[ServerId]) -> list[Guest]: ...

    async def runs(self, server: ServerId) -> bool: ...

    async def offered(self, path: str) -> Disk: ...


class SimulatedWorld:
    """double_runs: each start of a guest while another host ran the same server, as text.

    holders: hosts with a guest of a server, in any state; the hosts maintain it.
    images: disk contents of image files, read once; an image never changes.
    address: where other processes read offered disks, "10.0.0.1:4711"; "": nowhere.
    fetch: reads a disk that another process offers: address, location, own cell; None: there are no others.
    """

    def __init__(self) -> None:
        self.hosts: dict[HostName, SimulatedHost] = {}
        self.holders: dict[ServerId, set[HostName]] = {}
        self.double_runs: list[str] = []
        self.images: dict[str, Disk] = {}
        self.address = ""
        self.fetch: Callable[[str, str, CellName | None], Awaitable[Disk]] | None = None

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
        """Return every running guest of every host. All hosts must have been opened."""
        return [(host, guest) for host, guest in self.guests() if guest.power == "running"]

    async def watch_start(self, host: HostName, server: ServerId) -> None:
        """Record a start. A server that runs twice has lost its disk, even if one guest stops at once."""
        others = [name for name, other in self.hosts.items() if name != host and await other.runs(server)]
        if others:
            self.double_runs.append(f"server {server} was started on {host} while it ran on {', '.join(others)}")

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
