"""The volume service, as servers and moves need it: Cinder v3, or the embedded one.

Every call may be repeated and ends in the same world. Raises, all of them: Unavailable: no answer, or the service has
trouble: it may have happened. Refused: no, with the service's reason. NotFound only where it says so.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.ports.stores.pages import Page


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    project_id: str
    name: str
    status: str  # "creating" | "available" | "reserved" | "attaching" | "in-use" | "detaching" | "error" ...
    size_gib: int
    zone: str
    backend: str | None = None  # the storage back end that it is on; None: whoever asks is not told
    is_bootable: bool = False
    is_multiattach: bool = False
    image_metadata: dict[str, str] = {}  # of the image that it was made of
    metadata: dict[str, str] = {}


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A server's hold on a volume. Without a connector it is empty: the volume is only kept for the server."""

    id: str
    volume_id: str
    server: ServerId
    status: str  # "reserved" | "attaching" | "attached" | "detached" ...
    connection: dict[str, Any] = {}  # {"driver_volume_type": ..., "data": {...}}; empty: no connector yet
    is_read_only: bool = False


class NewVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume to be made for a server. The mark is chosen beforehand and written down: by it it is found again."""

    mark: str  # kept in the volume's metadata under MARK
    project_id: ProjectId
    size_gib: int
    zone: str | None = None
    volume_type: str | None = None
    image_id: str | None = None
    snapshot_id: str | None = None
    source_volume_id: str | None = None


MARK = "whimbrel:made_for"
"""The metadata key of a volume that was made for a server: SERVER/NUMBER."""


class Attachments(Protocol):
    async def all_attachments(self, after: str | None, limit: int) -> Page[Attachment]:
        """List the attachments of all servers, without their connections. Raises: Refused, NotFound: as above."""
        ...


class VolumeUse(msgspec.Struct, frozen=True):
    """What a volume says of itself. hosts: by attachment, from which host it is used; those that use it, of all.

    project: "": the service does not say.
    """

    id: str
    status: str
    hosts: dict[str, str | None] = {}
    project: str = ""


class VolumeUses(Protocol):
    async def volume_uses(self, after: str | None, limit: int) -> Page[VolumeUse]:
        """List the volumes of all projects. Raises: Refused, NotFound: as above."""
        ...

    async def volume_use(self, volume_id: str) -> VolumeUse:
        """Raises: NotFound."""
        ...


class Volumes(Attachments, VolumeUses, Protocol):
    async def volume(self, volume_id: str) -> Volume:
        """Raises: NotFound."""
        ...

    async def snapshot_volume(self, snapshot_id: str) -> Volume:
        """Give the volume that a snapshot was taken of. Raises: NotFound."""
        ...

    async def create_volume(self, new: NewVolume) -> Volume:
        """Have a volume made, or give the one of this project with this mark; it may be `creating` still.

        Raises: Refused: the quota, an unknown type or image, too small ...
        """
        ...

    async def made(self, project: ProjectId, marks: Sequence[str]) -> list[Volume]:
        """List the volumes of a project that were made with one of these marks."""
        ...

    async def delete_volume(self, volume_id: str) -> None:
        """Fine if it is not there. Raises: Refused: it is in use."""
        ...

    async def attachments(self, server: ServerId, volume_id: str | None = None) -> list[Attachment]:
        """List a server's attachments, of one volume or of all, without their connections."""
        ...

    async def attachment(self, attachment_id: str) -> Attachment:
        """Give it with its connection. Raises: NotFound."""
        ...

    async def reserve(
        self, server: ServerId, volume_id: str, known: Sequence[str], held: Sequence[Attachment] | None = None
    ) -> Attachment:
        """Have an attachment of this server on this volume besides the known ones, empty if it is made now.

        held: what the server holds, where the caller has just looked. known: ids of the server's attachments on it that
        are for something else. It is what makes this repeatable: a server is moved by one run at a time, so whatever
        else is there was made by an earlier try.
        Raises: Refused: the volume is another's, or in no state for it; NotFound.
        """
        ...

    async def connect(self, attachment_id: str, connector: Mapping[str, Any]) -> Attachment:
        """Tell from which host it is used, and have it connected. connector: {"host": ..., "ip": ..., ...}.

        Fine if it is connected already. Raises: NotFound; Refused.
        """
        ...

    async def complete(self, attachment_id: str) -> None:
        """Say that the guest has it: the volume is in use. Fine if it is. Raises: NotFound."""
        ...

    async def detach(self, attachment_id: str) -> None:
        """Delete an attachment, its connection with it; fine if it is not there."""
        ...
