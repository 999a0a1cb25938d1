"""What a program can do with the key of one host: speak for this host, and nothing else.

It talks to a real server of NATS by itself. The server reports what it refuses before it answers the next ping, so that
after a flush all refusals are known.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.host_room import H1, H2, Room, order, spec
from tests.nats_servers import C1, C2, CloudBus, cloud_bus
from tests.processes import HANG_S
from whimbrel.adapters.bus.account_keys import agent_logins
from whimbrel.adapters.bus.bus_servers import BusServers
from whimbrel.adapters.bus.nats_agents import NatsAgents, serve_agent
from whimbrel.adapters.bus.nats_connection import BusConnection, flush
from whimbrel.adapters.bus.nats_keys import Key, Permissions, new_key, read_claims, sign_nonce, user_jwt
from whimbrel.adapters.bus.nats_subjects import agent_inbox, cell_account
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.hosts.agent import Agents

KEY = spec().key
SESSION = 7


class Intruder:
    """A client with a key and claims, which may be stolen or forged."""

    def __init__(self) -> None:
        self.client = Client()
        self.ended = asyncio.Event()
        self._refused: list[str] = []

    async def connect(self, bus: CloudBus, claims: str, seed: str) -> None:
        await self.client.connect(
            list(bus.settings.urls), error_cb=self._note, closed_cb=self._close, allow_reconnect=False,
            max_reconnect_attempts=1, reconnect_time_wait=0,
            user_jwt_cb=lambda: claims.encode(), signature_cb=lambda nonce: sign_nonce(seed, nonce),
        )  # fmt: skip

    async def _note(self, error: Exception) -> None:
        if found := re.search(r'violation for \w+ to "(.*?)"', str(error)):
            self._refused.append(found[1])

    async def _close(self) -> None:
        self.ended.set()

    async def refused(self) -> list[str]:
        """Return the subjects, in small letters, that the server has refused since the last call."""
        await flush(self.client, HANG_S)
        found, self._refused[:] = list(self._refused), []
        return found


@asynccontextmanager
async def intruder(bus: CloudBus, claims: str, seed: str) -> AsyncIterator[Intruder]:
    one = Intruder()
    await one.connect(bus, claims, seed)
    try:
        yield one
    finally:
        await one.client.close()


@asynccontextmanager
async def of_h1(bus: CloudBus, cell: CellName = C1) -> AsyncIterator[Intruder]:
    """The key of h1 was stolen."""
    key = new_key("user")
    async with intruder(bus, await bus.keys.agent_claims(cell, H1, key.public), key.seed) as stolen:
        yield stolen


async def session_of(_: HostName) -> int:
    return SESSION


@asynccontextmanager
async def serving(bus: CloudBus, room: Room, host: HostName, cell: CellName = C1) -> AsyncIterator[BusConnection]:
    async with await bus.agent(host, cell) as connection:
        await connection.connected()
        async with serve_agent(connection, host, SESSION, room.agents[host]):
            yield connection


@asynccontextmanager
async def conductor(bus: CloudBus, cell: CellName = C1) -> AsyncIterator[Agents]:
    async with bus.cell(cell) as connection:
        yield NatsAgents(connection, session_of)


async def test_its_own_subjects_are_open(bus: CloudBus) -> None:
    """The others tests would pass if nothing was allowed at all."""
    async with of_h1(bus) as stolen:
        for subject in ("host.h1.>", "host.h1.7.*", "host.h1.8.stop", f"{agent_inbox(H1)}.x.*"):
            await stolen.client.subscribe(subject)
        for subject in ("register.h1", "beat.h1", "describe.h1", "grant.h1"):
            await stolen.client.publish(subject)
        assert await stolen.refused() == []


@pytest.mark.parametrize(
    "subject",
    [">", "*", "*.>", "host.>", "host.*.7.stop", "host.*.>", "host.h2.>", "host.h2.7.stop", "host.h1",
     "host.h10.7.stop", "register.>", "register.h1", "beat.*", "wake.>", "_INBOX.>", "_INBOX.*.*.*", "_INBOX_h2.>",
     "$SYS.>", "$SYS.REQ.>"],
)  # fmt: skip
async def test_it_reads_no_orders_and_answers_of_others(bus: CloudBus, subject: str) -> None:
    async with of_h1(bus) as stolen:
        await stolen.client.subscribe(subject)
        assert await stolen.refused() == [subject.lower()]
        await stolen.client.subscribe(subject, queue="control")
        assert await stolen.refused() == [subject.lower()]


@pytest.mark.parametrize(
    "subject",
    ["host.h2.7.stop", "host.h1.7.stop", "beat.h2", "register.h2", "describe.h2", "grant.h2", "register.h1.x", "beat",
     "wake.fleet", "_INBOX_h2.x.1", "_INBOX_h1.x.1", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.ACCOUNT.PING.CONNZ"],
)  # fmt: skip
async def test_it_orders_nobody_and_speaks_for_nobody_else(bus: CloudBus, subject: str) -> None:
    async with of_h1(bus) as stolen:
        await stolen.client.publish(subject, b"{}", reply=f"{agent_inbox(H1)}.x.1")
        assert await stolen.refused() == [subject.lower()]


async def test_it_answers_its_own_orders_only_and_each_once(bus: CloudBus) -> None:
    room = Room()
    asked: asyncio.Queue[Msg] = asyncio.Queue()
    async with of_h1(bus) as stolen, serving(bus, room, H2), conductor(bus) as agents:
        await stolen.client.subscribe("host.h1.*.*", cb=asked.put)
        await stolen.refused()
        question = asyncio.create_task(agents.at(H1).look(KEY))
        mine = await asked.get()
        inbox, _, number = mine.reply.rpartition(".")
        theirs = f"{inbox}.{int(number) + 1}"  # the next question, which will be to h2
        await stolen.client.publish(theirs, b"null")
        assert await stolen.refused() == [theirs.lower()]
        await stolen.client.publish(mine.reply, b"null")
        assert await question is None
        await stolen.client.publish(mine.reply, b"null")
        assert await stolen.refused() == [mine.reply.lower()]
        assert await agents.at(H2).guests() == []


async def test_another_cell_does_not_hear_it_and_it_does_not_hear_another_cell(bus: CloudBus) -> None:
    """The same host names, the same subjects: accounts are what is apart."""
    room = Room()
    heard: asyncio.Queue[Msg] = asyncio.Queue()
    async with of_h1(bus) as stolen, serving(bus, room, H1, C2), conductor(bus, C2) as there, bus.cell(C2) as control:
        await stolen.client.subscribe("host.h1.>", cb=heard.put)
        await control.connected()
        async with control.listen("beat.*", heard.put):
            await stolen.client.publish("beat.h1", b"{}")
            assert await stolen.refused() == []
            assert await there.at(H1).guests() == []
            with pytest.raises(Unavailable, match="not connected"):
                await there.at(H2).guests()
        await stolen.refused()
        assert heard.empty()


async def test_claims_that_the_cell_has_not_signed_admit_nobody(bus: CloudBus) -> None:
    key, own = new_key("user"), new_key("account")
    account = await bus.keys.account("cell/c2")
    everything = Permissions([">"], [">"])
    for claimed in (own, Key(account.public_key, own.seed)):
        forged = user_jwt(claimed, "agent h1", key.public, 4e9, 60.0, everything)
        with pytest.raises(nats.errors.Error, match="Authorization Violation"):
            async with intruder(bus, forged, key.seed):
                pass


async def test_claims_without_the_key_admit_nobody(bus: CloudBus) -> None:
    """Whoever reads claims, in a backup or on the network, cannot use them."""
    key, other = new_key("user"), new_key("user")
    claims = await bus.keys.agent_claims(C1, H1, key.public)
    async with intruder(bus, claims, key.seed):
        pass
    with pytest.raises(nats.errors.Error, match="Authorization Violation"):
        async with intruder(bus, claims, other.seed):
            pass


async def test_claims_end(bus: CloudBus) -> None:
    key = new_key("user")
    claims = await bus.keys.agent_claims(C1, H1, key.public, valid_s=-1.0)
    with pytest.raises(nats.errors.Error, match="Authorization Violation"):
        async with intruder(bus, claims, key.seed):
            pass


async def test_a_retired_key_is_thrown_out_and_stays_out(bus: CloudBus) -> None:
    key, other = new_key("user"), new_key("user")
    claims = await bus.keys.agent_claims(C1, H1, key.public)
    async with intruder(bus, claims, key.seed) as stolen, serving(bus, Room(), H2), conductor(bus) as agents:
        await bus.keys.revoke(C1, key.public)
        assert await bus.push() == ["cell/c1"]
        await stolen.ended.wait()
        with pytest.raises(nats.errors.Error, match=r"(?i)authorization violation|revoked"):
            async with intruder(bus, claims, key.seed):
                pass
        assert await agents.at(H2).guests() == [], "other hosts go on"
    rejoined = await bus.keys.agent_claims(C1, H1, other.public)
    async with intruder(bus, rejoined, other.seed) as again:
        assert await again.refused() == []


async def test_an_agent_that_is_not_admitted_any_more_says_what_to_do(bus: CloudBus) -> None:
    key = new_key("user")
    claims = await bus.keys.agent_claims(C1, H1, key.public)
    logins = agent_logins(H1, lambda: key.seed, lambda: claims)
    async with BusConnection(bus.settings, logins, "agent", advice="invite it again") as agent:
        await agent.connected(HANG_S)
        await bus.keys.revoke(C1, key.public)
        assert await bus.push() == ["cell/c1"]
        async with asyncio.timeout(HANG_S):
            while "invite it again" not in agent.problem:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not agent.is_connected


async def test_a_server_that_was_down_learns_who_was_retired(tmp_path: Path) -> None:
    """It has the account as it was; the other server of its cluster has the newest."""
    key = new_key("user")
    async with cloud_bus(tmp_path, count=2) as bus:
        down, claims = bus.servers[1], await bus.keys.agent_claims(C1, H1, key.public)
        there = CloudBus([down], bus.accounts, BusServers(urls=(f"nats://127.0.0.1:{down.port}",)))
        async with intruder(there, claims, key.seed):
            pass
        down.kill()
        await bus.keys.revoke(C1, key.public)
        assert await bus.push() == ["cell/c1"]
        down.start()
        await down.until_ready()
        with suppress(nats.errors.Error):  # refused already
            async with intruder(there, claims, key.seed) as stolen:
                await stolen.ended.wait()
        with pytest.raises(nats.errors.Error, match=r"(?i)authorization violation|revoked"):
            async with intruder(there, claims, key.seed):
                pass


async def test_a_restored_database_admits_no_retired_key(bus: CloudBus) -> None:
    """It has the account as it was before; the servers keep what was signed last."""
    key = new_key("user")
    claims = await bus.keys.agent_claims(C1, H1, key.public)
    before = await bus.keys.account(cell_account(C1))
    await bus.keys.revoke(C1, key.public)
    await bus.push()
    newest = await bus.keys.account(cell_account(C1))
    await bus.accounts.replace_jwt(before.name, newest.jwt, before.jwt)
    assert await bus.push() == ["cell/c1"]
    assert await bus.push() == []
    with pytest.raises(nats.errors.Error, match=r"(?i)authorization violation|revoked"):
        async with intruder(bus, claims, key.seed):
            pass
    other = new_key("user")
    await bus.keys.revoke(C1, other.public)
    assert await bus.push() == ["cell/c1"]
    assert set(read_claims((await bus.keys.account(cell_account(C1))).jwt).nats["revocations"]) == {
        key.public,
        other.public,
    }


async def test_of_two_agents_of_a_host_the_newer_one_hears_orders(bus: CloudBus) -> None:
    """A machine was cloned, or came back after its agent had been replaced: both have the key."""
    old, new = Room(), Room()
    newest = 1
    key = new_key("user")

    async def session_of(_: HostName) -> int:
        return newest

    async with await bus.agent(H1, key=key) as first, await bus.agent(H1, key=key) as second, bus.cell() as process:
        agents = NatsAgents(process, session_of, session_s=0.0)
        await first.connected()
        await second.connected()
        async with serve_agent(first, H1, 1, old.agents[H1]):
            await agents.at(H1).prepare(order(), spec())
            async with serve_agent(second, H1, 2, new.agents[H1]):
                newest = 2
                await agents.at(H1).prepare(order(), spec("server-2"))
            with pytest.raises(Unavailable, match="not connected"):
                await agents.at(H1).prepare(order(), spec("server-3"))
        assert [guest.key.server for guest in await old.agents[H1].guests()] == ["server-1"]
        assert [guest.key.server for guest in await new.agents[H1].guests()] == ["server-2"]


async def test_answers_of_two_agents_of_a_host_do_not_meet(bus: CloudBus) -> None:
    """Both have the same inbox by their claims; each hears what it asked for itself."""
    key = new_key("user")
    async with await bus.agent(H1, key=key) as first, await bus.agent(H1, key=key) as second, bus.cell() as process:

        async def echo(message: Msg) -> None:
            await process.answer(message, message.data, {})

        await process.connected()
        async with process.listen("beat.*", echo):
            texts = [f"{who}{number}".encode() for number in range(20) for who in "ab"]
            calls = [(first if text.startswith(b"a") else second).ask("beat.h1", text, 60.0) for text in texts]
            assert [message.data for message in await asyncio.gather(*calls)] == texts
