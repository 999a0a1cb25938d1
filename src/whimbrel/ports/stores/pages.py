"""What a proof reads of a store or a service page by page, so that it never has all of it in hand.

Law: nothing is changed by it, and what comes or goes between two pages may be missed or seen: who finds something wrong
looks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

from whimbrel.domain.ids import ConsumerId, HostName, RunId, ServerId

if TYPE_CHECKING:
    from whimbrel.ports.services.images import Image
    from whimbrel.ports.services.volumes import Attachment

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """after: with which the next page begins; None: this was the last one."""

    items: list[T]
    after: str | None = None


class ServerIds(Protocol):
    """Of the directory: its living entries. Of a cell: its records that are not deleted."""

    async def ids(self, after: str | None, limit: int) -> Page[ServerId]: ...


class Hold(msgspec.Struct, frozen=True):
    """By which run a record is locked, None: by none; and how it stands to a copy in another cell.

    host, vm_state, project: by which it is found in lists.
    """

    run: RunId | None
    standing: str
    host: HostName | None = None
    vm_state: str = ""
    project: str = ""


class Holds(Protocol):
    async def holds(self, ids: Sequence[ServerId]) -> dict[ServerId, Hold]:
        """Tell how these records are held; missing ones are left out."""
        ...


class Consumers(Protocol):
    async def consumers(self, after: str | None, limit: int) -> Page[ConsumerId]:
        """List who holds anything."""
        ...


class PortHolders(Protocol):
    async def port_holders(self, after: str | None, limit: int) -> Page[ServerId]:
        """List whose servers' ports there are, once for each port. Raises: Refused: what `after` names is gone."""
        ...


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


class AllImages(Protocol):
    async def all_images(self, after: str | None, limit: int) -> Page[Image]:
        """List the images of all projects. Raises: Refused, NotFound: as above."""
        ...
