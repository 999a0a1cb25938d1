"""A request as every front end reads it: path, addresses for links, token, body."""

from collections.abc import AsyncIterator, Iterable, Mapping
from functools import cached_property
from typing import TypeVar

import msgspec
import starlette.requests
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope

from whimbrel.http.problem import Problem
from whimbrel.ports.services.identity import Identity, Principal

T = TypeVar("T")

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of decoding a body that is not JSON, or not of the expected type."""


class Request:
    """A request below the mount point of its application.

    id: its request id, "" in services without them. headers: by lower-case name, several of one name are joined by
    commas. path: below the mount point. minor: of its microversion, None: not negotiated yet. params: those of its
    path.
    """

    def __init__(self, scope: Scope, receive: Receive, id: str) -> None:
        self.scope = scope
        self._receive = receive
        self.id = id
        self.method: str = scope["method"]
        self.headers = _folded(scope["headers"])
        self.mounted_at: str = scope.get("root_path", "").rstrip("/")
        self.path: str = scope["path"].removeprefix(self.mounted_at)
        self.minor: int | None = None
        self.params: Mapping[str, str] = {}

    @cached_property
    def query_params(self) -> QueryParams:
        return QueryParams(self.scope["query_string"])

    @property
    def origin(self) -> str:
        """Return scheme and host as the client knows them."""
        host = self.headers.get("host")
        if not host:
            name, port = self.scope.get("server") or ("localhost", None)
            host = f"{name}:{port}" if port else name
        return f"{self.scope.get('scheme', 'http')}://{host}"

    @property
    def root_url(self) -> str:
        """Return the URL of the service, without a slash at the end."""
        return self.origin + self.mounted_at

    @property
    def has_nul(self) -> bool:
        """Check whether path or query have a NUL character, which PostgreSQL cannot store."""
        return "\0" in self.path or bool(self.scope["query_string"] and "\0" in "".join(self.query_params.values()))

    async def principal(self, identity: Identity) -> Principal | None:
        """Return the holder of the token; None: there is no valid token."""
        token = self.headers.get("x-auth-token")
        return await identity.principal(token) if token else None

    def challenge(self, identity_url: str | None = None) -> dict[str, str]:
        """Return the header that tells clients without a token where to get one, by default on the same server."""
        return {"www-authenticate": f'Keystone uri="{identity_url or self.origin + "/identity"}"'}

    async def decoded(self, kind: type[T], limit_bytes: int) -> T:
        """Decode the body as this type. Raises: Problem: 400, 413."""
        body = await self.read(limit_bytes)
        if b"\\u0000" in body:
            raise Problem(400, "A NUL character is not allowed.")
        try:
            return msgspec.json.decode(body, type=kind)
        except NOT_JSON as error:
            raise Problem(400, f"The body is not what is expected here: {error}") from error

    async def read(self, limit_bytes: int, too_large: str = "The body is larger than {limit} bytes.") -> bytes:
        """Read the body. Raises: Problem: 400 the client disconnected, 413."""
        length = self.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > limit_bytes:
            raise Problem(413, too_large.format(limit=limit_bytes))
        body = b""
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise Problem(400, "The body broke off.")
            body += bytes(message.get("body", b""))
            if len(body) > limit_bytes:
                raise Problem(413, too_large.format(limit=limit_bytes))
            if not message.get("more_body"):
                return body

    def stream(self) -> AsyncIterator[bytes]:
        """Return the chunks of the body. Raises: ClientDisconnect."""
        return starlette.requests.Request(self.scope, self._receive).stream()


def _folded(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name_raw, value_raw in raw:
        name, value = name_raw.decode("latin-1").lower(), value_raw.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
