"""The metadata service in the namespace of a network, as its guests ask it over HTTP."""

import asyncio
import socket

import httpx
import pytest
from starlette.types import ASGIApp

from whimbrel.adapters.host_network.metadata_server import MetadataServers
from whimbrel.domain.ids import ServerId
from whimbrel.ports.hosts.control_plane import MetadataAnswer

ADDRESS = "10.0.0.5"
REFUSED = MetadataAnswer(status=429, body=b"429 Too Many Requests", retry_after_s=7)


async def unserved(app: ASGIApp, endpoint: socket.socket, stop: asyncio.Event) -> None:
    """Implements Serve."""


@pytest.mark.parametrize(
    ("answer", "retry_after"), [(REFUSED, "7"), (MetadataAnswer(status=200, body=b"latest"), None)]
)
async def test_the_answer_is_that_of_the_control_plane(answer: MetadataAnswer, retry_after: str | None) -> None:
    async def reply(server: ServerId, path: str, method: str, body: bytes) -> MetadataAnswer:
        assert server == "s1"
        return answer

    app = MetadataServers(reply, unserved)._app("n1", {ADDRESS: ServerId("s1")})
    transport = httpx.ASGITransport(app, client=(ADDRESS, 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://169.254.169.254") as client:
        told = await client.get("/openstack")
    assert (told.status_code, told.content) == (answer.status, answer.body)
    assert told.headers.get("retry-after") == retry_after
