"""What placement is asked, host by host, where a host is a tree of providers."""

import pytest

from tests.unit.scheduling.capacity import FREE, host, snapshot
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.scheduling.constraint import Reason
from whimbrel.scheduling.pipeline import rank
from whimbrel.scheduling.request import Request

SHARED = ResourceRequest(own={"VCPU": 2})
DEDICATED = ResourceRequest(own={"PCPU": 2}, otherwise=SHARED)


def test_dedicated_cpus_below_a_host_are_dedicated_cpus() -> None:
    """They were taken for absent, and shared ones given instead."""
    now = snapshot([host("shared"), host("dedicated")], below={"dedicated": {"PCPU": 4}})
    ranking = rank(Request(resources=DEDICATED), now)
    assert ranking.resources == DEDICATED
    assert [now.fleet.names[place] for place in ranking.order] == ["dedicated"]


def test_where_nobody_has_dedicated_cpus_shared_ones_are_asked() -> None:
    assert rank(Request(resources=DEDICATED), snapshot([host("shared")])).resources == SHARED
    of_strangers = snapshot([host("shared")], below={"stranger": {"PCPU": 4}})
    assert rank(Request(resources=DEDICATED), of_strangers).resources == SHARED


@pytest.mark.parametrize("free", [0, 1])
def test_what_is_free_is_reported_whoever_in_the_tree_has_most(free: int) -> None:
    now = snapshot([host("h")], below={"h": {"PCPU": free}})
    [wrong] = [
        one
        for one in rank(Request(resources=ResourceRequest(own={"PCPU": 2})), now).constraints
        if not one.passes.all()
    ]
    assert wrong.reason(0) == Reason(
        constraint="placement", words="no room for 2 PCPU", resource="PCPU", asked=2, free=free
    )


def test_what_another_provider_of_the_tree_has_is_not_said_to_be_missing() -> None:
    """One thing is lacking: only that is told, though the root alone has neither."""
    now = snapshot([host("h")], {"h": FREE | {"VCPU": 1}}, below={"h": {"PCPU": 4}})
    asked = Request(resources=ResourceRequest(own={"PCPU": 2, "VCPU": 2}))
    [wrong] = [one for one in rank(asked, now).constraints if not one.passes.all()]
    assert wrong.words == "no room for 2 VCPU"
