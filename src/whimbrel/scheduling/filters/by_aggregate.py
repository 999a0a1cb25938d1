"""Filters by the metadata of a host's aggregates, evaluated for each aggregate, not for each host.

If several aggregates of a host have values under one key, their union counts.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import eq

import numpy as np

from whimbrel.domain.host import Aggregate
from whimbrel.ports.arrays import Mask, Numbers
from whimbrel.ports.stores.fleet import Fleet
from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.filters.aggregate_overrides import overridden
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.requirements.extra_specs import fulfils, specs_in, without
from whimbrel.scheduling.snapshot import Snapshot

MetadataValues = Iterable[tuple[str, Mask]]
"""Comma-separated metadata values with the members of their aggregates."""

PROJECTS = "filter_tenant_id"
FLAVORS = "instance_type"


def image_properties(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    """AggregateImagePropertiesIsolation: if aggregates list values of a property, the image must have one."""
    rules, fleet = snapshot.rules, snapshot.fleet
    namespace = rules.aggregate_image_properties_isolation_namespace
    start = namespace + rules.aggregate_image_properties_isolation_separator if namespace else ""
    for key, value in request.image_properties.items():
        if not key.startswith(start) or not fleet.marked(key):
            continue
        has_value, matches = hosts_with(fleet, values_under(fleet, key), partial(eq, value))
        words = f"it is not for images with {key}={value}"
        yield Constraint("AggregateImagePropertiesIsolation", ~has_value | matches, words)


def extra_specs(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    """AggregateInstanceExtraSpecsFilter: the metadata of an aggregate fulfil the flavor's extra specs."""
    for spec in specs_in("aggregate_instance_extra_specs", request.flavor):
        values = values_under(snapshot.fleet, spec.name)
        _, matches = hosts_with(snapshot.fleet, values, partial(fulfils, wanted=spec.wanted))
        words = f"no aggregate of it has what the flavor asks for: {spec.name} {spec.wanted}"
        yield Constraint("AggregateInstanceExtraSpecsFilter", matches, words, suggestion=without(spec))


def tenancy(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    """AggregateMultiTenancyIsolation: if aggregates list projects, the project must be one of them."""
    fleet = snapshot.fleet
    values = fleet.once(_projects)
    if values:
        has_value, matches = hosts_with(fleet, values, partial(eq, request.project))
        words = "it is for other projects"
        yield Constraint("AggregateMultiTenancyIsolation", ~has_value | matches, words, suggestion=_let_in(fleet))


def flavors(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    """AggregateTypeAffinityFilter: if aggregates list flavors, the flavor must be one of them."""
    fleet, flavor = snapshot.fleet, request.flavor
    if flavor is not None and fleet.marked(FLAVORS):
        has_value, matches = hosts_with(fleet, values_under(fleet, FLAVORS), partial(eq, flavor.name))
        yield Constraint("AggregateTypeAffinityFilter", ~has_value | matches, "it is for other flavors")


def io_ops(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    key = "max_io_ops_per_host"
    words = "it has the maximum number of tasks that load its disks"
    yield _most("AggregateIoOpsFilter", key, snapshot.rules.max_io_ops_per_host, snapshot.fleet.io_ops, words, snapshot)


def num_instances(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    key, rule = "max_instances_per_host", snapshot.rules.max_instances_per_host
    words = "it has the maximum number of servers"
    yield _most("AggregateNumInstancesFilter", key, rule, snapshot.fleet.servers, words, snapshot)


# Aggregate metadata


def values_under(fleet: Fleet, key: str) -> MetadataValues:
    return [(aggregate.metadata[key], members) for aggregate, members in fleet.marked(key)]


def hosts_with(fleet: Fleet, values: MetadataValues, test: Callable[[str], bool]) -> tuple[Mask, Mask]:
    """Return which hosts have any value, and which have a value that passes."""
    has_value, matches = np.zeros(len(fleet), np.bool_), np.zeros(len(fleet), np.bool_)
    for text, members in values:
        has_value |= members
        if any(test(value.strip()) for value in text.split(",")):
            matches |= members
    return has_value, matches


def _projects(fleet: Fleet) -> list[tuple[str, Mask]]:
    return [(",".join(names), fleet.members(each)) for each in fleet.aggregates if (names := _names(each))]


def _names(aggregate: Aggregate) -> list[str]:
    """List the values of all keys with the prefix filter_tenant_id: one value is too short for many projects."""
    return [value for key, value in aggregate.metadata.items() if key.startswith(PROJECTS)]


def _most(name: str, key: str, rule: int, there: Numbers, words: str, snapshot: Snapshot) -> Constraint:
    most = overridden(snapshot.fleet, key, rule, int)
    return Constraint(name, there < most, words, suggestion=lambda host_index: f"{key} above {int(there[host_index])}")


def _let_in(fleet: Fleet) -> Callable[[int], str]:
    def suggestion(host_index: int) -> str:
        name = fleet.names[host_index]
        of_it = [each.name for each in fleet.aggregates if name in each.hosts and _names(each)]
        return f"its project under {PROJECTS} of aggregate {' or '.join(of_it)}"

    return suggestion
