"""Connections to services that others run: requests that certainly had no effect, or only read, are repeated."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import aiohttp
from yarl import URL

from whimbrel.adapters.openstack.service_client import Answer
from whimbrel.domain.errors import Unavailable

READING = ("GET", "HEAD")
MOST = 100
HEADER_BYTES = 64 * 1024  # of one header of an answer: a token can be long
IDLE_S = 5.0  # how long a connection is kept; Apache ends one after as long

WANTED = (
    "CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE", "UNKNOWN_CA",
    "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED", "CERTIFICATE_UNKNOWN",
)  # fmt: skip
"""Alerts of servers that want another certificate of the client, or one at all. With TLS 1.3 they may get lost: the
connection then ends without one."""

Content = bytes | AsyncIterator[bytes] | None
Headers = Mapping[str, str] | Sequence[tuple[str, str]]
Result = TypeVar("Result")


class UnreadableAnswer(aiohttp.ClientError):
    """What answers does not speak HTTP, or not as it should."""


class Connections:
    """Sends requests, and repeats them after a broken connection: every one that was not sent, and those that read.

    The caller repeats the others: it knows what they change.
    """

    def __init__(
        self,
        verify: ssl.SSLContext | bool,
        *,
        timeout_s: float | None = None,
        retries: int = 0,
        most: int = MOST,
        settings: str = "[keystone]",
    ) -> None:
        """timeout_s: for a connection, and for each part of an answer. retries: after the first try.

        most: connections to all services together; 0: any number. settings: the table with the certificates.
        """
        self._verify = verify
        self._settings = settings
        self._timeout = limits(timeout_s, timeout_s)
        self._retries = retries
        self._most = most
        self._opened: aiohttp.ClientSession | None = None

    async def ask(self, method: str, url: str, headers: Headers, content: bytes | None) -> Answer:
        """Send a request and read its answer. url: encoded. Raises: Unavailable: as `open`; other errors of aiohttp."""

        async def once() -> Answer:
            async with self._session.request(
                method, URL(url, encoded=True), headers=headers, data=content, allow_redirects=False
            ) as answer:
                return Answer(answer.status, await answer.read())

        return await self._steadily(method, url, once)

    async def open(
        self, method: str, url: str, headers: Headers, content: Content, waits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send a request and return its answer, whose body is not read yet.

        Raises: Unavailable: one side does not accept the certificate of the other one, with what to do; other errors
        of aiohttp.
        """

        async def once() -> aiohttp.ClientResponse:
            return await self._session.request(
                method, URL(url, encoded=True), headers=headers, data=content, allow_redirects=False, timeout=waits
            )

        return await self._steadily(method, url, once)

    async def close(self) -> None:
        if self._opened:
            await self._opened.close()

    async def _steadily(self, method: str, url: str, once: Callable[[], Awaitable[Result]]) -> Result:
        left = self._retries
        while True:
            try:
                return await once()
            except aiohttp.ClientResponseError as error:  # it has the headers of the request, and lines of the answer
                raise UnreadableAnswer(f"its answer cannot be read: {type(error).__name__}") from None
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
                if refusal := _refusal(url, str(error), self._settings):
                    raise Unavailable(refusal) from error
                if not left or not _may_be_repeated(method, error):
                    raise
            if left < self._retries:
                await asyncio.sleep(0.5 * 2 ** (self._retries - left - 1))
            left -= 1

    @property
    def _session(self) -> aiohttp.ClientSession:
        """Return the session, made where the event loop runs."""
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._verify, limit=self._most, keepalive_timeout=IDLE_S),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                max_field_size=HEADER_BYTES,
            )
            # aiohttp would repeat PUT and DELETE after a broken connection. It has no other switch for that.
            assert hasattr(self._opened, "_retry_connection"), "this release of aiohttp repeats requests by itself"
            self._opened._retry_connection = False
        return self._opened


def limits(connect_s: float | None, read_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect_s, sock_connect=connect_s, sock_read=read_s)


def _may_be_repeated(method: str, error: Exception) -> bool:
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return True  # it was not sent
    return method in READING and not isinstance(error, aiohttp.SocketTimeoutError)


def _refusal(url: str, trouble: str, settings: str) -> str:
    """Return why one side does not accept the other's certificate, with what to do; "": it is something else."""
    where = str(URL(url, encoded=True).origin())
    if "CERTIFICATE_VERIFY_FAILED" in trouble:
        hint = f"see 'ca_file' in {settings}, and the name in the URL"
        return f"the certificate at {where} is not accepted: {trouble}; {hint}"
    if any(f"ALERT_{alert}" in trouble for alert in WANTED):
        return f"{where} does not accept this client: {trouble}; see 'cert_file' and 'key_file' in {settings}"
    return ""
