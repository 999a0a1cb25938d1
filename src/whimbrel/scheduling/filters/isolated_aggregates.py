"""Isolated aggregates: aggregates for certain projects, and aggregates for servers with certain traits.

Source: Nova's `limit_tenants_to_placement_aggregate` and `enable_isolated_aggregate_filtering`.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.domain.host import Aggregate
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.placement.assignments import ResourceRequest

TENANT = "filter_tenant_id"
"""Prefix of the metadata keys with project ids as values."""
_TRAIT = "trait:"


def confined(
    resources: ResourceRequest, aggregates: Sequence[Aggregate], project: str, rules: SchedulerRules
) -> ResourceRequest:
    """Add the required and the forbidden aggregates of a project's server. Raises: Refused: none is left."""
    if rules.limit_tenants_to_placement_aggregate:
        resources = _to_its_own(resources, aggregates, project, must=rules.placement_aggregate_required_for_tenants)
    if rules.enable_isolated_aggregate_filtering:
        resources = _out_of_isolated(resources, aggregates)
    if resources.otherwise:
        return replace(resources, otherwise=confined(resources.otherwise, aggregates, project, rules))
    return resources


def _to_its_own(
    resources: ResourceRequest, aggregates: Sequence[Aggregate], project: str, *, must: bool
) -> ResourceRequest:
    own = frozenset(
        one.uuid
        for one in aggregates
        if any(key.startswith(TENANT) and value == project for key, value in one.metadata.items())
    )
    if own:
        return replace(resources, member_of=(*resources.member_of, own))
    if must:
        raise Refused("No valid host was found: no aggregate is for this project, and projects must have one.")
    return resources


def _out_of_isolated(resources: ResourceRequest, aggregates: Sequence[Aggregate]) -> ResourceRequest:
    asked = {*resources.required, *(trait for group in resources.groups for trait in group.required)}
    isolated = frozenset(
        one.uuid
        for one in aggregates
        if any(
            key.startswith(_TRAIT) and value == "required" and key.removeprefix(_TRAIT) not in asked
            for key, value in one.metadata.items()
        )
    )
    return replace(resources, not_member_of=resources.not_member_of | isolated)
