"""What requests of the control plane to a service carry, and what becomes of one whose token is rejected."""

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
