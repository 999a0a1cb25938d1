"""Microseconds of processor time per order, by bus: the caller's, the agent's and the server's between them.

Each order asks a host's agent to start a guest that runs already: the agent checks its fence and looks at the guest.
The agent is a process of its own, except for the bus within a process.
"""

import asyncio
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import uvicorn
import uvloop
from figures import processor_s, report

from whimbrel.adapters.bus.account_keys import AccountKeys, agent_logins
from whimbrel.adapters.bus.account_store import push_accounts
from whimbrel.adapters.bus.agent_client import HttpAgents
from whimbrel.adapters.bus.agent_server import agents_app
from whimbrel.adapters.bus.bus_servers import BusServers
from whimbrel.adapters.bus.local import LocalAgents
from whimbrel.adapters.bus.nats_agents import NatsAgents, serve_agent
from whimbrel.adapters.bus.nats_connection import BusConnection
from whimbrel.adapters.bus.nats_keys import new_key
from whimbrel.adapters.bus.nats_subjects import cell_account
from whimbrel.adapters.bus.server_configuration import ServerOptions, server_configuration
from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.global_.bus_accounts import SqlBusAccounts
from whimbrel.agent.agent import HostAgent
from whimbrel.domain.guest import Capacity, GuestKey, GuestSpec, Order
from whimbrel.domain.ids import CellName, HostName, ProjectId, RunId, ServerId, Slot
from whimbrel.ports.hosts.agent import Agent, Agents
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.hypervisor import SimulatedHypervisor
from whimbrel.sim.world.images import MemoryImages
from whimbrel.sim.world.phases import Times

HOST, CELL, IMAGE, SECRET = HostName("h1"), CellName("c1"), "image", "secret"
ORDER = Order(RunId("run"), 1)
SPEC = GuestSpec(
    key=GuestKey(ServerId("server"), Slot("run")), name="server", vcpus=1, memory_mib=64, root_gib=1, image_id=IMAGE,
    project_id=ProjectId("project"),
)  # fmt: skip
ORDERS = {1: 2000, 32: 8000}
"""Orders in flight -> how many are measured."""


async def real_agent() -> HostAgent:
    """Return an agent whose guest runs."""
    clock, store, images = SystemClock(), MemoryKeyValueStore(), MemoryImages({IMAGE: b"tick"})
    capacity = Capacity(vcpus=4, memory_mib=4096, disk_gib=40, hypervisor_type="simulated", hypervisor_version=1)
    hypervisor = SimulatedHypervisor(
        HOST, SimulatedWorld(), store, Times(), clock, cell=CELL, capacity=capacity, images=images
    )
    agent = HostAgent(HOST, hypervisor, store, images, clock)
    await agent.open()
    await agent.prepare(ORDER, SPEC)
    while not (await agent.build_disk(ORDER, SPEC)).finished:
        await asyncio.sleep(0.01)
    await agent.define(ORDER, SPEC)
    await agent.start(ORDER, SPEC.key)
    return agent


# The agent's process


async def serve_http(port: str) -> None:
    agent = await real_agent()
    app = agents_app(LocalAgents({HOST: agent}), SECRET)
    await uvicorn.Server(uvicorn.Config(app, port=int(port), log_level="error", access_log=False)).serve()


async def serve_nats(url: str, seed: str, claims: str) -> None:
    agent = await real_agent()
    logins = agent_logins(HOST, seed, lambda: claims)
    async with BusConnection(BusServers(urls=(url,)), logins, "agent") as bus, serve_agent(bus, HOST, 1, agent):
        await asyncio.Event().wait()


# The caller's process


@asynccontextmanager
async def in_process() -> AsyncIterator[tuple[Agents, list[int]]]:
    yield LocalAgents({HOST: await real_agent()}, 30.0), []


@asynccontextmanager
async def over_http() -> AsyncIterator[tuple[Agents, list[int]]]:
    async with AsyncExitStack() as stack:
        port = free_port()
        agent = started(stack, [sys.executable, __file__, "serve_http", str(port)])
        client = await stack.enter_async_context(httpx.AsyncClient(limits=httpx.Limits(max_connections=200)))
        yield HttpAgents(f"http://127.0.0.1:{port}", SECRET, client), [agent]


@asynccontextmanager
async def over_nats() -> AsyncIterator[tuple[Agents, list[int]]]:
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="whimbrel-bench-")))
        database = open_database("sqlite://", "global")
        stack.push_async_callback(database.close)
        await create_all(database, "global")
        keys, port = AccountKeys(SqlBusAccounts(database), SystemClock()), free_port()
        options = ServerOptions(listen=f"127.0.0.1:{port}", directory=directory / "accounts")
        (directory / "nats.conf").write_text(await server_configuration(keys, options))
        program = shutil.which("nats-server") or sys.exit("no nats-server; install it with: apt install nats-server")
        server = started(stack, [program, "-c", str(directory / "nats.conf"), "-l", str(directory / "log")])
        servers = BusServers(urls=(f"nats://127.0.0.1:{port}",))
        await keys.account(cell_account(CELL))
        async with BusConnection(servers, keys.system_logins("bench"), "bench") as system:
            await system.connected()
            await push_accounts(system, keys)
        key = new_key("user")
        claims = await keys.agent_claims(CELL, HOST, key.public)
        agent = started(stack, [sys.executable, __file__, "serve_nats", servers.urls[0], key.seed, claims])
        bus = await stack.enter_async_context(BusConnection(servers, keys.cell_logins(CELL, "bench"), "bench"))
        yield NatsAgents(bus, session_of), [agent, server]


async def session_of(_: HostName) -> int:
    return 1


def started(stack: AsyncExitStack, command: list[str]) -> int:
    process = subprocess.Popen(command)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process.pid


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


async def until_there(agent: Agent) -> None:
    for _ in itertools.count():
        try:
            await agent.start(ORDER, SPEC.key)
        except Exception:
            await asyncio.sleep(0.05)
        else:
            return


async def measured(agent: Agent, pids: list[int], at_once: int, count: int) -> dict[str, float]:
    """Return microseconds per order: of the caller, of the other processes, and of the wall clock."""
    left = iter(range(count))

    async def order() -> None:
        for _ in left:
            await agent.start(ORDER, SPEC.key)

    before, began = [processor_s(pid) for pid in pids], time.monotonic()
    await asyncio.gather(*(order() for _ in range(at_once)))
    took = time.monotonic() - began
    used = [processor_s(pid) - each for pid, each in zip(pids, before, strict=True)]
    names = ("caller_us", "agent_us", "server_us")
    figures = {name: each / count * 1e6 for name, each in zip(names, used, strict=False)}
    return {**figures, "together_us": sum(used) / count * 1e6, "wall_us": took / count * 1e6}


async def bench() -> None:
    for way in (in_process, over_http, over_nats):
        async with way() as (agents, pids):
            agent = agents.at(HOST)
            await until_there(agent)
            for at_once, count in ORDERS.items():
                await measured(agent, [os.getpid(), *pids], at_once, count // 10)
                figures = await measured(agent, [os.getpid(), *pids], at_once, count)
                report(f"order {way.__name__.replace('_', ' ')}", at_once=at_once, orders=count, **figures)


if __name__ == "__main__":
    _, *words = sys.argv
    uvloop.run({"serve_http": serve_http, "serve_nats": serve_nats}[words[0]](*words[1:]) if words else bench())
