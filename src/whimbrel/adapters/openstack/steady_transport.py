"""The transport of httpx's clients of services that others run: the connections of all requests to them."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

import aiohttp
import httpx

from whimbrel.adapters.openstack.connections import Connections, limits


class SteadyTransport(httpx.AsyncBaseTransport):
    """Sends requests over these connections, which it does not close, with the time-outs of its client."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises: Unavailable: as Connections; httpx.TransportError; errors of the body's source."""
        wait_s = request.extensions.get("timeout", {})
        timeout = limits(wait_s.get("connect"), wait_s.get("read"))
        headers = [each for each in request.headers.multi_items() if each[0] != "transfer-encoding"]
        sent = (request.method, str(request.url), headers)
        with _translated():
            if isinstance(request.stream, httpx.ByteStream):
                answer = await self._connections.open(*sent, request.content or None, timeout)
            else:
                assert isinstance(request.stream, AsyncIterable), "the client is asynchronous"
                answer = await _Upload(request.stream, wait_s.get("write")).send(
                    lambda content: self._connections.open(*sent, content, timeout)
                )
        return httpx.Response(answer.status, headers=answer.raw_headers, stream=_Body(answer), request=request)


class _Upload:
    """A body that is read while it is sent. write_s: how long the service may take to accept a part."""

    def __init__(self, source: AsyncIterable[bytes], write_s: float | None) -> None:
        self._source = source
        self._write_s = write_s
        self._limit: asyncio.Timeout | None = None
        self._failure: Exception | None = None

    async def send(
        self, send: Callable[[AsyncIterator[bytes]], Awaitable[aiohttp.ClientResponse]]
    ) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(None) as self._limit:
                return await send(self._parts())
        except aiohttp.ClientError:
            if self._failure:  # aiohttp shows it as one of the connection
                raise self._failure from None
            raise
        finally:
            self._limit = None

    async def _parts(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._source:
                self._expire_in(self._write_s)
                yield part
                self._expire_in(None)
        except Exception as error:
            self._failure = error
            raise

    def _expire_in(self, seconds: float | None) -> None:
        if self._limit:  # otherwise the answer came before the end of the body
            self._limit.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for part in self._answer.content.iter_any():
                yield part

    async def aclose(self) -> None:
        self._answer.release()


@contextmanager
def _translated() -> Iterator[None]:
    """Raise the errors of aiohttp as those of httpx, and those of a request's source as they are."""
    try:
        yield
    except TimeoutError as error:
        raise httpx.TimeoutException(str(error)) from error
    except aiohttp.ClientConnectorError as error:
        raise httpx.ConnectError(str(error)) from error
    except aiohttp.ClientError as error:
        raise httpx.ReadError(str(error)) from error
