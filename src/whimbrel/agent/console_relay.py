"""The relay of a host's consoles: hands each open console to the one TLS client that brings its ticket.

Invariants: a ticket is valid once, and for TICKET_S. The port listens only while there is a valid ticket. Without one,
a client gets nothing but the end of its connection.
"""

import asyncio
import secrets
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from whimbrel.domain.console import ConsoleAddress
from whimbrel.domain.errors import Refused
from whimbrel.ports.hosts.consoles import ConsoleStream, SocketConsole, join

if TYPE_CHECKING:
    from whimbrel.agent.relay_certificate import RelayCertificate

log = structlog.get_logger(__name__)

TICKET_S = 30.0
TICKET_BYTES = 32
LINE_TIMEOUT_S = 10.0


class ConsoleListen(NamedTuple):
    """The address and the port at which a relay listens. port: 0: a free one."""

    address: str
    port: int = 0


LOOPBACK = ConsoleListen("127.0.0.1")


class ConsoleRelay:
    """The relay of one agent."""

    def __init__(self, listen: ConsoleListen, ticket_s: float = TICKET_S) -> None:
        self._listen = listen
        self._ticket_s = ticket_s
        self._certificate: RelayCertificate | None = None
        self._server: asyncio.Server | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[str, tuple[ConsoleStream, asyncio.TimerHandle]] = {}  # ticket -> console, its end
        self._work: set[asyncio.Task[None]] = set()

    async def offer(self, console: ConsoleStream) -> ConsoleAddress:
        """Return where a client takes over this connection. Raises: Refused: this host cannot listen."""
        try:
            port, certificate = await self._listening()
        except OSError as error:
            console.close()
            where = f"{self._listen.address} port {self._listen.port}"
            raise Refused(f"the host cannot listen for consoles at {where}: {error.strerror or error}") from error
        except asyncio.CancelledError:
            console.close()
            raise
        ticket = secrets.token_urlsafe(TICKET_BYTES)
        end = asyncio.get_running_loop().call_later(self._ticket_s, self._expire, ticket)
        self._waiting[ticket] = (console, end)
        return ConsoleAddress(self._listen.address, port, ticket, certificate)

    async def close(self) -> None:
        """End all connections, and stop listening."""
        for ticket in list(self._waiting):
            self._expire(ticket)
        for task in list(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _listening(self) -> tuple[int, str]:
        """Return the port and the certificate; start to listen if necessary."""
        async with self._starting:
            if self._certificate is None:
                self._certificate = await asyncio.to_thread(_new_certificate)
            if self._server is None:
                self._server = await asyncio.start_server(
                    self._accept,
                    *self._listen,
                    ssl=self._certificate.context,
                    ssl_handshake_timeout=LINE_TIMEOUT_S,
                )
            port: int = self._server.sockets[0].getsockname()[1]
            return port, self._certificate.pem

    def _take(self, ticket: str) -> ConsoleStream | None:
        """Return the console of a ticket, which is used up."""
        console, end = self._waiting.pop(ticket, (None, None))
        if end is not None:
            end.cancel()
        if not self._waiting and self._server is not None:
            self._server.close()  # its connections go on
            self._server = None
        return console

    def _expire(self, ticket: str) -> None:
        if console := self._take(ticket):
            console.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._run(self._serve(reader, writer))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = SocketConsole(reader, writer)
        try:
            async with asyncio.timeout(LINE_TIMEOUT_S):
                line = await reader.readline()
        except (OSError, TimeoutError, ValueError):  # ValueError: the line is too long
            line = b""
        except asyncio.CancelledError:
            client.close()
            raise
        console = self._take(line.decode("ascii", "replace").strip())
        if console is None:
            log.warning("a connection without a valid ticket is refused", peer=writer.get_extra_info("peername"))
            client.close()
            return
        await join(client, console)


def _new_certificate() -> "RelayCertificate":
    # Imported when it is used first: most agents that start have no console to show.
    from whimbrel.agent.relay_certificate import new_certificate

    return new_certificate()
