"""Authentication of requests to other services: adds this process's token, and renews it when it is rejected.

The same token is sent as the service token: services permit with it what only other services may do (Cinder deletes a
connected attachment), and accept a user's token beside it that has expired meanwhile.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

import httpx

from whimbrel.domain.errors import Unauthenticated

Place = Callable[[], Awaitable[str]]
"""Returns the URL of a service. Raises: Unavailable."""

IsAccepted = Callable[[str], Awaitable[bool]]
"""Asks Keystone whether it still accepts a user's token. Raises: Unavailable."""


class Token(Protocol):
    """The token of this process."""

    async def get(self, ended: str | None = None) -> str:
        """Return the token. ended: one that is no longer accepted. Raises: Unavailable."""


class Session(httpx.Auth):
    """The tokens of requests to a service, and its place.

    Of a client of httpx it is the `auth`: `httpx.AsyncClient(base_url=..., auth=Session(token))`. There a request with
    a body that cannot be sent twice is not repeated: the caller gets the 401.
    """

    def __init__(
        self,
        token: Token,
        place: Place | None = None,
        as_user: str | None = None,
        is_accepted: IsAccepted | None = None,
    ) -> None:
        """place: of the service, if the client's base URL does not have it. as_user: the token of the user
        for whom the requests are; None: they are this process's own. is_accepted: asked if a service rejects that
        token.
        """
        self._token = token
        self._place = place
        self._as_user = as_user
        self._is_accepted = is_accepted

    async def token(self) -> str:
        """Return the token of this process. Raises: Unavailable."""
        return await self._token.get()

    async def renewed(self, rejected: str) -> str:
        """Return another token of this process, to repeat a request that was answered 401.

        Raises: Unauthenticated: it was the user's token that was rejected, and Keystone does so, too. Unavailable.
        """
        if self._as_user and self._is_accepted and not await self._is_accepted(self._as_user):
            raise Unauthenticated("Keystone no longer accepts the token of this request's user")
        return await self._token.get(ended=rejected)

    async def root(self) -> str:
        """Return the URL of the service, without a slash at its end. Raises: Unavailable."""
        assert self._place, "the client has a base URL"
        return (await self._place()).rstrip("/")

    def signature(self, token: str) -> dict[str, str]:
        """Return the headers of a request. token: of this process."""
        return {"X-Auth-Token": self._as_user or token, "X-Service-Token": token}

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        token = await self.token()
        request.headers.update(self.signature(token))
        if self._place:
            _move(request, await self.root())
        can_be_repeated = isinstance(request.stream, httpx.ByteStream)
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED and can_be_repeated:
            request.headers.update(self.signature(await self.renewed(token)))
            yield request


def _move(request: httpx.Request, root: str) -> None:
    """Send a request to the service at this URL instead of the host that it names."""
    url = httpx.URL(root)
    request.url = url.copy_with(raw_path=url.raw_path.rstrip(b"/") + request.url.raw_path)
    request.headers["Host"] = request.url.netloc.decode("ascii")
