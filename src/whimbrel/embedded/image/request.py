"""One request to the image service: who asks, what for, and how answers and errors look.

Law: who may not see an image is told that it is not there.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.domain.errors import Conflict, NotFound, OverQuota, Refused, Unavailable, WorldError
from whimbrel.embedded.bodies import decode, read
from whimbrel.embedded.endpoint import Asked, Endpoint, Manners, caller_of, json
from whimbrel.embedded.image.file_store import TooLarge
from whimbrel.embedded.image.service import ImageService
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.identity import Identity
from whimbrel.ports.services.images import ImageRecord, ImageStore

BODY_LIMIT_BYTES = 1 << 20
SEES_ALL = {"admin", "service"}

Body = TypeVar("Body")


@dataclass(frozen=True, kw_only=True)
class Door:
    """What the handlers work with."""

    service: ImageService
    identity: Identity
    ids: IdSource


@dataclass(frozen=True, kw_only=True)
class Ask(Asked):
    """One request, and what it is answered with."""

    door: Door

    @property
    def store(self) -> ImageStore:
        return self.service.store

    @property
    def service(self) -> ImageService:
        return self.door.service

    @property
    def is_admin(self) -> bool:
        """Tell whether he may do what he likes. The cloud's own services may: they keep other people's images."""
        return bool(self.caller.roles & SEES_ALL)

    @property
    def viewer(self) -> str | None:
        """Give whose images he sees in lists; None: everybody's."""
        return None if self.is_admin else self.caller.project_id

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


def endpoint(door: Door, handler: Handler) -> Endpoint:
    async def answer(request: Request) -> Response:
        caller = await caller_of(request, door.identity)
        if request.method not in ("GET", "HEAD") and not caller.roles & {"member", *SEES_ALL}:
            raise HTTPException(403, "You are not authorized to complete this action.")
        return await handler(Ask(door=door, request=request, caller=caller))

    return answer


def checked(value: Any, kind: type[Body]) -> Body:
    """Make a struct of what was sent. Raises: HTTPException: it does not fit."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"Provided object does not match schema 'image': {error}") from error


STATUS: Sequence[tuple[type[WorldError], int]] = (
    (NotFound, 404),
    (Conflict, 409),
    (TooLarge, 413),
    (OverQuota, 413),
    (Refused, 403),
    (Unavailable, 503),
)


def _say(request: Request, status: int, message: str, error: Exception) -> Response:
    return json({"code": status, "title": HTTPStatus(status).phrase, "message": message}, status)


MANNERS = Manners(STATUS, _say)
