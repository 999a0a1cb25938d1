"""Authentication of requests to other services: adds this process's token, and renews it when it is rejected."""

from collections.abc import AsyncGenerator

import httpx

from whimbrel.adapters.openstack.identity import OwnToken


class Session(httpx.Auth):
    """Add the token to a client's requests: `httpx.AsyncClient(base_url=..., auth=Session(token))`.

    A request with a body that cannot be sent twice is not repeated: the caller gets the 401.
    """

    def __init__(self, token: OwnToken) -> None:
        self._token = token

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        token = await self._token.get()
        request.headers["X-Auth-Token"] = token
        can_be_repeated = isinstance(request.stream, httpx.ByteStream)
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED and can_be_repeated:
            request.headers["X-Auth-Token"] = await self._token.get(ended=token)
            yield request
