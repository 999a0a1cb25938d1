"""Trees of resource providers, for services that report what hosts have beside their processors and disks."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.ports.placement.placement import Inventory


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A provider below a host's, with all that it is to have."""

    uuid: ProviderId
    name: str
    parent: ProviderId
    inventories: Mapping[str, Inventory] = {}
    traits: frozenset[str] = frozenset()


class KnownTrees(msgspec.Struct, frozen=True, kw_only=True):
    """All trees: the root providers by name, and what is below them."""

    roots: Mapping[str, ProviderId]
    parts: Mapping[ProviderId, Part]

    def by_parent(self) -> dict[ProviderId, list[ProviderId]]:
        """Return the providers right below each provider that has some."""
        found: dict[ProviderId, list[ProviderId]] = {}
        for part in self.parts.values():
            found.setdefault(part.parent, []).append(part.uuid)
        return found


class ProviderTrees(Protocol):
    """All of it raises Unavailable."""

    async def known(self) -> KnownTrees:
        """Return all trees as they are now."""
        ...

    async def have(self, part: Part) -> None:
        """Have a provider there as it is to be. Repeatable; what is so already is not written.

        Raises: Conflict: somebody holds of it what would go; Refused: the name is another's, or the parent is missing.
        """
        ...

    async def remove(self, uuid: ProviderId) -> None:
        """Fine if it is not there. Raises: Conflict: somebody holds something of it."""
        ...
