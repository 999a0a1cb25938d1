"""Aggregates that are kept for some: projects that have their own, and aggregates for servers of certain traits.

Source: Nova's `limit_tenants_to_placement_aggregate` and `enable_isolated_aggregate_filtering`.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.domain.host import Aggregate
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.placement.assignments import Wish

TENANT = "filter_tenant_id"
"""How metadata keys begin whose values are projects."""
_TRAIT = "trait:"


def confined(wish: Wish, aggregates: Sequence[Aggregate], project: str, rules: SchedulerRules) -> Wish:
    """Add in which aggregates a project's server must be, and must not be. Raises: Refused: nowhere."""
    if rules.limit_tenants_to_placement_aggregate:
        wish = _to_its_own(wish, aggregates, project, must=rules.placement_aggregate_required_for_tenants)
    if rules.enable_isolated_aggregate_filtering:
        wish = _out_of_isolated(wish, aggregates)
    if wish.otherwise:
        return replace(wish, otherwise=confined(wish.otherwise, aggregates, project, rules))
    return wish


def _to_its_own(wish: Wish, aggregates: Sequence[Aggregate], project: str, *, must: bool) -> Wish:
    own = frozenset(
        one.uuid
        for one in aggregates
        if any(key.startswith(TENANT) and value == project for key, value in one.metadata.items())
    )
    if own:
        return replace(wish, member_of=(*wish.member_of, own))
    if must:
        raise Refused("No valid host was found: no aggregate is for this project, and projects must have one.")
    return wish


def _out_of_isolated(wish: Wish, aggregates: Sequence[Aggregate]) -> Wish:
    asked = {*wish.required, *(trait for group in wish.groups for trait in group.required)}
    isolated = frozenset(
        one.uuid
        for one in aggregates
        if any(
            key.startswith(_TRAIT) and value == "required" and key.removeprefix(_TRAIT) not in asked
            for key, value in one.metadata.items()
        )
    )
    return replace(wish, not_member_of=wish.not_member_of | isolated)
