"""Filters, by their Nova names: each yields the constraints of a request, or none.

The rule enabled_filters selects them. Their order is the order in which reasons are reported.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.filters import (
    by_aggregate,
    by_capability,
    by_group,
    by_hint,
    by_host,
    by_image,
    by_query,
    host_metrics,
)
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.requirements import numa
from whimbrel.scheduling.snapshot import Snapshot

Filter = Callable[[Request, Snapshot], Iterator[Constraint]]

COMPUTE, METRICS = "ComputeFilter", "MetricsFilter"


def compute(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    fleet = snapshot.fleet

    def enable(host_index: int) -> str:
        return f"its service enabled (openstack compute service set --enable {fleet.names[host_index]} nova-compute)"

    yield Constraint(COMPUTE, fleet.enabled, "its service is disabled", suggestion=enable, overridable=True)
    yield Constraint(
        COMPUTE, fleet.up(snapshot.now), "its service is down", suggestion=lambda host_index: "its service up"
    )


def all_hosts(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    yield from ()


FILTERS: Mapping[str, Filter] = {
    COMPUTE: compute,
    "AllHostsFilter": all_hosts,
    "ComputeCapabilitiesFilter": by_capability.capabilities,
    "ImagePropertiesFilter": by_image.image_properties,
    "PciPassthroughFilter": by_host.pci,
    "IsolatedHostsFilter": by_host.isolated,
    "AggregateMultiTenancyIsolation": by_aggregate.tenancy,
    "AggregateInstanceExtraSpecsFilter": by_aggregate.extra_specs,
    "AggregateTypeAffinityFilter": by_aggregate.flavors,
    "AggregateImagePropertiesIsolation": by_aggregate.image_properties,
    "NUMATopologyFilter": numa.topology,
    METRICS: host_metrics.metrics,
    "ServerGroupAntiAffinityFilter": by_group.anti_affinity,
    "ServerGroupAffinityFilter": by_group.affinity,
    "DifferentHostFilter": by_hint.different_host,
    "SameHostFilter": by_hint.same_host,
    "SimpleCIDRAffinityFilter": by_hint.cidr_affinity,
    "JsonFilter": by_query.query,
    "IoOpsFilter": by_host.io_ops,
    "AggregateIoOpsFilter": by_aggregate.io_ops,
    "NumInstancesFilter": by_host.num_instances,
    "AggregateNumInstancesFilter": by_aggregate.num_instances,
}


OVERRIDABLE = frozenset(
    {
        "IsolatedHostsFilter",
        "AggregateMultiTenancyIsolation",
        "AggregateInstanceExtraSpecsFilter",
        "AggregateTypeAffinityFilter",
        "AggregateImagePropertiesIsolation",
        METRICS,
        "IoOpsFilter",
        "AggregateIoOpsFilter",
        "NumInstancesFilter",
        "AggregateNumInstancesFilter",
    }
)
"""Filters by which the operator reserves or spares hosts. Others say what a host has, or what the owner asks for."""


def evaluated(name: str, request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    """Yield the constraints of the filter of this name."""
    for constraint in FILTERS[name](request, snapshot):
        yield replace(constraint, overridable=True) if name in OVERRIDABLE else constraint


def enabled(rules: SchedulerRules) -> list[str]:
    """List the enabled filters, and MetricsFilter if metrics are required."""
    asks_metrics = rules.metrics_required and bool(rules.metrics_weight_setting)
    return [name for name in FILTERS if name in rules.enabled_filters or (name == METRICS and asks_metrics)]
