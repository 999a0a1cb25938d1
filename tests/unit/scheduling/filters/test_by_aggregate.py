"""Filters by aggregates' metadata: what several aggregates of one host say is taken together."""

from typing import Any

import pytest

from tests.unit.scheduling.capacity import aggregate, host, snapshot
from tests.unit.scheduling.passing import asking, flavored, passing, rules
from whimbrel.ports.stores.fleet import Load
from whimbrel.scheduling.filters.by_name import FILTERS

HOSTS = [host("alone"), host("one"), host("both"), host("other")]
ALL = {"alone", "one", "both", "other"}


def now(one: dict[str, str], other: dict[str, str], **more: Any) -> Any:
    """Return hosts of which `one` is in the first aggregate, `other` in the second, `both` in both."""
    aggregates = [aggregate(1, ["one", "both"], **one), aggregate(2, ["other", "both"], **other)]
    return snapshot(HOSTS, aggregates=aggregates, **more)


@pytest.mark.parametrize(
    ("one", "other", "properties", "who"),
    [
        ({}, {}, {"os": "linux"}, ALL),
        ({"os": "windows"}, {}, {}, ALL),
        ({"os": "windows"}, {}, {"os": "linux"}, {"alone", "other"}),
        ({"os": "windows"}, {"os": "linux"}, {"os": "linux"}, {"alone", "both", "other"}),
        ({"os": "windows, linux"}, {"os": "bsd"}, {"os": "linux"}, {"alone", "one", "both"}),
        ({"os": "windows"}, {"disk": "ssd"}, {"os": "windows", "disk": "hdd"}, {"alone", "one"}),
    ],
)
def test_images_are_isolated(
    one: dict[str, str], other: dict[str, str], properties: dict[str, str], who: set[str]
) -> None:
    name = "AggregateImagePropertiesIsolation"
    assert passing(name, asking(image_properties=properties), now(one, other)) == who


@pytest.mark.parametrize(("separator", "who"), [(".", ALL), ("_", {"alone", "other"})])
def test_images_are_isolated_by_keys_of_a_namespace_only(separator: str, who: set[str]) -> None:
    only = rules(
        aggregate_image_properties_isolation_namespace="hw", aggregate_image_properties_isolation_separator=separator
    )
    properties = {"hw_os": "linux", "os": "linux"}
    hosts = now({"hw_os": "windows"}, {"os": "windows"}, rules=only)
    assert passing("AggregateImagePropertiesIsolation", asking(image_properties=properties), hosts) == who


@pytest.mark.parametrize(
    ("one", "other", "specs", "who"),
    [
        ({}, {}, {"aggregate_instance_extra_specs__disk": "ssd"}, set()),
        ({"disk": "ssd"}, {}, {"aggregate_instance_extra_specs__disk": "ssd"}, {"one", "both"}),
        ({"disk": "ssd"}, {}, {"disk": "ssd"}, {"one", "both"}),
        ({"disk": "ssd"}, {}, {"hw__disk": "hdd"}, ALL),
        ({"disk": "hdd, ssd"}, {"disk": "ssd"}, {"disk": "<or> ssd <or> nvme"}, {"one", "both", "other"}),
        ({"disk": "ssd"}, {"gpu": "2"}, {"disk": "ssd", "gpu": ">= 2"}, {"both"}),
        ({"gpu": "1"}, {"gpu": "2"}, {"gpu": ">= 2"}, {"both", "other"}),
    ],
)
def test_flavors_ask_for_metadata(
    one: dict[str, str], other: dict[str, str], specs: dict[str, str], who: set[str]
) -> None:
    request = asking(flavor=flavored(**specs))
    assert passing("AggregateInstanceExtraSpecsFilter", request, now(one, other)) == who


@pytest.mark.parametrize(
    ("one", "other", "who"),
    [
        ({}, {}, ALL),
        ({"filter_tenant_id": "theirs"}, {}, {"alone", "other"}),
        ({"filter_tenant_id": "theirs,mine"}, {}, ALL),
        ({"filter_tenant_id": "theirs", "filter_tenant_id2": "mine"}, {}, ALL),
        ({"filter_tenant_id": "theirs"}, {"filter_tenant_idA": "mine"}, {"alone", "both", "other"}),
        ({"filter_tenant_id": "minerva"}, {"filter_tenant_id": ""}, {"alone"}),
    ],
)
def test_aggregates_are_for_projects(one: dict[str, str], other: dict[str, str], who: set[str]) -> None:
    assert passing("AggregateMultiTenancyIsolation", asking(project="mine"), now(one, other)) == who


@pytest.mark.parametrize(
    ("one", "other", "who"),
    [
        ({}, {}, ALL),
        ({"instance_type": "large"}, {}, {"alone", "other"}),
        ({"instance_type": "large, small"}, {"instance_type": "large"}, {"alone", "one", "both"}),
    ],
)
def test_aggregates_are_for_flavors(one: dict[str, str], other: dict[str, str], who: set[str]) -> None:
    assert passing("AggregateTypeAffinityFilter", asking(flavor=flavored("small")), now(one, other)) == who


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("AggregateIoOpsFilter", "max_io_ops_per_host"),
        ("AggregateNumInstancesFilter", "max_instances_per_host"),
    ],
)
@pytest.mark.parametrize(
    ("one", "other", "who"),
    [
        (None, None, set()),
        ("5", None, {"one", "both"}),
        ("5", "3", {"one"}),  # of several the least
        ("five", "5", {"both", "other"}),
        ("5.5", "inf", set()),
    ],
)
def test_aggregates_set_limits(name: str, key: str, one: str | None, other: str | None, who: set[str]) -> None:
    metadata = [{key: limit} if limit else {} for limit in (one, other)]
    loads = {each: Load(servers=4, io_ops=4) for each in ALL}
    hosts = now(*metadata, loads=loads, rules=rules(**{key: 4}))
    assert passing(name, asking(), hosts) == who


def test_what_would_help_is_said_to_those_who_could_do_it() -> None:
    hosts = now({"filter_tenant_id": "theirs"}, {})
    [constraint] = FILTERS["AggregateMultiTenancyIsolation"](asking(project="mine"), hosts)
    assert constraint.suggestion(1) == "its project under filter_tenant_id of aggregate a1"
