"""Servers of NATS for tests: one, or a cluster, each a process of its own on free ports, and the keys of their clouds.

tests/process_guard.py ends them if a test cannot.
"""

import asyncio
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.prerequisites import missing
from tests.processes import HANG_S
from whimbrel.adapters.bus.account_keys import AccountKeys, agent_logins
from whimbrel.adapters.bus.account_store import push_accounts
from whimbrel.adapters.bus.bus_servers import BusServers
from whimbrel.adapters.bus.nats_connection import BusConnection
from whimbrel.adapters.bus.nats_keys import Key, new_key
from whimbrel.adapters.bus.nats_subjects import cell_account
from whimbrel.adapters.bus.server_configuration import Hub, ServerOptions, server_configuration
from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.global_.bus_accounts import SqlBusAccounts
from whimbrel.domain.ids import CellName, HostName

C1, C2 = CellName("c1"), CellName("c2")


class NatsServer:
    """One process of nats-server."""

    def __init__(self, directory: Path, number: int, port: int) -> None:
        self.directory = directory
        self._configuration = directory / f"nats{number}.conf"
        self._log = directory / f"nats{number}.log"
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None

    def configure(self, text: str) -> None:
        self._configuration.write_text(text)

    def start(self) -> None:
        program = shutil.which("nats-server") or missing("no nats-server", "apt install nats-server")
        with self._log.open("ab") as log:
            self.process = subprocess.Popen([program, "-c", str(self._configuration)], stdout=log, stderr=log)

    async def until_ready(self) -> None:
        """Wait until it accepts connections."""
        async with asyncio.timeout(HANG_S):
            while True:
                assert self.process
                assert self.process.poll() is None, self._log.read_text()
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.01)
                else:
                    writer.close()
                    return

    def kill(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, number: int) -> None:
        assert self.process
        self.process.send_signal(number)


class CloudBus:
    """The bus of one cloud: its servers, and the keys that are in its database."""

    def __init__(
        self, servers: list[NatsServer], accounts: SqlBusAccounts, settings: BusServers, leaf_ports: Sequence[int] = ()
    ) -> None:
        self.servers = servers
        self.leaf_ports = leaf_ports
        self.accounts = accounts
        self.keys = AccountKeys(accounts, SystemClock())
        self.settings = settings

    async def push(self) -> list[str]:
        async with self.system() as system:
            return await push_accounts(system, self.keys)

    def system(self) -> BusConnection:
        return BusConnection(self.settings, self.keys.system_logins("a test"), "system")

    def control(self) -> BusConnection:
        return BusConnection(self.settings, self.keys.control_logins("a test"), "control")

    def cell(self, cell: CellName = C1) -> BusConnection:
        return BusConnection(self.settings, self.keys.cell_logins(cell, "a test"), f"cell {cell}")

    async def agent(self, host: HostName, cell: CellName = C1, key: Key | None = None) -> BusConnection:
        """Make the connection of a host's agent; it is opened by its user."""
        key = key or new_key("user")
        claims = await self.keys.agent_claims(cell, host, key.public)
        return BusConnection(self.settings, agent_logins(host, lambda: key.seed, lambda: claims), f"agent {host}")


@asynccontextmanager
async def cloud_bus(
    directory: Path, count: int = 1, cells: tuple[CellName, ...] = (C1,), tls: Path | None = None
) -> AsyncIterator[CloudBus]:
    """Start servers whose accounts are there. directory: empty, for their files. tls: of a CA, with `nats.crt`."""
    database = open_database("sqlite://", "global")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        await create_all(database, "global")
        accounts = SqlBusAccounts(database)
        keys = AccountKeys(accounts, SystemClock())
        found = free_ports(3 * count)
        ports, leaf_ports, cluster = found[:count], found[count : 2 * count], found[2 * count :] if count > 1 else []
        servers = [NatsServer(directory, number, port) for number, port in enumerate(ports)]
        for number, server in enumerate(servers):
            options = ServerOptions(
                name=f"n{number}",
                listen=f"127.0.0.1:{server.port}",
                directory=directory / f"accounts{number}",
                certificate=tls and tls / "nats.crt",
                key=tls and tls / "nats.key",
                cluster_listen=f"127.0.0.1:{cluster[number]}" if cluster else "",
                routes=tuple(f"nats-route://127.0.0.1:{port}" for port in cluster),
                leaf_listen=f"127.0.0.1:{leaf_ports[number]}",
            )
            server.configure(await server_configuration(keys, options))
            server.start()
            stack.callback(server.kill)
        for server in servers:
            await server.until_ready()
        urls = tuple(f"nats://127.0.0.1:{server.port}" for server in servers)
        bus = CloudBus(servers, accounts, BusServers(urls=urls, ca_file=tls and tls / "ca.crt"), leaf_ports)
        for cell in cells:
            await keys.account(cell_account(cell))
        await bus.push()
        yield bus


@dataclass
class Leaf:
    """A leaf server. bus: the cloud's, as it is reached through this server."""

    server: NatsServer
    bus: CloudBus
    key: Key


@asynccontextmanager
async def leaf_server(hub: CloudBus, directory: Path, cells: tuple[CellName, ...] = (C1,)) -> AsyncIterator[Leaf]:
    """Start a leaf server for hosts of these cells. directory: empty, for its files."""
    [port] = free_ports(1)
    addresses = tuple(f"127.0.0.1:{each}" for each in hub.leaf_ports)
    joined = Hub(addresses=addresses, cells=cells, insecure=True, credentials=directory)
    options = ServerOptions(name="leaf", listen=f"127.0.0.1:{port}", directory=directory / "accounts")
    key, server = new_key("user"), NatsServer(directory, 9, port)
    for account, text in (await hub.keys.leaf_credentials("leaf", key, joined.accounts)).items():
        (directory / joined.file(account)).write_text(text)
    server.configure(await server_configuration(hub.keys, options, joined))
    server.start()
    try:
        await server.until_ready()
        yield Leaf(server, CloudBus([server], hub.accounts, BusServers(urls=(f"nats://127.0.0.1:{port}",))), key)
    finally:
        server.kill()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what another process brings about."""
    async with asyncio.timeout(HANG_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
