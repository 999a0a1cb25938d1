"""A host's console relay: it hands a console to the client with its ticket, once, and to no other one."""

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from tests.processes import HANG_S
from whimbrel.agent.console_relay import LOOPBACK, ConsoleListen, ConsoleRelay
from whimbrel.domain.console import ConsoleAddress
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.embedded.console import relay_client

LARGE = 4 << 20


class Echo:
    """A console that echoes. It takes input only as fast as it is read."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self._bytes: asyncio.Queue[bytes] = asyncio.Queue(1)

    async def read(self) -> bytes:
        return await self._bytes.get()

    async def write(self, data: bytes) -> None:
        await self._bytes.put(data)

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
async def relay() -> AsyncIterator[ConsoleRelay]:
    relay = ConsoleRelay(LOOPBACK)
    yield relay
    await relay.close()


async def reads(address: ConsoleAddress, wanted: int = 1) -> bytes:
    """Connect, send a line, and return what comes back; b"": the connection ended."""
    client, found = await relay_client.connect(address), b""
    await client.write(b"hello")
    async with asyncio.timeout(HANG_S):
        while len(found) < wanted and (data := await client.read()):
            found += data
    client.close()
    return found


async def test_a_ticket_opens_its_console_once(relay: ConsoleRelay) -> None:
    first, second = Echo(), Echo()
    one, two = await relay.offer(first), await relay.offer(second)
    assert (one.host, one.port, one.certificate) == (two.host, two.port, two.certificate)
    assert await reads(one) == b"hello"
    async with asyncio.timeout(HANG_S):
        await first.closed.wait()
    assert not second.closed.is_set()
    assert await reads(one) == b""
    assert await reads(two) == b"hello"


async def test_without_a_ticket_there_is_nothing(relay: ConsoleRelay) -> None:
    console = Echo()
    address = await relay.offer(console)
    for wrong in ("", "wrong", address.ticket[:-1], "x" * (1 << 17)):
        assert await reads(replace(address, ticket=wrong)) == b""
    plain, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(f"{address.ticket}\n".encode())  # without TLS
    async with asyncio.timeout(HANG_S):
        assert b"hello" not in await plain.read()
    writer.close()
    assert not console.closed.is_set()
    assert await reads(address) == b"hello"


async def test_it_listens_only_while_a_ticket_waits(relay: ConsoleRelay) -> None:
    address = await relay.offer(Echo())
    assert await reads(address) == b"hello"
    with pytest.raises(Unavailable, match="cannot be reached"):
        await relay_client.connect(address)


async def test_an_open_connection_outlives_the_port(relay: ConsoleRelay) -> None:
    address = await relay.offer(Echo())
    client, sent = await relay_client.connect(address), b"x" * LARGE
    sending = asyncio.create_task(client.write(sent))
    found = 0
    async with asyncio.timeout(HANG_S):
        while found < LARGE:
            found += len(await client.read())
        await sending
    client.close()


async def test_a_ticket_expires() -> None:
    relay, console = ConsoleRelay(LOOPBACK, ticket_s=0.0), Echo()
    address = await relay.offer(console)
    async with asyncio.timeout(HANG_S):
        await console.closed.wait()
    with pytest.raises(Unavailable):
        await relay_client.connect(address)


async def test_another_host_is_not_believed(relay: ConsoleRelay) -> None:
    other = ConsoleRelay(LOOPBACK)
    here, there = await relay.offer(Echo()), await other.offer(Echo())
    with pytest.raises(Unavailable, match="certificate"):
        await relay_client.connect(replace(here, certificate=there.certificate))
    await other.close()


async def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(Refused, match=r"192\.0\.2\.1"):
        await ConsoleRelay(ConsoleListen("192.0.2.1")).offer(Echo())


async def test_only_new_tls_is_spoken(relay: ConsoleRelay) -> None:
    address = await relay.offer(Echo())
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        await asyncio.open_connection(address.host, address.port, ssl=old)
