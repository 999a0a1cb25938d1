"""The bus of a process of the control plane: connections to the account of each cell, and to that of wake-ups."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

from whimbrel.adapters.bus.account_keys import AccountKeys
from whimbrel.adapters.bus.account_store import keep_accounts, push_accounts
from whimbrel.adapters.bus.bus_servers import BusServers
from whimbrel.adapters.bus.nats_agents import NatsAgents
from whimbrel.adapters.bus.nats_connection import BusConnection
from whimbrel.adapters.bus.nats_control_plane import serve_control
from whimbrel.adapters.bus.nats_subjects import cell_account
from whimbrel.adapters.bus.nats_wake_ups import NatsWakeUps
from whimbrel.domain.errors import NotFound, Refused, Unavailable, WorldError
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.cloud import Cell
from whimbrel.ports.hosts.agent import Agent, Agents
from whimbrel.ports.hosts.bus_access import BusAccess
from whimbrel.ports.hosts.control_plane import ControlPlane
from whimbrel.ports.stores.host_keys import HostKeys
from whimbrel.ports.wake_ups import WakeUps


@dataclass(frozen=True)
class Answering:
    """What a process needs to answer agents."""

    control_plane: ControlPlane
    host_keys: HostKeys


class CloudBus:
    """The connections of one process, which last until `opened` is closed.

    It implements ports.hosts.bus_access.BusAccesses.
    """

    def __init__(self, servers: BusServers, keys: AccountKeys, name: str, cells: Callable[[], Mapping[CellName, Cell]]):
        """name: of the process, for people who look at a server of NATS. cells: of this process, as of now."""
        self._servers = servers
        self._keys = keys
        self._name = name
        self._cells = cells
        self._wakes = BusConnection(servers, keys.control_logins(name), name)
        self.wake_ups: WakeUps = NatsWakeUps(self._wakes)
        self.answering: Answering | None = None
        """Set before cells are opened; None: other processes answer the agents."""
        self._work: set[asyncio.Task[None]] = set()

    async def open(self, opened: AsyncExitStack) -> None:
        """Connect, and store the accounts of new cells on the servers from now on."""
        opened.push_async_callback(self._end)
        await opened.enter_async_context(self._wakes)
        system = BusConnection(self._servers, self._keys.system_logins(self._name), self._name)
        await opened.enter_async_context(system)
        self._system = system
        self._start(keep_accounts(system, self._keys))

    @property
    def problem(self) -> str | None:
        return self._wakes.problem

    async def grant(self, cell: CellName, host: HostName, public_key: str) -> BusAccess:
        ca_file = self._servers.ca_file
        return BusAccess(
            urls=self._servers.urls,
            ca_pem=await asyncio.to_thread(ca_file.read_text) if ca_file else "",
            jwt=await self._keys.agent_claims(cell, host, public_key),
        )

    async def revoke(self, cell: CellName, public_key: str) -> None:
        await self._keys.revoke(cell, public_key)
        await push_accounts(self._system, self._keys)

    def agents(self, cell: CellName) -> Agents:
        """Return the agents of a cell, and answer what they ask, until the process ends."""
        connection = BusConnection(self._servers, self._keys.cell_logins(cell, self._name), self._name)
        self._start(self._attend(cell, connection))
        return NatsAgents(connection, lambda host: self._session_of(cell, host))

    async def _attend(self, cell: CellName, connection: BusConnection) -> None:
        await self._store_account(cell)
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(connection)
            if self.answering:
                answering = self.answering
                await opened.enter_async_context(
                    serve_control(connection, answering.control_plane, lambda host: self._claims(cell, host, answering))
                )
            await asyncio.Event().wait()

    async def _store_account(self, cell: CellName) -> None:
        """Store the account of a new cell on the servers now; if that fails, it happens within LOOK_S."""
        with suppress(WorldError):
            await self._keys.account(cell_account(cell))
            await push_accounts(self._system, self._keys)

    async def _session_of(self, cell: CellName, host: HostName) -> int:
        try:
            return (await self._cells()[cell].hosts.get(host)).session
        except (KeyError, NotFound):
            raise Unavailable(f"host {host} of cell {cell} is not registered") from None

    async def _claims(self, cell: CellName, host: HostName, answering: Answering) -> str:
        """Return new claims for a host's key. Raises: Refused: it was retired."""
        key = await answering.host_keys.get(host)
        if key.retired_at is not None or key.cell != cell:
            raise Refused(f"host {host} was retired")
        return await self._keys.agent_claims(cell, host, key.public_key)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _end(self) -> None:
        for task in self._work:
            task.cancel()
        if self._work:
            await asyncio.wait(self._work)


class AgentsHereFirst:
    """Implements ports.hosts.agent.Agents: some are in this process, the others on the bus."""

    def __init__(self, here: Agents, hosts: frozenset[HostName], elsewhere: Agents) -> None:
        self._here = here
        self._hosts = hosts
        self._elsewhere = elsewhere

    def at(self, host: HostName) -> Agent:
        return (self._here if host in self._hosts else self._elsewhere).at(host)
