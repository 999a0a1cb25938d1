"""One request to the volume service: who asks, at which version, and how answers and errors look.

Law: who may not see a volume is told that it is not there.
"""

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.domain.errors import (
    Conflict,
    Forbidden,
    NotFound,
    OverQuota,
    Refused,
    Unavailable,
    WorldError,
    WrongState,
)
from whimbrel.embedded.bodies import decode, read
from whimbrel.embedded.endpoint import Asked, Endpoint, Manners, caller_of, json
from whimbrel.embedded.volume.microversions import HEADER, MOST, SERVICE, UnknownVersion, negotiated
from whimbrel.embedded.volume.service import Change, Decide, VolumeService
from whimbrel.ports.embedded.volume_store import AttachmentRecord, SnapshotRecord, VolumeRecord, VolumeStore
from whimbrel.ports.services.identity import Caller

BODY_LIMIT_BYTES = 1 << 18
ADMINS = {"admin", "service"}
"""Who may do what he likes: administrators, and the cloud's own services, which keep other people's volumes."""

Body = TypeVar("Body")


@dataclass(frozen=True, kw_only=True)
class Ask(Asked):
    """One request, at its version, and what it is answered with."""

    service: VolumeService
    minor: int

    @property
    def store(self) -> VolumeStore:
        return self.service.store

    @property
    def is_admin(self) -> bool:
        return bool(self.caller.roles & ADMINS)

    @property
    def project_id(self) -> str:
        """Give the project in whose name he asks: his own, or the one in the path for who may do what he likes."""
        return str(self.request.path_params.get("project_id") or self.caller.project_id)

    @property
    def viewer(self) -> str | None:
        """Give whose things he sees in lists; None: everybody's, where he asked for that and may."""
        wants_all = self.request.query_params.get("all_tenants", "").lower() in ("1", "true", "yes", "on", "t", "y")
        return None if self.is_admin and wants_all else self.project_id

    def sees(self, project_id: str) -> bool:
        return self.is_admin or project_id == self.caller.project_id

    async def volume(self, volume_id: str | None = None) -> VolumeRecord:
        """Give a volume, by default the one that the path names. Raises: NotFound: there is none that he may see."""
        wanted = volume_id or self.path("volume_id")
        record = await self.store.find_volume(wanted)
        if not self.sees(record.project_id):
            raise NotFound(f"Volume {wanted} could not be found.")
        return record

    async def snapshot(self, snapshot_id: str | None = None) -> SnapshotRecord:
        wanted = snapshot_id or self.path("snapshot_id")
        record = await self.store.find_snapshot(wanted)
        if not self.sees(record.project_id):
            raise NotFound(f"Snapshot {wanted} could not be found.")
        return record

    async def attachment(self) -> AttachmentRecord:
        return await self.seen_attachment(self.path("attachment_id"))

    async def seen_attachment(self, attachment_id: str) -> AttachmentRecord:
        """Raises: NotFound: also where it is of a project that the caller does not see."""
        record = await self.store.find_attachment(attachment_id)
        if not self.sees(record.project_id):
            raise NotFound(f"Volume attachment {record.id} could not be found.")
        return record

    async def change(self, record: VolumeRecord, decide: Decide) -> VolumeRecord:
        """Change a volume as VolumeService.change does, and write down when."""

        def dated(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
            change = decide(volume, claims)
            now = self.service.clock.now()
            return dataclasses.replace(change, volume=msgspec.structs.replace(change.volume, updated_at=now))

        return await self.service.change(record.id, dated)

    async def body(self, kind: type[Body]) -> Body:
        """Read the body as this. Raises: HTTPException: it is not."""
        return decode(await read(self.request, BODY_LIMIT_BYTES), kind)


Handler = Callable[[Ask], Awaitable[Response]]
Rule = Callable[[Caller], bool]


def endpoint(service: VolumeService, handler: Handler, rule: Rule, since: int = 0) -> Endpoint:
    """Make a handler an endpoint. rule: which callers may; since: the version that brought it."""

    async def answer(request: Request) -> Response:
        minor = request.state.minor = negotiated(request.headers.getlist(HEADER))
        caller = await caller_of(request, service.identity)
        _check_project(request, caller)
        if minor < since:
            raise HTTPException(404, f"This is there from version 3.{since} on.")
        if not rule(caller):
            raise Forbidden("Policy does not allow this to be performed.")
        return _marked(await handler(Ask(service=service, request=request, caller=caller, minor=minor)), minor)

    return answer


def _check_project(request: Request, caller: Caller) -> None:
    """Raises: HTTPException: the path names another project than his."""
    named = request.path_params.get("project_id", caller.project_id)
    if named != caller.project_id and (len(named) > 255 or not caller.roles & ADMINS):
        raise HTTPException(400, "Malformed request url: the token is for another project.")


def nothing(status: int = 202) -> Response:
    return Response(status_code=status)


def _marked(response: Response, minor: int) -> Response:
    response.headers[HEADER] = f"{SERVICE} 3.{minor}"
    response.headers["Vary"] = HEADER
    return response


NAMES = {
    400: "badRequest",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    406: "computeFault",  # so says Cinder
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    503: "serviceUnavailable",
}
STATUS: Sequence[tuple[type[WorldError], int]] = (
    (NotFound, 404),
    (WrongState, 400),  # so does Cinder
    (Conflict, 409),
    (OverQuota, 413),
    (Forbidden, 403),
    (UnknownVersion, 406),
    (Refused, 400),
    (Unavailable, 503),
)


def _say(request: Request, status: int, message: str, error: Exception) -> Response:
    said: dict[str, Any] = {"code": status, "message": message}
    if status == 401:
        body = {"error": {**said, "title": "Unauthorized"}}
    elif status == 413:
        body = {"overLimit": {**said, "retryAfter": "0"}}
    elif status == 406:
        body = {NAMES[406]: {**said, "max_version": f"3.{MOST}", "min_version": "3.0"}}
    else:
        body = {NAMES.get(status, "computeFault"): said}
    return _marked(json(body, status), getattr(request.state, "minor", 0))


MANNERS = Manners(STATUS, _say)
