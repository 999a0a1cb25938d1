"""Authentication of requests to other services: adds this process's token, and renews it when it is rejected."""

from collections.abc import AsyncGenerator
from typing import Protocol

import httpx


class Token(Protocol):
    """The token of this process."""

    async def get(self, ended: str | None = None) -> str:
        """Return the token. ended: one that is no longer accepted. Raises: Unavailable."""
        ...


class Session(httpx.Auth):
    """Add the token to a client's requests: `httpx.AsyncClient(base_url=..., auth=Session(token))`.

    A request with a body that cannot be sent twice is not repeated: the caller gets the 401.
    """

    def __init__(self, token: Token) -> None:
        self._token = token

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        token = await self._token.get()
        request.headers["X-Auth-Token"] = token
        can_be_repeated = isinstance(request.stream, httpx.ByteStream)
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED and can_be_repeated:
            request.headers["X-Auth-Token"] = await self._token.get(ended=token)
            yield request
