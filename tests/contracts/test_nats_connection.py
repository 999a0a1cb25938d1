"""What callers may count on while servers of NATS come and go: an answer, or Unavailable; never a late order."""

import asyncio
import signal
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from nats.aio.msg import Msg

from tests.host_room import H1, Room, spec
from tests.nats_servers import C1, CloudBus, cloud_bus, until
from tests.processes import HANG_S
from whimbrel.adapters.bus.bus_servers import BusServers
from whimbrel.adapters.bus.compressed import LARGE, compress, decompress
from whimbrel.adapters.bus.nats_agents import SENT_AT, TIMEOUT, NatsAgents, serve_agent
from whimbrel.adapters.bus.nats_connection import BusConnection, NoResponders, check_version
from whimbrel.adapters.bus.nats_keys import Login, new_key
from whimbrel.adapters.bus.nats_subjects import order_subject
from whimbrel.adapters.clock import since_boot
from whimbrel.adapters.private_ca import PrivateCa
from whimbrel.domain.errors import Invalid, Refused, Unavailable
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.agent import Agent

KEY = spec().key
SESSION = 7


class Counting:
    """An agent of which only one verb is called; it keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.log = ""

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        assert lines is not None
        self.asked.append(lines)
        await asyncio.sleep(0)
        return self.log or f"line {lines}"


async def session_of(_: HostName) -> int:
    return SESSION


@asynccontextmanager
async def serving(bus: CloudBus, agent: object) -> AsyncIterator[tuple[BusConnection, BusConnection]]:
    """Serve an agent of h1; give the connections of a conductor and of the agent."""
    async with bus.cell() as conductor, await bus.agent(H1) as connection:
        await conductor.connected()
        await connection.connected()
        async with serve_agent(connection, H1, SESSION, agent):  # type: ignore[arg-type]
            yield conductor, connection


async def test_no_order_is_lost_silently_when_the_server_is_killed_under_load(bus: CloudBus) -> None:
    agent, [server] = Counting(), bus.servers
    answered: list[int] = []
    unavailable: list[int] = []
    numbers = iter(range(1_000_000))
    is_over = asyncio.Event()

    async def call_again_and_again(at: Agent) -> None:
        while not is_over.is_set():
            number = next(numbers)
            try:
                assert await at.console_log(KEY, number) == f"line {number}"
                answered.append(number)
            except Unavailable:
                unavailable.append(number)

    async def until_answered(more: int) -> None:
        enough = len(answered) + more
        await until(lambda: len(answered) >= enough)

    async with serving(bus, agent) as (conductor, _):
        agents = NatsAgents(conductor, session_of, timeout_s=HANG_S)
        callers = [asyncio.create_task(call_again_and_again(agents.at(H1))) for _ in range(16)]
        for _ in range(3):
            await until_answered(200)
            server.kill()
            server.start()
        await until_answered(200)
        is_over.set()
        await asyncio.gather(*callers)
    assert sorted(answered + unavailable) == list(range(next(numbers))), "each has one result"
    assert set(answered) <= set(agent.asked)
    assert len(agent.asked) == len(set(agent.asked)), "none is delivered twice"


async def test_of_a_cluster_one_server_may_be_killed(tmp_path: Path) -> None:
    agent = Counting()
    async with cloud_bus(tmp_path, count=3) as bus, serving(bus, agent) as (conductor, _):
        at = NatsAgents(conductor, session_of, timeout_s=HANG_S).at(H1)
        for number, server in enumerate(bus.servers):
            while True:  # until all have found each other again
                try:
                    assert await at.console_log(KEY, number) == f"line {number}"
                    break
                except Unavailable:
                    await asyncio.sleep(0.01)
            server.kill()
            server.start()
            await server.until_ready()
        assert set(agent.asked) == {0, 1, 2}


async def test_what_was_not_sent_is_not_sent_later(bus: CloudBus) -> None:
    agent, [server] = Counting(), bus.servers
    async with serving(bus, agent) as (conductor, connection):
        agents = NatsAgents(conductor, session_of, timeout_s=0.01)
        server.kill()
        for number in range(20):
            with pytest.raises(Unavailable):
                await agents.at(H1).console_log(KEY, number)
        server.start()
        await conductor.connected()
        await connection.connected()
        assert await NatsAgents(conductor, session_of, HANG_S).at(H1).console_log(KEY, 99) == "line 99"
    assert agent.asked == [99]


async def test_a_question_waits_for_a_lost_connection(bus: CloudBus) -> None:
    agent, [server] = Counting(), bus.servers
    async with serving(bus, agent) as (conductor, connection):
        server.kill()
        await until(lambda: not (conductor.is_connected or connection.is_connected))
        server.start()
        waiting = asyncio.create_task(conductor.ask(order_subject(H1, SESSION, "console_log"), b"", HANG_S))
        await asyncio.sleep(0)
        assert not waiting.done()
        with suppress(NoResponders):  # it was sent, but the agent was not back yet
            await waiting


async def test_who_waits_is_told_when_the_connection_is_lost(bus: CloudBus) -> None:
    asked = asyncio.Event()

    async def never_answer(_: Msg) -> None:
        asked.set()

    async with bus.cell() as conductor, await bus.agent(H1) as connection:
        await connection.connected()
        async with connection.listen("host.h1.7.*", never_answer):
            call = asyncio.create_task(NatsAgents(conductor, session_of, HANG_S).at(H1).look(KEY))
            await asked.wait()
            bus.servers[0].kill()
            with pytest.raises(Unavailable, match="was lost before the answer came"):
                await call


async def test_a_server_that_hangs_is_left(tmp_path: Path) -> None:
    async with cloud_bus(tmp_path) as bus:
        [server] = bus.servers
        login = bus.keys.cell_logins(C1, "impatient")
        async with BusConnection(bus.settings, login, "impatient", ping_s=0.05) as conductor:
            await conductor.connected()
            server.signal(signal.SIGSTOP)
            await until(lambda: not conductor.is_connected)
            server.signal(signal.SIGCONT)
            await conductor.connected()


async def test_an_absent_agent_is_known_at_once(bus: CloudBus) -> None:
    async with bus.cell() as conductor:
        agents = NatsAgents(conductor, session_of, timeout_s=HANG_S)
        with pytest.raises(Unavailable, match="the agent of host h1 is not connected"):
            await agents.at(H1).guests()


async def test_a_session_is_read_again_when_nobody_listens(bus: CloudBus) -> None:
    sessions = iter((0, SESSION - 1, SESSION))

    async def newest(_: HostName) -> int:
        return next(sessions)

    async with serving(bus, Counting()) as (conductor, _):
        agents = NatsAgents(conductor, newest, HANG_S, session_s=HANG_S)
        with pytest.raises(Unavailable, match="has had no agent yet"):
            await agents.at(H1).guests()
        for number in range(3):
            assert await agents.at(H1).console_log(KEY, number) == f"line {number}"
    assert list(sessions) == []


async def test_an_order_that_nobody_waits_for_any_more_is_not_executed(bus: CloudBus) -> None:
    agent = Counting()

    async def send(conductor: BusConnection, number: int, ago_s: float, timeout_s: float) -> None:
        headers = {SENT_AT: f"{since_boot() - ago_s}", TIMEOUT: "30"}
        body = f'{{"key":{{"server":"s","slot":"o"}},"lines":{number}}}'.encode()
        await conductor.ask(order_subject(H1, SESSION, "console_log"), body, timeout_s, headers)

    async with serving(bus, agent) as (conductor, _):
        await send(conductor, 1, ago_s=3600.0, timeout_s=HANG_S)  # the first message of a sender tells nothing
        await send(conductor, 2, ago_s=0.0, timeout_s=HANG_S)
        with pytest.raises(Unavailable, match="no answer"):
            await send(conductor, 3, ago_s=31.0, timeout_s=0.01)
        await send(conductor, 4, ago_s=0.0, timeout_s=HANG_S)
    assert agent.asked == [1, 2, 4]


async def test_large_answers_are_compressed_and_larger_ones_are_unavailable(bus: CloudBus) -> None:
    agent = Counting()
    async with serving(bus, agent) as (conductor, _):
        at = NatsAgents(conductor, session_of, timeout_s=HANG_S).at(H1)
        agent.log = "login: \n" * 4_000_000
        assert await at.console_log(KEY, 1) == agent.log
        agent.log = b64encode(Random(1).randbytes(12 * 1024 * 1024)).decode()  # not much becomes smaller
        with pytest.raises(Unavailable, match="raise max_payload"):
            await at.console_log(KEY, 2)


async def test_an_order_that_is_too_large_is_refused(bus: CloudBus) -> None:
    async with serving(bus, Counting()) as (conductor, _):
        with pytest.raises(Refused, match="raise max_payload"):
            await conductor.ask(order_subject(H1, SESSION, "look"), bytes(9 * 1024 * 1024), HANG_S)


def test_what_is_small_is_sent_as_it_is() -> None:
    assert compress(b"x" * (LARGE - 1)) == (b"x" * (LARGE - 1), {})
    body, headers = compress(b"x" * LARGE)
    assert len(body) < LARGE / 20
    assert decompress(body, headers) == b"x" * LARGE


@pytest.mark.parametrize("body", [b"no deflate", compress(b"x" * LARGE)[0][:-1], compress(bytes(65 * 1024 * 1024))[0]])
def test_what_is_not_readable_or_becomes_huge_is_unavailable(body: bytes) -> None:
    with pytest.raises(Unavailable, match="compressed message"):
        decompress(body, {"Content-Encoding": "deflate"})


@pytest.mark.parametrize("url", ["nats://n1.example:4222", "nats://10.0.0.1:4222", "nats://[2001:db8::1]:4222"])
def test_without_tls_only_this_machine_is_reached(url: str) -> None:
    with pytest.raises(Invalid, match="without TLS"):
        BusServers(urls=("nats://127.0.0.1:4222", url))
    assert not BusServers(urls=(url,), insecure=True).uses_tls
    assert BusServers(urls=(url,), ca_file=Path("ca.crt")).uses_tls
    assert BusServers(urls=(url.replace("nats:", "tls:"),)).uses_tls


@pytest.mark.parametrize("url", ["", "n1", "http://n1", "nats://", "nats://user:secret@127.0.0.1", "ws://127.0.0.1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="no address of a NATS server"):
        BusServers(urls=(url,))
    with pytest.raises(Invalid, match="no server"):
        BusServers(urls=())


def test_an_old_server_is_refused_with_a_sentence() -> None:
    for version in ("2.2.0", "2.9.10", "2.12.1-beta.1", "3.0", "built by hand"):
        check_version(version)
    for version in ("2.1.9", "1.4.1", "0.9"):
        with pytest.raises(Unavailable, match=r"2\.2 or newer is needed"):
            check_version(version)


@pytest.fixture
async def tls_bus(tmp_path: Path) -> AsyncIterator[CloudBus]:
    """A server with a certificate of a CA of its own, and another CA in `other`."""
    now = datetime.now(UTC)
    for name in ("own", "other"):
        ca = PrivateCa(tmp_path / name)
        ca.create(name, 10, now)
        ca.issue("nats", ["127.0.0.1"], "server", None, now)
    directory = tmp_path / "nats"
    directory.mkdir()
    async with cloud_bus(directory, tls=tmp_path / "own") as bus:
        yield bus


async def test_over_tls_only_servers_of_the_pinned_authority_are_spoken_to(tls_bus: CloudBus, tmp_path: Path) -> None:
    async with serving(tls_bus, Room().agents[H1]) as (conductor, _):
        assert await NatsAgents(conductor, session_of, HANG_S).at(H1).guests() == []
    for ca_file in (tmp_path / "other" / "ca.crt", None):
        settings = replace(tls_bus.settings, ca_file=ca_file, urls=(f"tls://127.0.0.1:{tls_bus.servers[0].port}",))
        async with BusConnection(settings, tls_bus.keys.cell_logins(C1, "a test"), "other") as lost:
            await until(lambda: "certificate" in lost.problem)
            assert not lost.is_connected


async def test_a_server_that_says_it_has_no_tls_is_told_nothing(bus: CloudBus, tmp_path: Path) -> None:
    """Who is between us and the server could say so, to read everything."""
    PrivateCa(tmp_path / "own").create("own", 10, datetime.now(UTC))
    settings = replace(bus.settings, ca_file=tmp_path / "own" / "ca.crt")
    async with BusConnection(settings, bus.keys.cell_logins(C1, "a test"), "pinned") as lost:
        await until(lambda: "does not offer TLS" in lost.problem)
        assert not lost.is_connected


async def test_it_comes_back_when_it_was_refused(bus: CloudBus) -> None:
    """Claims may be renewed, and accounts stored, while a process runs."""
    stranger, logins, is_admitted = new_key("user"), bus.keys.cell_logins(C1, "a test"), False

    async def login() -> Login:
        valid = await logins()
        return valid if is_admitted else valid._replace(seed=stranger.seed)

    async with BusConnection(bus.settings, login, "late") as late:
        await until(lambda: "Authorization Violation" in late.problem)
        is_admitted = True
        await late.connected()
