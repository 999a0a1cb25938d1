"""Metadata definitions of the embedded image service: which properties images, flavors and servers may have.

The service stores them for clients, such as dashboards, that offer properties to choose from. Nothing here reads them.
"""

from typing import Any, Protocol

import msgspec


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace with all that it contains, by name. Times are seconds since 1970."""

    namespace: str  # its name, unique in the cloud
    owner: str  # a project
    created_at: float
    updated_at: float
    visibility: str = "private"  # or "public"
    protected: bool = False
    display_name: str | None = None
    description: str | None = None
    objects: dict[str, dict[str, Any]] = {}
    properties: dict[str, dict[str, Any]] = {}
    resource_types: dict[str, dict[str, Any]] = {}
    tags: list[str] = []
    generation: int = 0  # increases with every change; a change names the one that it read


class MetadefStore(Protocol):
    """All methods raise Unavailable."""

    async def namespaces(self) -> list[Namespace]:
        """Return all namespaces, by name."""

    async def namespace(self, name: str) -> Namespace:
        """Raises: NotFound."""

    async def add_namespace(self, namespace: Namespace) -> None:
        """Raises: Conflict: the name is taken."""

    async def change_namespace(self, name: str, namespace: Namespace) -> Namespace:
        """Replace a namespace, which may get another name. Raises: NotFound; Conflict: changed since it was read."""

    async def remove_namespace(self, name: str) -> None:
        """Raises: NotFound."""
