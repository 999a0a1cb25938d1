"""Reading of stores and services page by page, for proofs, so that memory use is bounded.

Invariant: reading changes nothing. What comes or goes between two pages may be missed or seen; check again before
reporting a violation.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from whimbrel.domain.ids import ConsumerId, HostName, RunId, ServerId

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """after: argument for the next page; None: this is the last one."""

    items: list[T]
    after: str | None = None


class ServerIds(Protocol):
    """Of the directory: its entries that are not deleted. Of a cell: its records that are not deleted."""

    async def ids(self, after: str | None, limit: int) -> Page[ServerId]: ...


class Hold(msgspec.Struct, frozen=True):
    """The run that locks a record (None: none), and its relation to a copy in another cell.

    host, vm_state, project: fields by which lists find it.
    """

    run: RunId | None
    standing: str
    host: HostName | None = None
    vm_state: str = ""
    project: str = ""


class Holds(Protocol):
    async def holds(self, ids: Sequence[ServerId]) -> dict[ServerId, Hold]:
        """Return the holds of these records; missing ones are omitted."""


class Consumers(Protocol):
    async def consumers(self, after: str | None, limit: int) -> Page[ConsumerId]:
        """Return the consumers that hold anything."""


class PortHolders(Protocol):
    async def port_holders(self, after: str | None, limit: int) -> Page[ServerId]:
        """Return the server of each port, once per port. Raises: Refused: what `after` names is gone."""
