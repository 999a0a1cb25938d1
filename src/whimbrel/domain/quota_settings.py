"""The operator's settings for quotas of servers."""

from typing import Literal

import msgspec


class QuotaRules(msgspec.Struct, frozen=True, kw_only=True):
    """From the table [quota]; Nova's names and defaults, save those of the drivers."""

    driver: Literal["projects", "unified"] = "projects"  # limits in the cloud's own database, or in Keystone
    unified_limits_resource_strategy: Literal["require", "ignore"] = "require"  # what the list names
    unified_limits_resource_list: tuple[str, ...] = ("servers",)
    count_usage_from_placement: bool = False  # cores and ram

    def is_required(self, resource: str) -> bool:
        """Check whether nothing of a resource may be used until it has a registered limit."""
        return (resource in self.unified_limits_resource_list) == (self.unified_limits_resource_strategy == "require")
