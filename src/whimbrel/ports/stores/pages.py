"""What a proof reads of a store or a service page by page, so that it never has all of it in hand.

Law: nothing is changed by it, and what comes or goes between two pages may be missed or seen: who finds something wrong
looks again.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from whimbrel.domain.ids import ConsumerId, HostName, RunId, ServerId

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
