"""What requests of the control plane to a service carry, and what becomes of one whose token is rejected."""

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.http_server import Reply, Request, Server, http_server
from tests.unit.adapters.openstack.test_session import Fixed
from whimbrel.adapters.openstack.connections import Connections
from whimbrel.adapters.openstack.http_service import HttpService
from whimbrel.adapters.openstack.service_client import Answer
from whimbrel.adapters.openstack.session import Session
from whimbrel.domain.errors import Unavailable


@asynccontextmanager
async def served(reply: Reply = (200, b"{}"), *, rejects: str = "", as_user: str | None = None) -> AsyncIterator[
    tuple[Server, HttpService]
]:  # fmt: skip
    """Yield a server, and its client. rejects: a token that the server does not accept."""

    def answer(request: Request) -> Reply:
        return (401, b"") if request.headers["x-service-token"] == rejects else reply

    connections = Connections(False, timeout_s=60)
    async with http_server(answer) as server:

        async def place() -> str:
            return f"{server.url}/base/"

        try:
            yield server, HttpService(connections, Session(Fixed(), place, as_user), "volume", "/v3")
        finally:
            await connections.close()


async def test_a_request_has_place_path_query_body_and_tokens() -> None:
    async with served((202, b'{"made": 1}')) as (server, service):
        answer = await service.ask(
            "POST", "/p/volumes", query=[("a", "b c"), ("a", "&")], body={"x": 1}, headers={"H": "h"}
        )
    assert answer == Answer(202, b'{"made": 1}')
    [asked] = server.asked
    assert (asked.method, asked.url, asked.body) == ("POST", "/base/v3/p/volumes?a=b+c&a=%26", b'{"x":1}')
    expected = {"x-auth-token": "ours", "x-service-token": "ours", "content-type": "application/json", "h": "h"}
    assert {name: asked.headers[name] for name in expected} == expected
    assert asked.headers["host"] == server.url.removeprefix("http://")


async def test_a_path_stays_a_path() -> None:
    async with served() as (server, service):
        await service.ask("GET", "/ports/p/bindings/höst 1?x#y%")
    assert server.asked[0].url == "/base/v3/ports/p/bindings/h%C3%B6st%201%3Fx%23y%25"


async def test_a_rejected_token_is_renewed_once() -> None:
    async with served(rejects="ours", as_user="theirs") as (server, service):
        assert (await service.ask("PUT", "/x", body={})).status == 200
    tokens = [(asked.headers["x-auth-token"], asked.headers["x-service-token"]) for asked in server.asked]
    assert tokens == [("theirs", "ours"), ("theirs", "ours anew")]
    async with served((401, b""), rejects="ours") as (server, service):
        assert (await service.ask("GET", "/x")).status == 401
    assert len(server.asked) == 2


async def test_a_service_without_an_answer_is_unavailable() -> None:
    async with served(None) as (_, service):
        with pytest.raises(Unavailable, match="the volume service does not answer"):
            await service.ask("GET", "/x")


@pytest.mark.parametrize(
    "answer",
    [
        b"\x15\x03\x01\x00\x02\x02\x46",  # TLS: the URL should be https
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
        b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 100_000 + b"\r\nContent-Length: 2\r\n\r\n{}",
        b"garbage\r\n\r\n",
    ],
    ids=["tls", "two lengths", "long header", "garbage"],
)
async def test_an_answer_that_cannot_be_read_shows_no_token(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)

    async def place() -> str:
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    connections, token = Connections(False, timeout_s=60), "a-secret"
    service = HttpService(connections, Session(Fixed(), place, token), "volume", "/v3")
    with pytest.raises(Unavailable, match="its answer cannot be read") as raised:
        await service.ask("GET", "/x")
    assert token not in "".join(traceback.format_exception(raised.value))
    await connections.close()
    server.close()


async def test_a_long_header_is_read() -> None:
    """As of a proxy that returns the catalog in a token."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nX-Token: " + b"a" * 30_000 + b"\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    connections = Connections(False, timeout_s=60)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    assert (await connections.ask("GET", url, {}, None)).status == 200
    await connections.close()
    server.close()
