"""Connections to real servers: what is repeated, what is not, and the errors of httpx's clients that use them."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from tests.http_server import Reply, Request, http_server
from whimbrel.adapters.openstack.connections import Connections
from whimbrel.adapters.openstack.steady_transport import SteadyTransport
from whimbrel.adapters.private_ca import PrivateCa
from whimbrel.domain.errors import Conflict, Unavailable


class Broken:
    """A service that drops connections, after the first answers."""

    def __init__(self, drops: int, answers: int = 0) -> None:
        self.drops = drops
        self.answers = answers
        self.asked = 0

    def __call__(self, request: Request) -> Reply:
        self.asked += 1
        if self.answers < self.asked <= self.answers + self.drops:
            return None
        return 200, request.body


@asynccontextmanager
async def client(retries: int = 0, verify: ssl.SSLContext | bool = False) -> AsyncIterator[httpx.AsyncClient]:
    connections = Connections(verify, retries=retries)
    try:
        yield httpx.AsyncClient(transport=SteadyTransport(connections), timeout=60)
    finally:
        await connections.close()


async def test_what_reads_is_repeated() -> None:
    service = Broken(2)
    async with http_server(service) as server, client(2) as asks:
        assert (await asks.get(server.url)).status_code == 200
    assert service.asked == 3


async def test_not_more_often_than_the_settings_say() -> None:
    service = Broken(2)
    async with http_server(service) as server, client(1) as asks:
        with pytest.raises(httpx.TransportError):
            await asks.get(server.url)
    assert service.asked == 2


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("answers", [0, 1])  # before: the connection is new, or was used
async def test_what_may_have_had_an_effect_is_not(method: str, answers: int) -> None:
    service = Broken(1, answers)
    async with http_server(service) as server, client(3) as asks:
        for _ in range(answers):
            await asks.get(server.url)
        with pytest.raises(httpx.TransportError):
            await asks.request(method, server.url, json={})
    assert service.asked == answers + 1


async def test_connections_are_kept() -> None:
    async with http_server(Broken(0)) as server, client() as asks:
        for _ in range(3):
            await asks.get(server.url)
        async with asks.stream("PUT", server.url, content=b"x" * 1000) as answer:
            assert answer.status_code == 200  # the rest is not read
        assert server.connections == 1
        await asks.get(server.url)


async def parts(failure: Exception | None = None) -> AsyncIterator[bytes]:
    yield b"one"
    if failure:
        raise failure
    yield b"two"


async def test_a_body_is_sent_as_it_is_read() -> None:
    async with http_server(Broken(0)) as server, client() as asks:
        answer = await asks.put(server.url, content=parts())
    assert answer.content == b"onetwo"
    assert server.asked[0].headers["transfer-encoding"] == "chunked"


async def test_the_error_of_a_bodys_source_is_the_callers() -> None:
    async with http_server(Broken(0)) as server, client() as asks:
        with pytest.raises(Conflict, match="of the source"):
            await asks.put(server.url, content=parts(Conflict("of the source")))


async def test_a_service_that_does_not_read_is_not_waited_for() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * (1 << 20)

    async with http_server(Broken(0), reads=False) as server, client() as asks:
        with pytest.raises(httpx.TimeoutException):
            await asks.put(server.url, content=endless(), timeout=httpx.Timeout(60, write=0.05))


async def test_a_service_that_does_not_answer_is_not_waited_for() -> None:
    async with http_server(Broken(0), reads=False) as server, client(1) as asks:
        with pytest.raises(httpx.TimeoutException):
            await asks.get(server.url, timeout=httpx.Timeout(60, read=0.05))


async def test_another_connection_that_fails_is_left_to_the_caller() -> None:
    async with http_server(Broken(0)) as server:
        pass
    async with client(1) as asks:
        with pytest.raises(httpx.ConnectError):
            await asks.put(server.url, content=parts())


# TLS


class Authority:
    """A CA of one's own, and the certificate of a server that it made."""

    def __init__(self, path: Path) -> None:
        self.path, now = path, datetime.now(UTC)
        authority = PrivateCa(path)
        authority.create("CA", 10, now)
        authority.issue("service", ["127.0.0.1"], "server", None, now)
        authority.issue("whimbrel", ["whimbrel"], "client", None, now)

    def server(self, *, wants_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.path / "ca.crt"))
        context.load_cert_chain(self.path / "service.crt", self.path / "service.key")
        if wants_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self, *, has_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.path / "ca.crt"))
        if has_certificate:
            context.load_cert_chain(self.path / "whimbrel.crt", self.path / "whimbrel.key")
        return context


async def test_a_certificate_of_a_known_authority_is_accepted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with http_server(Broken(0), context=authority.server()) as server, client(0, authority.client()) as asks:
        assert (await asks.get(server.url)).status_code == 200


async def test_a_certificate_that_is_not_accepted_is_told_with_its_setting(tmp_path: Path) -> None:
    unknowing = ssl.create_default_context()
    async with http_server(Broken(0), context=Authority(tmp_path).server()) as server, client(1, unknowing) as asks:
        with pytest.raises(
            Unavailable, match=rf"{server.url} is not accepted: .*CERTIFICATE.*'ca_file' in \[keystone\]"
        ):
            await asks.get(f"{server.url}/v2/images")


async def test_a_server_that_wants_a_certificate_gets_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.server(wants_certificate=True)
    trusted = authority.client(has_certificate=True)
    async with http_server(Broken(0), context=context) as server, client(0, trusted) as asks:
        assert (await asks.get(server.url)).status_code == 200
