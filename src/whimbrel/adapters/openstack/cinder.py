"""Requests to the volume service, and what its answers have of volumes and snapshots.

Invariant: a missing response, or one that reports a failure of the service, is Unavailable, never a refusal.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from whimbrel.adapters.openstack.answers import Body, error_of, inside
from whimbrel.adapters.openstack.service_client import Answer, Service
from whimbrel.domain.errors import Conflict, NotFound, OverQuota, Refused
from whimbrel.domain.ids import ProjectId

HEADERS = {"OpenStack-API-Version": "volume 3.44"}  # the first one with completion of attachments

ServiceOf = Callable[[ProjectId, str], Service]
"""Returns the service for a user of the project, by the grant of that user."""


class Cinder:
    """service: paths are relative to `/v3`.

    service_of: the service as a member of the project, if only members may create its volumes and snapshots, as in
    Cinder. The embedded service accepts them from the cloud's services.
    """

    def __init__(self, service: Service, service_of: ServiceOf | None = None) -> None:
        self._service = service
        self._service_of = service_of or (lambda project, grant: service)

    async def _read(self, method: str, path: str, key: str, kind: type[Body], **what: Any) -> Body:
        return inside("volume", key, await self._ask(method, path, **what), kind)

    async def _create(self, key: str, kind: type[Body], project: str, grant: str, requested: dict[str, Any]) -> Body:
        """Create a volume or a snapshot. Raises: Refused: its source or its type is not there."""
        sent = {key: {name: value for name, value in requested.items() if value is not None}}
        service = self._service_of(ProjectId(project), grant)
        try:
            return inside("volume", key, await asked(service, "POST", f"/{project}/{key}s", body=sent), kind)
        except NotFound as error:
            raise Refused(error.reason) from error

    async def _ask(self, method: str, path: str, **what: Any) -> bytes:
        return await asked(self._service, method, path, **what)


async def asked(service: Service, method: str, path: str, **what: Any) -> bytes:
    """Send a request and return the body of the answer. Raises: the error for its status."""
    answer = await service.ask(method, path, **{"headers": HEADERS, **what})
    if not answer.is_yes:
        raise error_of("volume", answer.status, _message(answer), {409: Conflict, 413: OverQuota})
    return answer.content


def _message(answer: Answer) -> str:
    """Return the message of an error, which is nested below the name of its kind."""
    try:
        return next(iter(msgspec.json.decode(answer.content, type=dict[str, _Said]).values())).message
    except (msgspec.DecodeError, StopIteration):
        return answer.text


class _Said(msgspec.Struct):
    message: str


class ShownUse(msgspec.Struct):
    """An attachment, as a volume shows it."""

    attachment_id: str = ""
    host_name: str | None = None
    server_id: str | None = None
    device: str | None = None


class ShownVolume(msgspec.Struct):
    id: str
    status: str
    size: int
    name: str | None = None
    description: str | None = None
    created_at: str | None = None
    availability_zone: str | None = None
    volume_type: str | None = None
    snapshot_id: str | None = None
    bootable: str | bool = "false"
    multiattach: bool = False
    metadata: dict[str, str] = {}
    project_id: str | None = msgspec.field(default=None, name="os-vol-tenant-attr:tenant_id")
    host: str | None = msgspec.field(default=None, name="os-vol-host-attr:host")
    image_metadata: dict[str, Any] = msgspec.field(default_factory=dict, name="volume_image_metadata")
    attachments: list[ShownUse] = []
    migration_status: str | None = None
    named_by: str | None = msgspec.field(default=None, name="os-vol-mig-status-attr:name_id")


class ShownSnapshot(msgspec.Struct):
    volume_id: str
    id: str = ""
    status: str = ""
    size: int = 0
    name: str | None = None
    description: str | None = None
    created_at: str | None = None
    metadata: dict[str, str] = {}
    progress: str | None = msgspec.field(default=None, name="os-extended-snapshot-attributes:progress")
    project_id: str | None = msgspec.field(default=None, name="os-extended-snapshot-attributes:project_id")
