"""The metadata service in the namespaces of networks: a guest is identified by its network and its address there.

Invariant: a guest is answered about itself only; the packet filter lets it send from its own addresses alone.
"""

import asyncio
import ctypes
import os
import socket
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from whimbrel.adapters.host_network.commands import NAMESPACES
from whimbrel.adapters.host_network.packet_rules import link_local
from whimbrel.domain.errors import Refused, Unavailable, WorldError
from whimbrel.domain.host_networks import HostNetwork
from whimbrel.domain.ids import ServerId

log = structlog.get_logger(__name__)

PORT = 80
OF_IPV4 = "::ffff:"
"""The prefix of an address of IPv4 that a socket of IPv6 shows."""

MOST_BYTES = 1 << 16  # of a request
CLONE_NEWNET = 0x40000000
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]


class MetadataReply(Protocol):
    @property
    def status(self) -> int: ...
    @property
    def content_type(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    @property
    def retry_after_s(self) -> int: ...


class Answer(Protocol):
    async def __call__(self, server: ServerId, path: str, method: str, body: bytes) -> MetadataReply:
        """Answer a guest's request. Raises: WorldError."""


Serve = Callable[[ASGIApp, socket.socket, asyncio.Event], Coroutine[Any, Any, None]]
"""Serves HTTP on a bound socket until the event."""


class _Running(NamedTuple):
    servers: dict[str, ServerId]  # address -> server
    stop: asyncio.Event
    task: asyncio.Task[None]


class MetadataServers:
    """One HTTP server for each network of this host, in this process."""

    def __init__(self, answer: Answer, serve: Serve) -> None:
        self._answer = answer
        self._serve = serve
        self._running: dict[str, _Running] = {}
        self._threads = ThreadPoolExecutor(1, "netns")  # one of its own: it changes its namespace

    async def ensure(self, network: HostNetwork, namespace: str) -> None:
        """Answer the ports of a network, in its namespace. Raises: Unavailable: the port is in use there."""
        running = self._running.get(network.id)
        if running is None or running.task.done():
            servers: dict[str, ServerId] = {}
            endpoint = await asyncio.get_running_loop().run_in_executor(self._threads, _socket_in, namespace)
            stop = asyncio.Event()
            task = asyncio.create_task(self._serve(self._app(network.id, servers), endpoint, stop))
            running = self._running[network.id] = _Running(servers, stop, task)
        running.servers.clear()
        running.servers.update(_servers(network))

    async def remove(self, network_id: str) -> None:
        """Stop answering the ports of a network. Idempotent."""
        if running := self._running.pop(network_id, None):
            running.stop.set()
            await asyncio.wait((running.task,))

    async def close(self) -> None:
        for network_id in list(self._running):
            await self.remove(network_id)
        self._threads.shutdown(wait=False)

    def _app(self, network_id: str, servers: Mapping[str, ServerId]) -> Starlette:
        async def reply(request: Request) -> Response:
            server = servers.get(request.client.host.removeprefix(OF_IPV4)) if request.client else None
            if server is None:
                return Response("404 Not Found", 404)
            body = await _body(request)
            if body is None:
                return Response("413 Content Too Large", 413)
            try:
                answer = await self._answer(server, request.scope["path"], request.method, body)
            except Refused:
                return Response("404 Not Found", 404)
            except WorldError as trouble:
                log.warning("a guest's metadata could not be read", server=server, reason=trouble.reason)
                return Response("503 Service Unavailable", 503)
            headers = {"retry-after": str(answer.retry_after_s)} if answer.retry_after_s else None
            return Response(answer.body, answer.status, headers, answer.content_type)

        return Starlette(routes=[Route("/{path:path}", reply, methods=METHODS)])


async def _body(request: Request) -> bytes | None:
    """Return the body of a request. None: it is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            return None
    return body


def _servers(network: HostNetwork) -> dict[str, ServerId]:
    """Return the server of each address, also of those that guests make of their MACs."""
    return {
        address: ServerId(port.server) for port in network.ports for address in (*port.addresses, link_local(port.mac))
    }


def _socket_in(namespace: str) -> socket.socket:
    """Return a socket of another network namespace, bound to the port of metadata; for a thread of its own."""
    with open("/proc/thread-self/ns/net", "rb") as own, (NAMESPACES / namespace).open("rb") as other:
        _enter(other.fileno())
        try:
            endpoint = _endpoint()
            endpoint.setblocking(False)
            return endpoint
        except OSError as error:
            raise Unavailable(f"no metadata service in {namespace}: {os.strerror(error.errno or 0)}") from error
        finally:
            _enter(own.fileno())


def _endpoint() -> socket.socket:
    """Return a socket for IPv4 and IPv6, or for IPv4 on a machine without the other."""
    if not socket.has_dualstack_ipv6():
        return socket.create_server(("", PORT))
    return socket.create_server(("", PORT), family=socket.AF_INET6, dualstack_ipv6=True)


def _enter(namespace: int) -> None:
    """Change the network namespace of this thread. Python has it as os.setns from 3.12 on."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
        raise Unavailable(f"setns: {os.strerror(ctypes.get_errno())}")
