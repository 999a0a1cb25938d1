"""NUMA nodes: what flavors and images want, and whether those of a host hold it."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.scheduling.capacity import host, snapshot
from tests.unit.scheduling.passing import asking, flavored, passing
from whimbrel.domain.errors import Invalid
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.numa import NumaNode, fit
from whimbrel.scheduling.filters.by_name import FILTERS
from whimbrel.scheduling.requirements.numa import NAME, nodes_of
from whimbrel.scheduling.requirements.server import resource_request

NODES = st.builds(NumaNode, cpus=st.integers(0, 3), memory_mib=st.integers(0, 3))


def node(cpus: int, memory_mib: int) -> NumaNode:
    return NumaNode(cpus=cpus, memory_mib=memory_mib)


def flavor(**specs: str) -> Flavor:
    """Make one of 4 CPUs and 1000 MiB; `__` stands for a colon, and `_at_` for a dot."""
    specs = {key.replace("_at_", "."): value for key, value in specs.items()}
    return replace(flavored("f", **specs), vcpus=4, memory_mib=1000)


NOW = snapshot(
    [
        host("two", numa=(node(4, 600), node(4, 600))),
        host("one", numa=(node(8, 4000),)),
        host("uneven", numa=(node(2, 300), node(4, 800))),
        host("silent"),
    ]
)


@pytest.mark.parametrize(
    ("specs", "who"),
    [
        ({}, {"two", "one", "uneven", "silent"}),
        ({"hw__numa_nodes": "1"}, {"one"}),
        ({"hw__numa_nodes": "2"}, {"two"}),
        ({"hw__cpu_policy": "dedicated"}, {"one"}),
        ({"hw__mem_page_size": "large"}, {"one"}),
        ({"hw__mem_page_size": "small"}, {"two", "one", "uneven", "silent"}),
        ({"hw__numa_nodes": "2", "hw__numa_cpus_at_0": "0-2", "hw__numa_cpus_at_1": "3", "hw__numa_mem_at_0": "800",
          "hw__numa_mem_at_1": "200"}, {"uneven"}),
        ({"hw__numa_nodes": "4"}, set()),
    ],
)  # fmt: skip
def test_whose_nodes_hold_what_is_wanted(specs: dict[str, str], who: set[str]) -> None:
    assert passing(NAME, asking(flavor=flavor(**specs)), NOW) == who


def test_an_image_may_ask_too() -> None:
    assert passing(NAME, asking(flavor=flavor(), image_properties={"hw_numa_nodes": "2"}), NOW) == {"two"}


def test_who_does_not_tell_is_out_for_that() -> None:
    unreachable, small = FILTERS[NAME](asking(flavor=flavor(hw__numa_nodes="2")), NOW)
    assert (unreachable.words, unreachable.passes.tolist()) == (
        "it does not report its NUMA nodes",
        [True, True, True, False],
    )
    assert small.words == (
        "its NUMA nodes do not hold the 2 that the server wants: 2 CPUs with 500 MiB, 2 CPUs with 500 MiB"
    )
    assert small.passes.tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("specs", "why"),
    [
        ({"hw__numa_nodes": "x"}, "'numa_nodes' cannot be 'x': it is a whole number from 1"),
        ({"hw__numa_nodes": "0"}, "'numa_nodes' cannot be '0'"),
        ({"hw__numa_nodes": "3"}, "4 CPUs and 1000 MiB cannot be shared out evenly among 3 NUMA nodes"),
        ({"hw__numa_cpus_at_0": "0-3"}, "'hw:numa_cpus.0' needs 'hw:numa_nodes'"),
        ({"hw__numa_nodes": "1", "hw__numa_cpus_at_0": "0-3"}, "'hw:numa_mem.0' is missing"),
        ({"hw__numa_nodes": "1", "hw__numa_cpus_at_0": "0-3", "hw__numa_mem_at_0": "1000", "hw__numa_mem_at_1": "1"},
         "'hw:numa_mem.1' is one too many"),
        ({"hw__numa_nodes": "1", "hw__numa_cpus_at_0": "0-2", "hw__numa_mem_at_0": "1000"},
         "'hw:numa_cpus' must give each of the flavor's 4 CPUs to one NUMA node"),
        ({"hw__numa_nodes": "1", "hw__numa_cpus_at_0": "0-9", "hw__numa_mem_at_0": "1000"}, "CPUs 0 to 3 only"),
        ({"hw__numa_nodes": "1", "hw__numa_cpus_at_0": "0-3", "hw__numa_mem_at_0": "1"},
         "'hw:numa_mem' must come to the flavor's 1000 MiB, and not to 1"),
        ({"hw__numa_nodes": "1", "hw__numa_cpus_at_0": "0-3", "hw__numa_mem_at_0": "much"}, "is a whole number of MiB"),
    ],
)  # fmt: skip
def test_what_is_said_wrongly_is_refused_when_a_server_is_asked_for(specs: dict[str, str], why: str) -> None:
    with pytest.raises(Invalid, match=why.replace("(", r"\(")):
        resource_request(flavor(**specs), {})


def test_a_flavor_and_an_image_do_not_say_different_things() -> None:
    with pytest.raises(Invalid, match="hw_numa_nodes"):
        nodes_of(flavor(hw__numa_nodes="2"), {"hw_numa_nodes": "1"})
    specs = {"hw__numa_nodes": "1", "hw__numa_cpus_at_0": "0-3", "hw__numa_mem_at_0": "1000"}
    with pytest.raises(Invalid, match="numa_mem"):
        nodes_of(flavor(**specs), {"hw_numa_mem.0": "999"})


@given(st.lists(NODES, max_size=4), st.lists(NODES, max_size=4))
def test_nodes_fit_if_there_is_any_order_in_which_each_has_its_own(
    wanted: list[NumaNode], there: list[NumaNode]
) -> None:
    orders = permutations(there, len(wanted)) if len(wanted) <= len(there) else ()
    assert fit(wanted, there) == any(
        all(has.holds(want) for has, want in zip(order, wanted, strict=True)) for order in orders
    )
