"""A leaf server of NATS: agents behind it are reached as others are, and it may do no more than relay for its cells."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg

from tests.nats_servers import C1, C2, CloudBus, Leaf, cloud_bus, leaf_server, until
from tests.processes import HANG_S
from whimbrel.adapters.bus.bus_view import read_bus
from whimbrel.adapters.bus.nats_connection import BusConnection, Heard, NoResponders
from whimbrel.adapters.bus.nats_keys import new_key
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import HostName

H1 = HostName("h1")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[CloudBus]:
    directory = tmp_path / "hub"
    directory.mkdir()
    async with cloud_bus(directory, cells=(C1, C2)) as bus:
        yield bus


@pytest.fixture
async def leaf(hub: CloudBus, tmp_path: Path) -> AsyncIterator[Leaf]:
    directory = tmp_path / "leaf"
    directory.mkdir()
    async with leaf_server(hub, directory) as started:
        yield started


def saying_yes(connection: BusConnection) -> Heard:
    async def answer(question: Msg) -> None:
        await connection.answer(question, b"yes", {})

    return answer


@asynccontextmanager
async def answering(connection: BusConnection, subject: str) -> AsyncIterator[BusConnection]:
    connection.add_listener(subject, saying_yes(connection))
    async with connection:
        await connection.connected()
        yield connection


async def answered(asking: BusConnection, subject: str) -> bytes:
    """Ask until somebody is known to listen, and answers."""
    async with asyncio.timeout(HANG_S):
        while True:
            try:
                return (await asking.ask(subject, b"?", 1)).data
            except Unavailable:
                await asyncio.sleep(0.02)


async def test_orders_and_reports_pass(hub: CloudBus, leaf: Leaf) -> None:
    agent, conductor = await leaf.bus.agent(H1), hub.cell(C1)
    async with answering(agent, "host.h1.1.look"), answering(conductor, "register.*"):
        assert await answered(conductor, "host.h1.1.look") == b"yes"
        assert await answered(agent, "register.h1") == b"yes"
        with pytest.raises(NoResponders):
            await conductor.ask("host.h2.1.look", b"?", HANG_S)
        async with hub.system() as system:
            [joined] = (await read_bus(system, hub.keys)).leaf_servers
        assert (joined.account, joined.server) == ("cell/c1", "n0")


async def test_it_is_there_again_after_its_link_was_cut(hub: CloudBus, leaf: Leaf) -> None:
    agent, conductor = await leaf.bus.agent(H1), hub.cell(C1)
    async with answering(agent, "host.h1.1.look"), conductor:
        assert await answered(conductor, "host.h1.1.look") == b"yes"
        hub.servers[0].kill()
        await until(lambda: not conductor.is_connected)
        assert agent.is_connected
        hub.servers[0].start()
        assert await answered(conductor, "host.h1.1.look") == b"yes"


async def test_a_revoked_host_is_cut_off_there_too(hub: CloudBus, leaf: Leaf) -> None:
    key = new_key("user")
    agent, conductor = await leaf.bus.agent(H1, key=key), hub.cell(C1)
    async with answering(agent, "host.h1.1.look"), conductor:
        assert await answered(conductor, "host.h1.1.look") == b"yes"
        await hub.keys.revoke(C1, key.public)
        await hub.push()
        await until(lambda: not agent.is_connected)
        with pytest.raises(NoResponders):
            await conductor.ask("host.h1.1.look", b"?", HANG_S)


async def test_what_was_revoked_while_it_was_down_is_refused_when_it_is_back(hub: CloudBus, leaf: Leaf) -> None:
    key = new_key("user")
    agent = await leaf.bus.agent(H1, key=key)
    leaf.server.kill()
    await hub.keys.revoke(C1, key.public)
    await hub.push()
    leaf.server.start()
    async with agent:
        await until(lambda: not agent.is_connected and "Violation" in agent.problem)


async def test_a_revoked_leaf_server_relays_nothing(hub: CloudBus, leaf: Leaf) -> None:
    agent, conductor = await leaf.bus.agent(H1), hub.cell(C1)
    async with answering(agent, "host.h1.1.look"), conductor:
        assert await answered(conductor, "host.h1.1.look") == b"yes"
        await hub.keys.revoke_leaf(leaf.key.public)
        await hub.push()
        async with asyncio.timeout(HANG_S):
            while True:
                try:
                    await conductor.ask("host.h1.1.look", b"?", HANG_S)
                except NoResponders:
                    break


async def test_its_key_admits_no_client(hub: CloudBus, leaf: Leaf) -> None:
    """Who has stolen it cannot use it for anything but a leaf server."""
    [text] = (await hub.keys.leaf_credentials("leaf", leaf.key, ["cell/c1"])).values()
    file = leaf.server.directory / "stolen.creds"
    file.write_text(text)
    errors: list[Exception] = []

    async def note(error: Exception) -> None:
        errors.append(error)

    with pytest.raises(nats.errors.Error):
        await nats.connect(
            hub.settings.urls[0],
            user_credentials=str(file),
            allow_reconnect=False,
            error_cb=note,
            connect_timeout=HANG_S,
        )


async def test_it_relays_for_its_cells_only(hub: CloudBus, leaf: Leaf) -> None:
    other, conductor = await leaf.bus.agent(H1, C2), hub.cell(C2)
    other.add_listener("host.h1.1.look", saying_yes(other))
    async with other, conductor:
        await conductor.connected()
        await until(lambda: other.is_connected or "Violation" in other.problem)
        with pytest.raises(NoResponders):
            await conductor.ask("host.h1.1.look", b"?", HANG_S)
