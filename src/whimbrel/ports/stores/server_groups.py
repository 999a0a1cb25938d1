"""Server groups: which servers are to be together, or apart. Each method is one transaction.

Law: a server joins its group in the transaction that accepts it (`Journal.accept`), and is in it until it or the group
is deleted. That the rule holds is not seen to here but in Placement, where hosts are given.
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
    max_server_per_host: int | None = None  # of anti-affinity; None: nothing was said, which means 1
    created_at: float
    members: tuple[ServerId, ...] = ()  # those that are not deleted, in the order in which they joined


class ServerGroups(Protocol):
    async def create(self, group: ServerGroup, limit: int) -> None:
        """Add one. limit: how many its project may have, -1: any. Raises: OverQuota."""
        ...

    async def get(self, group_id: GroupId) -> ServerGroup:
        """Raises: NotFound."""
        ...

    async def find(self, project_id: ProjectId | None, offset: int = 0, limit: int | None = None) -> list[ServerGroup]:
        """List a project's, None: all, in the order in which they were created."""
        ...

    async def of_server(self, server_id: ServerId) -> ServerGroup | None:
        """Give the group of a server, without its members; None: it is in none."""
        ...

    async def count(self, project_id: ProjectId, user_id: UserId | None = None) -> int:
        """Count a project's groups, or those that one user of it made."""
        ...

    async def delete(self, group_id: GroupId) -> None:
        """Remove a group; its members are in none then. Raises: NotFound."""
        ...
