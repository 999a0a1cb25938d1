"""Server groups: affinity and anti-affinity of servers. Each method is one transaction.

Invariant: a server joins its group in the transaction that accepts it (`Journal.accept`), and is a member until it or
the group is deleted. The policy is enforced by Placement's claims, not here.
"""

from typing import Literal, Protocol

import msgspec

from whimbrel.domain.ids import GroupId, ProjectId, ServerId, UserId

GroupPolicy = Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]


class ServerGroup(msgspec.Struct, frozen=True, kw_only=True):
    id: GroupId
    name: str
    project_id: ProjectId
    user_id: UserId
    policy: GroupPolicy
    max_server_per_host: int | None = None  # of anti-affinity; None: not set, means 1
    created_at: float
    members: tuple[ServerId, ...] = ()  # those not deleted, in the order of joining


class ServerGroups(Protocol):
    async def create(self, group: ServerGroup, limit: int) -> None:
        """Add a group. limit: groups per project, -1: none. Raises: OverQuota."""

    async def get(self, group_id: GroupId) -> ServerGroup:
        """Raises: NotFound."""

    async def find(self, project_id: ProjectId | None, offset: int = 0, limit: int | None = None) -> list[ServerGroup]:
        """Return a project's groups (None: all), in the order of creation."""

    async def of_server(self, server_id: ServerId) -> ServerGroup | None:
        """Return the group of a server, without its members. None: it is in no group."""

    async def count(self, project_id: ProjectId, user_id: UserId | None = None) -> int:
        """Count a project's groups, or those made by one of its users."""

    async def delete(self, group_id: GroupId) -> None:
        """Remove a group and its memberships. Raises: NotFound."""
