"""What is told of a decision: the smallest change that would help, and the part that is an owner's."""

from typing import Any

import msgspec
import pytest

from tests.unit.scheduling.capacity import FREE, aggregate, host, snapshot
from whimbrel.api.operator.decisions import owners_part
from whimbrel.domain.ids import HostName, ProviderId
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.scheduling.advice import change_for_owner, smallest_change
from whimbrel.scheduling.constraint import NearMiss, Reason
from whimbrel.scheduling.decision import DecisionTrace, make_trace
from whimbrel.scheduling.pipeline import rank
from whimbrel.scheduling.request import GroupState, Request
from whimbrel.scheduling.snapshot import Snapshot

RESOURCES = ResourceRequest(own={"VCPU": 4, "MEMORY_MB": 2})


def told(hosts: Snapshot, **asked: Any) -> DecisionTrace:
    ranking = rank(Request(resources=RESOURCES, **asked), hosts)
    return make_trace(ranking, {}, [hosts.fleet.names[place] for place in ranking.order.tolist()])


def full(**vcpus: int) -> Snapshot:
    """Hosts with so many VCPU free."""
    return snapshot([host(name) for name in vcpus], {name: FREE | {"VCPU": free} for name, free in vcpus.items()})


def test_the_host_that_lacks_least_is_named_with_what_it_lacks() -> None:
    record = told(full(h1=1, h2=0, h3=2))
    assert smallest_change(record) == "h3 would fit with 2 VCPU more free there, or a flavor with at most 2 VCPU."
    assert change_for_owner(record) == "A flavor with at most 2 VCPU would fit."


def test_several_things_are_said_together_where_no_host_lacks_only_one() -> None:
    record = told(snapshot([host("h1")], {"h1": {"VCPU": 3, "MEMORY_MB": 0}}))
    assert smallest_change(record) == (
        "h1 would fit with 1 VCPU more free there, or a flavor with at most 3 VCPU; and with 2 MEMORY_MB more free"
        " there."
    )
    assert change_for_owner(record) == "It would fit with 1 VCPU and 2 MEMORY_MB more free on a host."


def test_one_thing_that_cannot_be_changed_comes_after_two_that_can() -> None:
    hosts = snapshot([host("source"), host("h2")], {"h2": {"VCPU": 3, "MEMORY_MB": 1}})
    record = told(hosts, excluded=frozenset({HostName("source")}))
    assert [miss.host for miss in record.misses] == ["h2"]
    assert change_for_owner(record) == "A flavor with at most 3 VCPU and 1 MEMORY_MB would fit."


def test_where_nothing_would_help_the_nearest_is_named() -> None:
    record = told(snapshot([host("source")]), excluded=frozenset({HostName("source")}))
    assert smallest_change(record) == "source comes nearest, but it is the host that the server is on."
    assert change_for_owner(record) is None


def test_what_a_closer_look_shows_counts_as_nearest() -> None:
    ranking = rank(Request(resources=RESOURCES), full(h1=4, h2=4))
    no_devices = Reason(constraint="PciPassthroughFilter", words="no devices")
    record = make_trace(ranking, {0: NearMiss(no_devices)}, ())
    assert [miss.host for miss in record.misses] == ["h1"]
    assert smallest_change(record) == "h1 comes nearest, but no devices."
    record = make_trace(ranking, {0: NearMiss(no_devices, "a device")}, ())
    assert smallest_change(record) == "h1 would fit with a device."
    assert change_for_owner(record) is None


def test_who_lacks_some_of_a_device_is_not_told_to_take_a_flavor_with_less_of_it() -> None:
    few = Reason(constraint="placement", words="no room for 2 VGPU", resource="VGPU", asked=2, free=1)
    record = make_trace(
        rank(Request(resources=RESOURCES), full(h1=4)), {0: NearMiss(few, "1 VGPU more free there")}, ()
    )
    assert change_for_owner(record) == "It would fit with 1 VGPU more free on a host."


def test_another_zone_is_something_to_ask_for() -> None:
    hosts = snapshot([host("h1")], aggregates=[aggregate(1, ["h1"], availability_zone="west")])
    assert change_for_owner(told(hosts, zone="east")) == "It would fit in another availability zone."
    small = snapshot([host("h1")], {"h1": FREE | {"VCPU": 1}}, aggregates=[aggregate(1, ["h1"], availability_zone="w")])
    record = told(small, zone="east")
    assert change_for_owner(record) == "A flavor with at most 1 VCPU would fit in another availability zone."


def test_a_service_that_is_off_is_no_matter_of_the_owner() -> None:
    record = told(snapshot([host("h1", enabled=False)]))
    assert "openstack compute service set --enable h1" in (smallest_change(record) or "")
    assert change_for_owner(record) is None


def test_nothing_is_to_be_changed_where_a_host_was_found_or_there_are_none() -> None:
    for record in (told(full(h1=4)), told(snapshot([]))):
        assert (smallest_change(record), change_for_owner(record)) == (None, None)


@pytest.mark.parametrize("asked", [{}, {"zone": "z"}, {"host": HostName("secret1")}, {"excluded": {"secret1"}}])
@pytest.mark.parametrize("free", [0, 2, 4])
def test_an_owner_sees_no_names(free: int, asked: dict[str, Any]) -> None:
    hosts = [host("secret1"), host("secret2", enabled=False), host("secret3", seen_at=0.0)]
    group = GroupState(policy="anti-affinity", members={ProviderId("secret1"): 1})
    aggregates = [aggregate(1, ["secret1"], availability_zone="y", cpu_weight_multiplier="2")]
    room = {name: FREE | {"VCPU": free} for name in ("secret1", "secret2", "secret3")}
    record = told(snapshot(hosts, room, aggregates=aggregates), group=group if free else None, **asked)
    assert "secret" in msgspec.json.encode(record).decode()
    part = msgspec.json.encode(owners_part(record, None)).decode()
    assert "secret" not in part
    assert '"hosts":3' in part
