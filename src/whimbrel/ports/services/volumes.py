"""The volume service as servers and moves use it: Cinder v3, or the embedded one.

All calls are repeatable. Raises, in all methods: Unavailable: no answer, or an internal error of the service: it may
have happened. Refused: with the service's reason. NotFound only where stated.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.ports.services.volume_proxies import VolumeProxies
from whimbrel.ports.services.volume_snapshots import Snapshots
from whimbrel.ports.stores.pages import Page


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    project_id: str
    name: str
    status: str  # "creating" | "available" | "reserved" | "attaching" | "in-use" | "detaching" | "error" ...
    size_gib: int
    zone: str
    backend: str | None = None  # its storage back end; None: not visible to the requester
    is_bootable: bool = False
    is_multiattach: bool = False
    image_metadata: dict[str, str] = {}  # of its source image
    metadata: dict[str, str] = {}
    migration_status: str = ""  # "migrating" to another volume | "target:ID" of that volume ...; "": none

    @property
    def is_migrating(self) -> bool:
        """Check whether the volume service waits until the servers of the volume use another one."""
        return self.migration_status == "migrating"

    @property
    def takes_completion(self) -> bool:
        """Check whether the volume service still completes the migration: it does so, too, when it has given it up."""
        return self.migration_status in ("migrating", "error")

    @property
    def migrated_volume(self) -> str:
        """Return the id of the volume that is migrated to this one; "": none."""
        before, mark, volume_id = self.migration_status.partition("target:")
        return volume_id if mark and not before else ""


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """An attachment of a volume to a server. Without a connector it only reserves the volume."""

    id: str
    volume_id: str
    server: ServerId
    status: str  # "reserved" | "attaching" | "attached" | "detached" ...
    connection: dict[str, Any] = {}  # {"driver_volume_type": ..., "data": {...}}; empty: no connector yet
    is_read_only: bool = False


class NewVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume to be made for a server. Its mark is chosen and saved beforehand, to find the volume again."""

    mark: str  # kept in the volume's metadata under MARK
    project_id: ProjectId
    size_gib: int
    zone: str | None = None
    volume_type: str | None = None
    image_id: str | None = None
    snapshot_id: str | None = None
    source_volume_id: str | None = None
    grant: str = ""  # of its user: see ports.services.user_grants


MARK = "whimbrel:made_for"
"""The metadata key of volumes made for a server: SERVER/NUMBER."""


class Attachments(Protocol):
    async def all_attachments(self, after: str | None, limit: int) -> Page[Attachment]:
        """Return the attachments of all servers, without connections. Raises: Refused, NotFound: as above."""


class VolumeUse(msgspec.Struct, frozen=True):
    """A volume's status and users. hosts: attachment -> host that uses it, for all attachments in use.

    project: "": the service does not provide it. named_by: the id in the names of its files; "": its own. After a
    migration it may be that of the migration's target.
    """

    id: str
    status: str
    hosts: dict[str, str | None] = {}
    project: str = ""
    named_by: str = ""


class VolumeUses(Protocol):
    async def volume_uses(self, after: str | None, limit: int) -> Page[VolumeUse]:
        """Return the volumes of all projects. Raises: Refused, NotFound: as above."""

    async def volume_use(self, volume_id: str) -> VolumeUse:
        """Raises: NotFound."""


class Volumes(Attachments, VolumeUses, Snapshots, VolumeProxies, Protocol):
    async def volume(self, volume_id: str) -> Volume:
        """Raises: NotFound."""

    async def snapshot_volume(self, snapshot_id: str) -> Volume:
        """Return the volume of a snapshot. Raises: NotFound."""

    async def create_volume(self, new: NewVolume) -> Volume:
        """Create a volume, or return this project's volume with this mark; it may still be `creating`.

        Raises: Refused: the quota, an unknown type or image, too small ...
        """

    async def has_type(self, type_id: str, project: ProjectId | None, grant: str = "") -> bool:
        """Check whether a user may make volumes of the type with this name or id: private ones are for some projects.

        project: of the user; None: an administrator, who may use all types. grant: of the user.
        """

    async def made(self, project: ProjectId, marks: Sequence[str]) -> list[Volume]:
        """Return the volumes of a project that were made with one of these marks."""

    async def delete_volume(self, volume_id: str) -> None:
        """Delete a volume. Idempotent. Raises: Refused: it is in use, or has snapshots."""

    async def reimage(self, volume_id: str, image_id: str) -> None:
        """Begin to replace the content of a volume by an image. It is `downloading` until that is done, then as before.

        It must be reserved by one attachment, or unattached; a failure leaves it in `error`. Not idempotent: repeated
        while it is `downloading`, it is refused; afterwards it begins again.
        Raises: Refused: it is in another state, or the image does not fit; Conflict: it has several attachments;
        NotFound.
        """

    async def attachments(self, server: ServerId, volume_id: str | None = None) -> list[Attachment]:
        """Return a server's attachments, of one volume or of all, without connections."""

    async def attachment(self, attachment_id: str) -> Attachment:
        """Return an attachment with its connection. Raises: NotFound."""

    async def reserve(
        self, server: ServerId, volume_id: str, known: Sequence[str], held: Sequence[Attachment] | None = None
    ) -> Attachment:
        """Ensure an attachment of this server to this volume besides the known ones; a new one has no connector.

        held: the server's attachments, if the caller has just read them. known: ids of the server's attachments to the
        volume that serve another purpose. They make this repeatable: one run at a time moves a server, so any other
        attachment was made by an earlier try.
        Raises: Refused: the volume is another's, or in a wrong state; NotFound.
        """

    async def connect_another(
        self, server: ServerId, volume_id: str, known: Sequence[str], connector: Mapping[str, Any],
        held: Sequence[Attachment] | None = None,
    ) -> Attachment:  # fmt: skip
        """Ensure a connected attachment of this server to this volume besides the known ones, which may be connected.

        A volume that only one server may have is connected from a second host in this way only: `connect` refuses it.
        Arguments and errors: as in `reserve` and `connect`.
        """

    async def connect(self, attachment_id: str, connector: Mapping[str, Any]) -> Attachment:
        """Set the host of an attachment and connect it. connector: {"host": ..., "ip": ..., ...}.

        Idempotent. Raises: NotFound; Refused; Conflict: another attachment of the volume is connected, and only one
        server may have it.
        """

    async def complete(self, attachment_id: str) -> None:
        """Mark an attachment as in use by the guest, also one that is connected to no host. Idempotent.

        Raises: NotFound.
        """

    async def detach(self, attachment_id: str) -> None:
        """Delete an attachment and its connection. Idempotent."""

    async def complete_migration(self, volume_id: str, new_volume_id: str, *, failed: bool = False) -> str:
        """Report that a server uses the target of a volume's migration, or that it cannot: failed.

        Return the id of the volume that it uses then. Its attachment to the target becomes one to that volume. Nothing
        is changed if the migration has ended, so that a late report does no harm. Idempotent.
        """
