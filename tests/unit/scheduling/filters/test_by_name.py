"""All filters together: asked by columns they say what one says who reads the same rules host by host."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tests.unit.scheduling.capacity import aggregate, host, snapshot
from tests.unit.scheduling.passing import asking, flavored, passing, rules
from whimbrel.domain.host import Aggregate, Host
from whimbrel.domain.ids import HostName
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.stores.fleet import Load
from whimbrel.scheduling.filters.by_name import FILTERS
from whimbrel.scheduling.request import GroupState, Request
from whimbrel.scheduling.requirements.extra_specs import fulfils

Metadata = Mapping[str, set[str]]
"""What all aggregates of a host say together, by key."""


def metadata_of(one: Host, aggregates: list[Aggregate]) -> Metadata:
    found: dict[str, set[str]] = {}
    for each in aggregates:
        if one.name in each.hosts:
            for key, text in each.metadata.items():
                found.setdefault(key, set()).update(value.strip() for value in text.split(","))
                found.setdefault(f"number {key}", set()).add(text)  # numbers are no lists: this is none then
    return found


# The same rules again, read for one host as a person would


def is_isolated(asked: Request, says: Metadata, one: Host, load: Load, rules: SchedulerRules) -> bool:
    return all(key not in says or value in says[key] for key, value in asked.image_properties.items())


def has_specs(asked: Request, says: Metadata, one: Host, load: Load, rules: SchedulerRules) -> bool:
    assert asked.flavor
    all_wanted = {
        key.removeprefix("aggregate_instance_extra_specs:"): wanted for key, wanted in asked.flavor.extra_specs.items()
    }
    all_wanted = {key: wanted for key, wanted in all_wanted.items() if ":" not in key}
    return all(any(fulfils(value, wanted) for value in says.get(key, ())) for key, wanted in all_wanted.items())


def is_for_project(asked: Request, says: Metadata, one: Host, load: Load, rules: SchedulerRules) -> bool:
    projects = set[str]().union(*(values for key, values in says.items() if key.startswith("filter_tenant_id")))
    return not projects or asked.project in projects


def is_for_flavor(asked: Request, says: Metadata, one: Host, load: Load, rules: SchedulerRules) -> bool:
    assert asked.flavor
    return "instance_type" not in says or asked.flavor.name in says["instance_type"]


def may_be_busier(asked: Request, says: Metadata, one: Host, load: Load, rules: SchedulerRules) -> bool:
    return load.io_ops < _least(says.get("number max_io_ops_per_host", ()), rules.max_io_ops_per_host)


def may_be_fuller(asked: Request, says: Metadata, one: Host, load: Load, rules: SchedulerRules) -> bool:
    return load.servers < _least(says.get("number max_instances_per_host", ()), rules.max_instances_per_host)


def _least(texts: Any, rule: int) -> int:
    return min((int(text) for text in texts if text.isdecimal()), default=rule)


def is_capable(asked: Request, says: Metadata, one: Host, load: Load, rules: SchedulerRules) -> bool:
    assert asked.flavor
    wanted = asked.flavor.extra_specs.get("capabilities:cpu_info:model")
    model = json.loads(one.cpu_info).get("model")
    return wanted is None or (model is not None and fulfils(model, wanted))


READERS: Mapping[str, Callable[[Request, Metadata, Host, Load, SchedulerRules], bool]] = {
    "AggregateImagePropertiesIsolation": is_isolated,
    "AggregateInstanceExtraSpecsFilter": has_specs,
    "AggregateMultiTenancyIsolation": is_for_project,
    "AggregateTypeAffinityFilter": is_for_flavor,
    "AggregateIoOpsFilter": may_be_busier,
    "AggregateNumInstancesFilter": may_be_fuller,
    "ComputeCapabilitiesFilter": is_capable,
}

NAMES = [f"h{number}" for number in range(5)]
VALUES = st.lists(st.sampled_from(["a", "b", "1", "2", ""]), min_size=1, max_size=2).map(", ".join)
KEYS = st.sampled_from(
    ["k", "filter_tenant_id", "filter_tenant_id_2", "instance_type", "max_io_ops_per_host", "max_instances_per_host"]
)
WANTED = st.sampled_from(["a", ">= 2", "<in> a", "<or> a <or> 1", "s!= a"])
SPEC_KEYS = st.sampled_from(["aggregate_instance_extra_specs__k", "capabilities__cpu_info__model", "hw__k"])


@st.composite
def many_aggregates(draw: st.DrawFn) -> list[Aggregate]:
    made = draw(st.lists(st.tuples(st.sets(st.sampled_from(NAMES)), st.dictionaries(KEYS, VALUES)), max_size=5))
    return [aggregate(number, sorted(hosts), **said) for number, (hosts, said) in enumerate(made)]


@given(
    aggregates=many_aggregates(),
    busy=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    models=st.lists(st.sampled_from(["{}", '{"model": "a"}', '{"model": "2"}']), min_size=5, max_size=5),
    specs=st.dictionaries(SPEC_KEYS, WANTED),
    asked=st.sampled_from(["a", "b", "1", ""]),
)
@settings(max_examples=examples(60))
def test_by_columns_and_by_hosts_it_is_the_same(
    aggregates: list[Aggregate], busy: list[int], models: list[str], specs: dict[str, str], asked: str
) -> None:
    hosts = [host(name, cpu_info=model) for name, model in zip(NAMES, models, strict=True)]
    loads = {name: Load(servers=number, io_ops=number) for name, number in zip(NAMES, busy, strict=True)}
    limits = rules(max_io_ops_per_host=2, max_instances_per_host=2)
    now = snapshot(hosts, aggregates=aggregates, loads=loads, rules=limits)
    request = asking(flavor=flavored(asked, **specs), image_properties={"k": asked}, project=asked)
    for name, reader in READERS.items():
        by_hosts = {
            one.name for one in hosts if reader(request, metadata_of(one, aggregates), one, loads[one.name], limits)
        }
        assert passing(name, request, now) == by_hosts, name


def test_reasons_name_no_host_project_or_aggregate() -> None:
    """Owners read them."""
    said = {
        "filter_tenant_id": "SECRET", "instance_type": "SECRET", "k": "SECRET", "max_io_ops_per_host": "0",
        "max_instances_per_host": "0",
    }  # fmt: skip
    pen = aggregate(1, ["SECRET-1"], **said)
    pen.name = "SECRET"
    now = snapshot(
        [host("SECRET-1", seen_at=0.0, enabled=False, hypervisor_type="SECRET", host_ip="SECRET")],
        aggregates=[pen],
        loads={"SECRET-1": Load(servers=99, io_ops=99)},
        rules=rules(isolated_images=("image",), metrics_weight_setting=("cpu.percent=1",)),
    )
    hints = {"same_host": "a", "different_host": "b", "build_near_host_ip": "10.0.0.1", "query": ["or"]}
    request = asking(
        flavor=flavored(k="x", capabilities__hypervisor_type="QEMU", hw__numa_nodes="1"),
        image_id="image",
        image_properties={"k": "x", "img_hv_type": "kvm", "hw_vm_mode": "xen", "img_hv_requested_version": ">9"},
        hints=hints,
        hinted={"a": HostName("SECRET-2"), "b": HostName("SECRET-1")},
        wants_pci=True,
        group=GroupState(policy="affinity", members={now.fleet.providers[0]: 0}),
    )
    told = {name: [one for one in FILTERS[name](request, now) if not one.passes.all()] for name in FILTERS}
    unreachable = {name for name, constraints in told.items() if not constraints}
    assert unreachable == {"AllHostsFilter", "ServerGroupAntiAffinityFilter"}
    assert not [one.words for constraints in told.values() for one in constraints if "SECRET" in one.words]
