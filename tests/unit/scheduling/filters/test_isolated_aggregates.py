"""Aggregates that are for some projects, or for servers of some traits."""

import pytest

from whimbrel.domain.errors import Refused
from whimbrel.domain.host import Aggregate
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.placement.assignments import Group, ResourceRequest
from whimbrel.scheduling.filters.isolated_aggregates import confined

AGGREGATES = [
    Aggregate(id=1, uuid="ours", name="ours", metadata={"filter_tenant_id": "us"}),
    Aggregate(id=2, uuid="both's", name="both's", metadata={"filter_tenant_id1": "them", "filter_tenant_id2": "us"}),
    Aggregate(id=3, uuid="theirs", name="theirs", metadata={"filter_tenant_id": "them", "owner": "us"}),
    Aggregate(id=4, uuid="windows", name="windows", metadata={"trait:CUSTOM_WINDOWS": "required"}),
    Aggregate(id=5, uuid="fast", name="fast", metadata={"trait:CUSTOM_SSD": "required", "trait:CUSTOM_NIC": "no"}),
]
PLAIN = ResourceRequest(own={"VCPU": 1})


def test_nothing_is_added_unless_the_operator_wants_it() -> None:
    assert confined(PLAIN, AGGREGATES, "us", SchedulerRules()) == PLAIN


def test_a_project_with_aggregates_keeps_to_them() -> None:
    rules = SchedulerRules(limit_tenants_to_placement_aggregate=True)
    assert confined(PLAIN, AGGREGATES, "us", rules).member_of == (frozenset({"ours", "both's"}),)
    assert confined(PLAIN, AGGREGATES, "somebody", rules) == PLAIN


def test_a_project_without_any_may_be_refused() -> None:
    rules = SchedulerRules(limit_tenants_to_placement_aggregate=True, placement_aggregate_required_for_tenants=True)
    with pytest.raises(Refused, match="no aggregate is for this project"):
        confined(PLAIN, AGGREGATES, "somebody", rules)


@pytest.mark.parametrize(
    ("resources", "closed"),
    [
        (PLAIN, {"windows", "fast"}),
        (ResourceRequest(own={"VCPU": 1}, required=("CUSTOM_WINDOWS",)), {"fast"}),
        (
            ResourceRequest(
                own={}, required=("CUSTOM_WINDOWS",), groups=(Group(id="1", resources={}, required=("CUSTOM_SSD",)),)
            ),
            set(),
        ),
    ],
    ids=["nothing", "one trait", "one by a group"],
)
def test_aggregates_for_traits_are_closed_to_others(resources: ResourceRequest, closed: set[str]) -> None:
    rules = SchedulerRules(enable_isolated_aggregate_filtering=True)
    one = confined(ResourceRequest(own=resources.own, otherwise=resources), AGGREGATES, "us", rules)
    assert confined(resources, AGGREGATES, "us", rules).not_member_of == closed
    assert one.not_member_of == {"windows", "fast"}
    assert one.otherwise is not None
    assert one.otherwise.not_member_of == closed
