"""The ranking is a pure function: who is out and why, and the order of those who are in."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.scheduling.capacity import FREE, aggregate, host, snapshot
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.ports.stores.fleet import Load
from whimbrel.scheduling.constraint import NearMiss, Reason
from whimbrel.scheduling.decision import DecisionTrace, from_bytes, make_trace, to_bytes
from whimbrel.scheduling.pipeline import Ranking, rank
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot

RESOURCES = ResourceRequest(own={"VCPU": 2, "MEMORY_MB": 1})


def asking(**asked: Any) -> Request:
    return Request(resources=RESOURCES, **asked)


def told(hosts: Snapshot, request: Request) -> DecisionTrace:
    ranking = rank(request, hosts)
    return make_trace(ranking, {}, ordered(ranking)[:3])


def ordered(ranking: Ranking) -> list[HostName]:
    return [ranking.snapshot.fleet.names[place] for place in ranking.order.tolist()]


def reasons(record: DecisionTrace) -> dict[str, str | None]:
    return {one.host: one.reason.words if one.reason else None for one in record.considered}


def test_every_reason() -> None:
    hosts = [
        host("elsewhere", cell=CellName("c2")),
        host("source"),
        host("zone"),
        host("disabled", enabled=False),
        host("down", seen_at=0.0),
        host("small"),
        host("full"),
        host("good"),
    ]
    now = snapshot(
        hosts,
        {"full": FREE | {"VCPU": 1}},
        largest={"small": 1},
        aggregates=[aggregate(1, ["zone"], availability_zone="z2")],
    )
    asked = asking(
        cells=frozenset({CellName("c1")}),
        zone="nova",
        zone_because="it says so",
        excluded=frozenset({HostName("source")}),
    )
    assert reasons(told(now, asked)) == {
        "elsewhere": "in another cell",
        "source": "it is the host that the server is on",
        "zone": "in another availability zone (it says so)",
        "disabled": "its service is disabled",
        "down": "its service is down",
        "small": "2 VCPU is more than the maximum for one server there",
        "full": "no room for 2 VCPU",
        "good": None,
    }


def test_a_forced_request_overrides_what_the_operator_wishes() -> None:
    rules = SchedulerRules(enabled_filters=("ComputeFilter", "NumInstancesFilter"), max_instances_per_host=1)
    hosts = [host("spared", enabled=False), host("free"), host("down", enabled=False, seen_at=0.0)]
    now = snapshot(hosts, loads={"spared": Load(servers=1), "free": Load(servers=0)}, rules=rules)
    record = told(now, asking(host=HostName("spared"), forced=True))
    assert record.chosen == ("spared",)
    assert [one.words for one in record.overridden] == [
        *("its service is disabled", "it has the maximum number of servers"),
    ]
    assert from_bytes(to_bytes(record)) == record
    assert told(now, asking(host=HostName("free"), forced=True)).overridden == ()
    assert reasons(told(now, asking(host=HostName("down"), forced=True)))["down"] == "its service is down"
    assert told(now, asking(host=HostName("spared"))).chosen == ()


def test_a_reason_has_the_numbers_asked_and_free() -> None:
    record = told(snapshot([host("full")], {"full": FREE | {"VCPU": 1}}), asking())
    [one] = record.considered
    assert one.reason is not None
    assert (one.reason.resource, one.reason.asked, one.reason.free) == ("VCPU", 2, 1)


def test_the_emptiest_comes_first() -> None:
    hosts = snapshot([host(f"h{n}") for n in range(5)], {f"h{n}": FREE | {"VCPU": n} for n in range(5)})
    ranking = rank(asking(), hosts)
    assert ordered(ranking) == ["h4", "h3", "h2"]
    assert ranking.parts["CPUWeigher"].tolist() == [1.0, 0.5, 0.0]


def test_what_an_aggregate_says_of_a_multiplier_counts_for_its_hosts_the_least_of_several() -> None:
    hosts = [host(f"h{n}") for n in range(3)]
    free = {f"h{n}": FREE | {"VCPU": n + 2} for n in range(3)}
    key = "cpu_weight_multiplier"
    aggregates = [
        aggregate(1, ["h2"], **{key: "-1.5"}),
        aggregate(2, ["h2", "h1"], **{key: "3"}),
        aggregate(3, ["h1"], **{key: "no number"}),
    ]
    ranking = rank(asking(), snapshot(hosts, free, aggregates=aggregates))
    assert dict(zip(ordered(ranking), ranking.parts["CPUWeigher"].tolist(), strict=True)) == {
        "h0": 0,
        "h1": 1.5,
        "h2": -1.5,
    }


def test_busy_hosts_come_later() -> None:
    ranking = rank(asking(), snapshot([host("a"), host("b")], loads={"a": Load(servers=2, io_ops=2)}))
    assert ordered(ranking) == ["b", "a"]


def test_a_zone_that_is_preferred_wins_over_all_room() -> None:
    hosts = snapshot(
        [host("empty"), host("there")],
        {"there": FREE | {"VCPU": 2}},
        aggregates=[aggregate(1, ["there"], availability_zone="z")],
    )
    assert ordered(rank(asking(preferred_zone="z"), hosts)) == ["there", "empty"]


def test_a_filter_that_is_not_enabled_leaves_nobody_out() -> None:
    hosts = snapshot([host("down", seen_at=0.0)], rules=SchedulerRules(enabled_filters=()))
    assert ordered(rank(asking(), hosts)) == ["down"]


def test_no_host_says_why_and_what_would_help() -> None:
    hosts = [host("a", seen_at=0.0), host("b", seen_at=0.0), host("c"), host("d", enabled=False, seen_at=0.0)]
    record = told(snapshot(hosts, {"c": FREE | {"VCPU": 1}}), asking())
    assert record.summary() == (
        "No valid host was found. Of 4 hosts considered, 2: its service is down; 1: its service is disabled; 1: no room"
        " for 2 VCPU."
    )
    assert [miss.host for miss in record.misses] == ["c", "a", "b"]  # the one that lacks half of something first
    assert record.misses[0].remedies == ("1 VCPU more free there, or a flavor with at most 1 VCPU",)


def test_a_cloud_without_hosts_says_so() -> None:
    assert told(snapshot([]), asking()).summary() == "No valid host was found: the cloud has no hosts."


def test_where_no_host_has_a_class_at_all_something_else_is_asked() -> None:
    resources = ResourceRequest(own={"PCPU": 2}, otherwise=RESOURCES)
    assert ordered(rank(Request(resources=resources), snapshot([host("a")]))) == ["a"]
    mixed = snapshot([host("a"), host("b")], {"b": {"PCPU": 1}})
    assert ordered(rank(Request(resources=resources), mixed)) == []


@given(st.lists(st.integers(0, 8), max_size=8), st.text(max_size=3))
def test_what_is_chosen_has_room_and_all_are_reported(free: list[int], spread: str) -> None:
    names = [f"h{n}" for n in range(len(free))]
    room = {name: FREE | {"VCPU": amount} for name, amount in zip(names, free, strict=True)}
    request = asking(spread=spread)
    now = snapshot([host(name) for name in names], room)
    record = told(now, request)
    assert all(room[name]["VCPU"] >= 2 for name in record.chosen)
    assert sorted(one.host for one in record.considered) == names
    assert sum(count.hosts for count in record.counts) == sum(amount < 2 for amount in free)
    assert from_bytes(to_bytes(record)) == record == told(now, request)


@given(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=2), st.integers(1, 3))
def test_the_order_of_the_hosts_does_not_matter(names: list[str], subset: int) -> None:
    rules = SchedulerRules(host_subset_size=subset)
    orders = [
        ordered(rank(asking(spread="x"), snapshot([host(name) for name in some], rules=rules)))
        for some in (names, sorted(names))
    ]
    assert orders[0] == orders[1]


def test_equals_come_in_another_order_for_another_request() -> None:
    hosts = snapshot([host(f"h{n}") for n in range(6)])
    assert len({ordered(rank(asking(spread=str(number)), hosts))[0] for number in range(60)}) > 3


@given(st.integers(0, 30), st.integers(0, 12), st.integers(1, 12))
def test_a_record_tells_of_so_many_hosts_and_counts_all(full: int, looked: int, most: int) -> None:
    names = [f"h{n}" for n in range(30)]
    now = snapshot([host(name) for name in names], {name: FREE | {"VCPU": 0} for name in names[:full]})
    ranking = rank(asking(), now)
    closer = {
        place: NearMiss(Reason(constraint="PCI", words=f"no device {place}"))
        for place in ranking.order[:looked].tolist()
    }
    record = make_trace(ranking, closer, (), most)
    told_of = [(one.host, one.reason.words if one.reason else None) for one in record.considered]
    expected = [(name, None) for name in ordered(ranking)[looked:]]
    expected += [(names[place], each.reason.words) for place, each in closer.items()]
    assert told_of[: min(most, len(expected))] == expected[:most]
    assert len(told_of) == min(most, 30)
    assert sum(count.hosts for count in record.counts) == full + len(closer)
