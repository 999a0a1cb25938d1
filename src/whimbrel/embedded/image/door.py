"""One request to the image service: who asks, what for, and how answers and errors look.

Law: who may not see an image is told that it is not there.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable, WorldError
from whimbrel.embedded.bodies import decode, read
from whimbrel.embedded.image.shelf import Shelf, TooLarge
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.identity import Caller, Identity
from whimbrel.ports.images import ImageRecord, ImageStore

BODY_LIMIT_BYTES = 1 << 20
SEES_ALL = {"admin", "service"}

Body = TypeVar("Body")


@dataclass(frozen=True, kw_only=True)
class Door:
    """What the handlers work with."""

    store: ImageStore
    shelf: Shelf
    identity: Identity
    clock: Clock
    ids: IdSource


@dataclass(frozen=True)
class Ask:
    """One request of somebody with a token for a project."""

    door: Door
    request: Request
    caller: Caller

    @property
    def store(self) -> ImageStore:
        return self.door.store

    @property
    def is_admin(self) -> bool:
        """Tell whether he may do what he likes. The cloud's own services may: they keep other people's images."""
        return bool(self.caller.roles & SEES_ALL)

    @property
    def viewer(self) -> str | None:
        """Give whose images he sees in lists; None: everybody's."""
        return None if self.is_admin else self.caller.project_id

    def path(self, name: str) -> str:
        value: str = self.request.path_params[name]
        return value

    async def seen(self) -> ImageRecord:
        """Give the image that the path names. Raises: NotFound: there is none that he may see."""
        record = await self.store.find(self.path("image_id"))
        if not (self._owns(record) or record.visibility in ("public", "community")):
            await self._check_member(record)
        return record

    async def owned(self) -> ImageRecord:
        """Give the image that the path names, to be changed. Raises: NotFound; Refused: it is not his."""
        record = await self.seen()
        if not self._owns(record):
            raise Refused("You are not authorized to complete this action.")
        return record

    def _owns(self, record: ImageRecord) -> bool:
        return self.is_admin or record.owner == self.caller.project_id

    async def _check_member(self, record: ImageRecord) -> None:
        members = await self.store.members(record.id) if record.visibility == "shared" else []
        if all(member.project_id != self.caller.project_id for member in members):
            raise NotFound(f"No image found with ID {record.id}")

    async def body(self, kind: type[Body]) -> Body:
        """Read the body as this. Raises: HTTPException: it is not."""
        return decode(await read(self.request, BODY_LIMIT_BYTES), kind)


Handler = Callable[[Ask], Awaitable[Response]]


def endpoint(door: Door, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        if "\0" in request.scope["path"] or "\0" in "".join(request.query_params.values()):
            raise HTTPException(400, "A NUL character is not allowed.")  # PostgreSQL knows no such text
        token = request.headers.get("x-auth-token")
        caller = await door.identity.caller(token) if token else None
        if caller is None:
            raise HTTPException(401, "This request needs a valid token.")
        if not caller.project_id:
            raise HTTPException(403, "This request needs a token for a project.")
        if request.method not in ("GET", "HEAD") and not caller.roles & {"member", *SEES_ALL}:
            raise HTTPException(403, "You are not authorized to complete this action.")
        return await handler(Ask(door, request, caller))

    return answer


def checked(value: Any, kind: type[Body]) -> Body:
    """Make a struct of what was sent. Raises: HTTPException: it does not fit."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"Provided object does not match schema 'image': {error}") from error


def base_url(request: Request) -> str:
    """Give the address by which the service was reached, without a slash at the end."""
    return f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"


def json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def nothing() -> Response:
    return Response(status_code=204)


def problem(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    title = HTTPStatus(status).phrase
    return json({"code": status, "title": title, "message": message}, status, headers)


STATUS: dict[type[WorldError], int] = {
    NotFound: 404,
    Conflict: 409,
    TooLarge: 413,
    Refused: 403,
    Unavailable: 503,
}


async def on_world_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, WorldError)
    status = next(status for kind, status in STATUS.items() if isinstance(error, kind))
    return problem(status, error.reason)


async def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, error.detail, dict(error.headers or {}))


async def on_disconnect(request: Request, error: Exception) -> Response:
    """Answer somebody who does not listen any more: he broke off his upload."""
    assert isinstance(error, ClientDisconnect)
    return problem(400, "The body ended before it was whole.")


async def on_bug(request: Request, error: Exception) -> Response:
    """Answer where we are wrong; the server's log has the traceback."""
    return problem(500, "An unexpected error prevented the server from fulfilling your request.")
