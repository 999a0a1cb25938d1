"""Authentication of requests to other services: adds this process's token, and renews it when it is rejected.

The same token is sent as the service token: services permit with it what only other services may do (Cinder deletes a
connected attachment), and accept a user's token beside it that has expired meanwhile.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

import httpx

Place = Callable[[], Awaitable[str]]
"""Returns the URL of a service. Raises: Unavailable."""


class Token(Protocol):
    """The token of this process."""

    async def get(self, ended: str | None = None) -> str:
        """Return the token. ended: one that is no longer accepted. Raises: Unavailable."""
        ...


class Session(httpx.Auth):
    """Add the token to a client's requests: `httpx.AsyncClient(base_url=..., auth=Session(token))`.

    A request with a body that cannot be sent twice is not repeated: the caller gets the 401.
    """

    def __init__(self, token: Token, place: Place | None = None, as_user: str | None = None) -> None:
        """place: of the service, if the client's base URL does not have it. as_user: the token of the user
        for whom the requests are; None: they are this process's own.
        """
        self._token = token
        self._place = place
        self._as_user = as_user

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        token = await self._token.get()
        self._sign(request, token)
        if self._place:
            _move(request, await self._place())
        can_be_repeated = isinstance(request.stream, httpx.ByteStream)
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED and can_be_repeated:
            self._sign(request, await self._token.get(ended=token))
            yield request

    def _sign(self, request: httpx.Request, token: str) -> None:
        request.headers["X-Auth-Token"] = self._as_user or token
        request.headers["X-Service-Token"] = token


def _move(request: httpx.Request, root: str) -> None:
    """Send a request to the service at this URL instead of the host that it names."""
    url = httpx.URL(root.rstrip("/"))
    request.url = url.copy_with(raw_path=url.raw_path.rstrip(b"/") + request.url.raw_path)
    request.headers["Host"] = request.url.netloc.decode("ascii")
