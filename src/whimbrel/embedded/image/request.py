"""One request to the image service: its principal, the images visible to it, and the error format.

Invariant: an image that the requester may not see is answered like one that does not exist.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from whimbrel.domain.errors import NotFound, OverQuota, Refused, WorldError
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.domain.image_grant import PREFIX, Grant, ImageAccess, granted
from whimbrel.embedded.image.file_store import TooLarge
from whimbrel.embedded.image.inspection import WrongContents
from whimbrel.embedded.image.service import ImageService
from whimbrel.http.app import Shape
from whimbrel.http.call import Admitted, project_principal
from whimbrel.http.problem import Problem, problem_of
from whimbrel.http.reply import Reply
from whimbrel.http.request import Request
from whimbrel.http.routes import Route
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.identity import Identity, Principal
from whimbrel.ports.services.images import ImageRecord, ImageStore

PAGE = "<html>\n<head>\n<title>{line}</title>\n</head>\n<body>\n<h1>{line}</h1>\n{message}\n</body>\n</html>\n"
"""An error as HTML. glanceclient shows its lines without tags, each one once."""

SEES_ALL = {"admin", "service"}

IMAGE = "/v2/images/{image_id}"
IMAGE_FILE = IMAGE + "/file"

Body = TypeVar("Body")


@dataclass(frozen=True, kw_only=True)
class Call(Admitted):
    """One request, and the dependencies of its handler."""

    service: ImageService
    ids: IdSource
    grant: Grant | None = None  # of a host: its request is for this image only

    @property
    def store(self) -> ImageStore:
        return self.service.store

    @property
    def is_admin(self) -> bool:
        """Check whether the requester has all permissions. The cloud's own services do: they store images of others."""
        return bool(self.principal.roles & SEES_ALL)

    @property
    def viewer(self) -> str | None:
        """Return the project whose images the requester lists; None: all projects."""
        return None if self.is_admin else self.principal.project_id

    async def seen(self) -> ImageRecord:
        """Return the image in the path. Raises: NotFound: also if the requester may not see it."""
        record = await self.store.find(self.path("image_id"))
        if not (self._owns(record) or record.visibility in ("public", "community")):
            await self._check_member(record)
        return record

    async def owned(self) -> ImageRecord:
        """Return the image in the path, to be changed. Raises: NotFound; Refused: the requester is not its owner."""
        record = await self.seen()
        if not self._owns(record):
            raise Refused("You are not authorized to complete this action.")
        return record

    def _owns(self, record: ImageRecord) -> bool:
        if self.grant:
            return record.id == self.grant.image_id
        return self.is_admin or record.owner == self.principal.project_id

    async def _check_member(self, record: ImageRecord) -> None:
        members = await self.store.members(record.id) if record.visibility == "shared" else []
        if all(member.project_id != self.principal.project_id for member in members):
            raise NotFound(f"No image found with ID {record.id}")


Handler = Callable[[Call], Awaitable[Reply]]


GRANTED: Mapping[tuple[str, str], frozenset[ImageAccess]] = {
    ("GET", IMAGE): frozenset({"read", "write"}),
    ("GET", IMAGE_FILE): frozenset({"read"}),
    ("PUT", IMAGE_FILE): frozenset({"write"}),
}
"""The requests that a host may send with a grant: method and path -> access."""


def admission(
    service: ImageService, identity: Identity, ids: IdSource, secret: bytes | None
) -> Callable[[Request, Route], Awaitable[Call]]:
    """Return the admission check. secret: of grants; None: there are none."""

    async def admit(request: Request, route: Route) -> Call:
        token = request.headers.get("x-auth-token", "")
        if secret and token.startswith(PREFIX):
            grant = grant_of(token, request, route, secret, service.clock.now())
            host = Principal(user_id=UserId(f"host:{grant.host}"), user_name=grant.host, project_id=ProjectId(""))
            return Call(request=request, principal=host, service=service, ids=ids, grant=grant)
        principal = await project_principal(request, identity)
        if request.method not in ("GET", "HEAD") and not principal.roles & {"member", *SEES_ALL}:
            raise Problem(403, "You are not authorized to complete this action.")
        return Call(request=request, principal=principal, service=service, ids=ids)

    return admit


def grant_of(token: str, request: Request, route: Route, secret: bytes, now: float) -> Grant:
    """Return the grant that permits a request of a host. Raises: Problem: 401, 403."""
    grant = granted(token, secret, now)
    if grant is None:
        raise Problem(401, "This grant is not valid, or has expired.")
    allowed = GRANTED.get((route.method, route.path), frozenset())
    if grant.access not in allowed or request.params["image_id"] != grant.image_id:
        raise Problem(403, "You are not authorized to complete this action.")
    return grant


def checked(value: Any, kind: type[Body]) -> Body:
    """Convert a sent value to this type. Raises: Problem: it does not fit."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Problem(400, f"Provided object does not match schema 'image': {error}") from error


def _translate(error: WorldError) -> Problem:
    return problem_of(error, ((TooLarge, 413), (WrongContents, 415), (OverQuota, 413), (Refused, 403)))


def _refusal(request: Request, problem: Problem) -> Reply:
    """Answer in the type that is asked for, as Glance does: glanceclient accepts all types, and reads HTML only."""
    title, accepted = HTTPStatus(problem.status).phrase, request.headers.get("accept", "*/*")
    line = f"{problem.status} {title}"
    if "html" in accepted or "*/*" in accepted:
        return _text(problem, "html", PAGE.format(line=line, message=escape(problem.message, quote=False)))
    if "application/json" in accepted:
        return Reply({"code": line, "title": title, "message": problem.message}, problem.status, problem.headers)
    return _text(problem, "plain", f"{line}\n\n{problem.message}\n")


def _text(problem: Problem, subtype: str, text: str) -> Reply:
    headers = {**problem.headers, "content-type": f"text/{subtype}; charset=utf-8"}
    return Reply(text.encode(), problem.status, headers)


SHAPE = Shape(refusal=_refusal, translate=_translate)
