"""Limits of the compute service's resources that the identity service stores: Keystone's unified limits.

Names are those of Nova: `servers`, `class:VCPU`, `server_key_pairs` ... A limit of -1 means none.
"""

from typing import Protocol

from whimbrel.domain.ids import ProjectId


class UnifiedLimits(Protocol):
    async def registered(self) -> dict[str, int]:
        """Return the limits of every project by resource. Raises: Unavailable."""

    async def of_project(self, project_id: ProjectId) -> dict[str, int]:
        """Return the limits that a project has instead, by resource. Raises: Unavailable."""
