"""Trees of resource providers, for services that report resources of hosts besides processors and disks."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.ports.placement.placement import Inventory


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The complete state of a provider below a host's root."""

    uuid: ProviderId
    name: str
    parent: ProviderId
    inventories: Mapping[str, Inventory] = {}
    traits: frozenset[str] = frozenset()


class KnownTrees(msgspec.Struct, frozen=True, kw_only=True):
    """All trees: root providers by name, and the providers below them."""

    roots: Mapping[str, ProviderId]
    parts: Mapping[ProviderId, Part]

    def by_parent(self) -> dict[ProviderId, list[ProviderId]]:
        found: dict[ProviderId, list[ProviderId]] = {}
        for part in self.parts.values():
            found.setdefault(part.parent, []).append(part.uuid)
        return found


class ProviderTrees(Protocol):
    """All methods raise Unavailable."""

    async def known(self) -> KnownTrees:
        """Return the current trees."""

    async def ensure(self, part: Part) -> None:
        """Ensure that a provider is in this state. Repeatable; an unchanged one is not written.

        Raises: Conflict: what would be removed has allocations; Refused: the name is taken, or the parent is missing.
        """

    async def create(self, parts: Sequence[Part]) -> None:
        """Create many providers, parents first. After an error some may have been created.

        Raises: Conflict: one exists; Refused: a parent is missing.
        """

    async def remove(self, uuid: ProviderId) -> None:
        """Remove a provider. Idempotent. Raises: Conflict: it has allocations."""
