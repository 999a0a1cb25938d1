"""Each weigher alone: who is better, and that its multiplier counts, by rule and by aggregate."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.scheduling.capacity import aggregate, host, snapshot
from tests.unit.scheduling.passing import asking, rules
from whimbrel.domain.host import Aggregate
from whimbrel.domain.ids import CellName, ProviderId
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.stores.fleet import Load
from whimbrel.scheduling.pipeline import rank
from whimbrel.scheduling.request import GroupState, Request
from whimbrel.scheduling.snapshot import Snapshot
from whimbrel.scheduling.weighers.by_name import WEIGHERS

LESS, MORE = "less", "more"
FREE = {"VCPU": 4, "MEMORY_MB": 4, "DISK_GB": 4}
MEMBERS = {ProviderId(LESS): 1, ProviderId(MORE): 3}
SETTINGS: Mapping[str, Any] = {"num_instances_weight_multiplier": 1.0}  # off unless it is set


def only(name: str, sign: float = 1.0) -> SchedulerRules:
    """Make one weigher count as its rule says, or the other way round, and no other."""
    multiplier = WEIGHERS[name].multiplier
    its = SETTINGS.get(multiplier, getattr(SchedulerRules(), multiplier))
    others = {weigher.multiplier: 0.0 for weigher in WEIGHERS.values()}
    return rules(**{**others, multiplier: sign * its})


def two(more: dict[str, Any], **what: Any) -> Snapshot:
    return snapshot([host(LESS), host(MORE, **more)], **what)


def in_group(policy: Any) -> Request:
    return asking(group=GroupState(policy=policy, members=MEMBERS))


def roomier(name: str) -> dict[str, Any]:
    return {"free": {LESS: FREE, MORE: FREE | {name: 5}}}


def busier(**load: int) -> dict[str, Any]:
    return {"loads": {MORE: Load(**load)}}


CASES: list[tuple[str, Request, dict[str, Any], dict[str, Any], str]] = [
    ("CPUWeigher", asking(), {}, roomier("VCPU"), MORE),
    ("RAMWeigher", asking(), {}, roomier("MEMORY_MB"), MORE),
    ("DiskWeigher", asking(), {}, roomier("DISK_GB"), MORE),
    ("PCIWeigher", asking(), {}, busier(pci=5, free_pci=5), LESS),
    ("PCIWeigher", asking(wants_pci=True), {}, busier(pci=5, free_pci=5), LESS),
    ("IoOpsWeigher", asking(), {}, busier(io_ops=1), LESS),
    ("BuildFailureWeigher", asking(), {}, busier(failed_builds=1), LESS),
    ("NumInstancesWeigher", asking(), {}, busier(servers=1), MORE),
    ("HypervisorVersionWeigher", asking(), {"hypervisor_version": 2}, {}, MORE),
    ("ServerGroupSoftAffinityWeigher", in_group("soft-affinity"), {}, {}, MORE),
    ("ServerGroupSoftAntiAffinityWeigher", in_group("soft-anti-affinity"), {}, {}, LESS),
    ("CrossCellWeigher", asking(home_cell=CellName("c2")), {"cell": CellName("c2")}, {}, MORE),
    (
        "ZoneWeigher",
        asking(preferred_zone="z"),
        {},
        {"aggregates": [aggregate(9, [MORE], availability_zone="z")]},
        MORE,
    ),
]


def best(request: Request, now: Snapshot) -> str:
    ranking = rank(request, now)
    assert len(ranking.parts) == 1
    return now.fleet.names[int(ranking.order[0])]


@pytest.mark.parametrize(("name", "asked", "more", "what", "better"), CASES)
def test_a_weigher_prefers_and_its_multiplier_turns_it_round(
    name: str, asked: Request, more: dict[str, Any], what: dict[str, Any], better: str
) -> None:
    assert best(asked, two(more, **what, rules=only(name))) == better
    assert best(asked, two(more, **what, rules=only(name, -1.0))) == (MORE if better == LESS else LESS)
    assert rank(asked, two(more, **what, rules=only(name, 0.0))).parts == {}


@pytest.mark.parametrize(("name", "asked", "more", "what", "better"), CASES)
def test_an_aggregate_has_its_own_multiplier_for_its_hosts(
    name: str, asked: Request, more: dict[str, Any], what: dict[str, Any], better: str
) -> None:
    key, rule = WEIGHERS[name].multiplier, only(name)
    ours: float = getattr(rule, key)
    most, least = (LESS, MORE) if (better == LESS) == (ours > 0) else (MORE, LESS)

    def parts(*aggregates: Aggregate) -> dict[str, float]:
        now = two(more, **what | {"aggregates": [*what.get("aggregates", []), *aggregates]}, rules=rule)
        ranking = rank(asked, now)
        return dict(zip((now.fleet.names[place] for place in ranking.order), ranking.parts[name].tolist(), strict=True))

    assert parts() == {most: ours, least: 0}
    assert parts(aggregate(1, [least], **{key: "7"})) == {most: ours, least: 0}
    assert parts(aggregate(1, [most], **{key: "7"}), aggregate(2, [most, least], **{key: "9"})) == {most: 7, least: 0}
    assert parts(aggregate(1, [most], **{key: "nan"}), aggregate(2, [most], **{key: "x"})) == {most: ours, least: 0}


def test_soft_groups_of_the_other_kind_and_hard_ones_weigh_nothing() -> None:
    for policy in ("affinity", "anti-affinity", "soft-affinity"):
        assert rank(in_group(policy), two({}, rules=only("ServerGroupSoftAntiAffinityWeigher"))).parts == {}
    assert rank(in_group("soft-anti-affinity"), two({}, rules=only("ServerGroupSoftAffinityWeigher"))).parts == {}


def test_of_very_many_pci_devices_one_more_is_no_matter() -> None:
    loads = {LESS: Load(pci=99, free_pci=99), MORE: Load(pci=500, free_pci=500)}
    assert rank(asking(), two({}, loads=loads, rules=only("PCIWeigher"))).parts == {}


def test_weights_are_brought_to_one_and_counted_by_their_multipliers() -> None:
    hosts = [host(name) for name in ("a", "b", "c")]
    free = {"a": FREE | {"VCPU": 2}, "b": FREE | {"VCPU": 3, "MEMORY_MB": 6}, "c": FREE | {"VCPU": 6, "MEMORY_MB": 5}}
    now = snapshot(hosts, free, rules=rules(cpu_weight_multiplier=2.0, disk_weight_multiplier=0.0))
    ranking = rank(asking(), now)
    assert [now.fleet.names[place] for place in ranking.order] == ["c", "b", "a"]
    assert ranking.parts["CPUWeigher"].tolist() == [2.0, 0.5, 0.0]
    assert ranking.parts["RAMWeigher"].tolist() == [0.5, 1.0, 0.0]
    assert ranking.weights.tolist() == [2.5, 1.5, 0.0]


def test_who_stays_in_a_cell_or_comes_from_none_has_none_that_is_better() -> None:
    only_home = asking(home_cell=CellName("c1"), cells=frozenset({CellName("c1")}))
    for asked in (asking(), only_home):
        assert rank(asked, two({"cell": CellName("c2")}, rules=only("CrossCellWeigher"))).parts == {}
