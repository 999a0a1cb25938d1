"""Connections to services that others run: requests that certainly had no effect, or only read, are repeated."""

import ssl
from types import TracebackType
from typing import Self

import httpx

from whimbrel.domain.errors import Unavailable

READING = ("GET", "HEAD")
DEFAULT_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20)


WANTED = (
    "CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE", "UNKNOWN_CA",
    "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED", "CERTIFICATE_UNKNOWN",
)  # fmt: skip
"""Alerts of servers that want another certificate of the client, or one at all. With TLS 1.3 they may get lost: the
connection then ends without one."""


def _refusal(url: httpx.URL, trouble: str) -> str:
    """Return why one side does not accept the other's certificate, with what to do; "": it is something else."""
    where = f"{url.scheme}://{url.netloc.decode('ascii')}"
    if "CERTIFICATE_VERIFY_FAILED" in trouble:
        hint = "see 'ca_file' in [keystone], and the name in the URL"
        return f"the certificate at {where} is not accepted: {trouble}; {hint}"
    if any(f"ALERT_{alert}" in trouble for alert in WANTED):
        return f"{where} does not accept this client: {trouble}; see 'cert_file' and 'key_file' in [keystone]"
    return ""


class SteadyTransport(httpx.AsyncBaseTransport):
    """Sends requests, and repeats them after a broken connection: every one that was not sent, and those that read.

    The caller repeats the others: it knows what they change.
    """

    def __init__(
        self,
        verify: ssl.SSLContext | bool,
        retries: int,
        transport: httpx.AsyncBaseTransport | None = None,
        limits: httpx.Limits = DEFAULT_LIMITS,
    ) -> None:
        """retries: after the first try. transport: None: the network. limits: of its connections."""
        self._retries = retries
        self._transport = transport or httpx.AsyncHTTPTransport(verify=verify, retries=retries, limits=limits)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises: Unavailable: one side does not accept the certificate of the other one, with what to do."""
        left = self._retries if request.method in READING else 0
        while True:
            try:
                return await self._transport.handle_async_request(request)
            except (httpx.ConnectError, ssl.SSLError) as error:
                if refusal := _refusal(request.url, str(error)):
                    raise Unavailable(refusal) from error
                raise
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if not left:
                    raise
                left -= 1

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._transport.__aexit__(exc_type, exc_value, traceback)
