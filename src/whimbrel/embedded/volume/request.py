"""One request to the volume service: version, principal, the records visible to it, the error format.

Invariant: a volume that the requester may not see is answered like one that does not exist.
"""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from whimbrel.domain.errors import Forbidden, NotFound, OverQuota, WorldError, WrongState
from whimbrel.embedded.volume.microversions import HEADER, VERSIONS
from whimbrel.embedded.volume.service import Change, Decide, VolumeService
from whimbrel.http.app import Shape
from whimbrel.http.call import Admitted, is_from_service, project_principal
from whimbrel.http.problem import Problem, problem_of
from whimbrel.http.reply import Reply
from whimbrel.http.request import Request
from whimbrel.http.routes import Route
from whimbrel.ports.embedded.volume_store import AttachmentRecord, SnapshotRecord, VolumeRecord, VolumeStore
from whimbrel.ports.services.identity import Principal

ADMINS = {"admin", "service"}
"""Roles with all permissions: administrators, and the cloud's own services, which manage volumes of others."""

R = TypeVar("R", VolumeRecord, SnapshotRecord, AttachmentRecord)


@dataclass(frozen=True, kw_only=True)
class Call(Admitted):
    """One request at its version, and the dependencies of its handler."""

    body_limit_bytes: ClassVar = 1 << 18

    service: VolumeService
    minor: int
    is_from_service: bool = False  # sent by a service of the cloud, on its own behalf or on a user's

    @property
    def store(self) -> VolumeStore:
        return self.service.store

    @property
    def is_admin(self) -> bool:
        return bool(self.principal.roles & ADMINS)

    @property
    def project_id(self) -> str:
        """Return the project of the request: the requester's own, or for a service the one in the path."""
        return str(self.request.params.get("project_id") or self.principal.project_id)

    @property
    def viewer(self) -> str | None:
        """Return the project whose records the requester lists; None: all, if an administrator requests all."""
        wants_all = self.request.query_params.get("all_tenants", "").lower() in ("1", "true", "yes", "on", "t", "y")
        return None if self.is_admin and wants_all else self.project_id

    def sees(self, project_id: str) -> bool:
        return self.is_admin or project_id == self.principal.project_id

    async def volume(self, volume_id: str | None = None) -> VolumeRecord:
        """Return a volume, by default the one in the path. Raises: NotFound: also if the requester may not see it."""
        return self._visible("Volume", await self.store.find_volume(volume_id or self.path("volume_id")))

    async def snapshot(self, snapshot_id: str | None = None) -> SnapshotRecord:
        return self._visible("Snapshot", await self.store.find_snapshot(snapshot_id or self.path("snapshot_id")))

    async def change_snapshot(self, record: SnapshotRecord, **changes: Any) -> SnapshotRecord:
        """Change fields of a snapshot, and set its updated_at."""
        now = self.service.clock.now()
        return await self.store.change_snapshot(msgspec.structs.replace(record, updated_at=now, **changes))

    async def attachment(self) -> AttachmentRecord:
        return await self.seen_attachment(self.path("attachment_id"))

    async def seen_attachment(self, attachment_id: str) -> AttachmentRecord:
        """Raises: NotFound: also if the requester may not see it."""
        return self._visible("Volume attachment", await self.store.find_attachment(attachment_id))

    def _visible(self, word: str, record: R) -> R:
        if not self.sees(record.project_id):
            raise NotFound(f"{word} {record.id} could not be found.")
        return record

    async def change(self, volume_id: str, decide: Decide) -> VolumeRecord:
        """Change a volume as VolumeService.change does, and set its updated_at."""

        def dated(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
            change = decide(volume, claims)
            now = self.service.clock.now()
            return dataclasses.replace(change, volume=msgspec.structs.replace(change.volume, updated_at=now))

        return await self.service.change(volume_id, dated)


Handler = Callable[[Call], Awaitable[Reply]]
Rule = Callable[[Principal], bool]

ACCEPTED: Final = Reply(status=202)


def reader(principal: Principal) -> bool:
    """Admit every token for a project, to read its own records."""
    return True


def member(principal: Principal) -> bool:
    return bool(principal.roles & {"member", *ADMINS})


def admin(principal: Principal) -> bool:
    return bool(principal.roles & ADMINS)


def admission(service: VolumeService) -> Callable[[Request, Route], Awaitable[Call]]:
    """Return the check of version, principal and rule."""

    async def admit(request: Request, route: Route) -> Call:
        minor = request.minor = VERSIONS.negotiate(request.headers.get("openstack-api-version", ""))
        principal = await project_principal(request, service.identity)
        from_service = await is_from_service(request, service.identity, principal)
        _check_project(request, principal, from_service)
        if minor < route.since:
            raise Problem(404, f"This URL requires version 3.{route.since} or later.")
        if not route.rule(principal):
            raise Forbidden("Policy does not allow this to be performed.")
        return Call(service=service, request=request, principal=principal, minor=minor, is_from_service=from_service)

    return admit


def _check_project(request: Request, principal: Principal, from_service: bool) -> None:
    """Raises: Problem: the path names another project than the token.

    Cinder refuses this to everybody. Here the cloud's own services make volumes of other projects.
    """
    named = request.params.get("project_id", principal.project_id)
    may_differ = from_service and principal.roles & ADMINS
    if named != principal.project_id and (len(named) > 255 or not may_differ):
        raise Problem(400, "Malformed request url: the token is for another project.")


NAMES = {
    400: "badRequest",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    406: "computeFault",  # as in Cinder
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    503: "serviceUnavailable",
}


def _translate(error: WorldError) -> Problem:
    return problem_of(error, ((WrongState, 400), (OverQuota, 413)))  # both as in Cinder


def _refusal(request: Request, problem: Problem) -> Reply:
    status = problem.status
    fault: dict[str, Any] = {"code": status, "message": problem.message, **problem.extra}
    if status == 401:
        body = {"error": {**fault, "title": "Unauthorized"}}
    elif status == 413:
        body = {"overLimit": {**fault, "retryAfter": "0"}}
    else:
        body = {NAMES.get(status, "computeFault"): fault}
    return Reply(body, status, {**_version(request.minor or 0), **problem.headers})


def _headers(request: Request, _reply: Reply) -> Mapping[str, str]:
    return {} if request.minor is None else _version(request.minor)


def _version(minor: int) -> dict[str, str]:
    return {"openstack-api-version": f"volume 3.{minor}", "vary": HEADER}


SHAPE = Shape(refusal=_refusal, translate=_translate, headers=_headers)
