"""JsonFilter: queries over hosts, as Nova reads them."""

import json
from typing import Any

import pytest

from tests.unit.scheduling.capacity import host, snapshot
from tests.unit.scheduling.passing import asking, passing
from whimbrel.ports.stores.fleet import Load
from whimbrel.scheduling.filters.by_name import FILTERS
from whimbrel.scheduling.filters.by_query import MOST_PARTS, NAME

NOW = snapshot(
    [
        host("big", cpu_info='{"topology": {"cores": 4}}', memory_mib=4096),
        host("small", hypervisor_type="simulated", memory_mib=512),
    ],
    {"big": {"VCPU": 1, "MEMORY_MB": 4}, "small": {"VCPU": 8}},
    loads={"big": Load(servers=3)},
)
BOTH, NONE = {"big", "small"}, set[str]()


@pytest.mark.parametrize(
    ("query", "who"),
    [
        ([">=", "$total_usable_ram_mb", 1024], {"big"}),
        (["<", "$free_ram_mb", 1024], {"small"}),
        (["=", "$num_instances", 3], {"big"}),
        (["<=", 512, "$total_usable_ram_mb"], BOTH),
        ([">", "$total_usable_ram_mb", 100, 600], {"big"}),  # all others
        (["in", "$hypervisor_hostname", "small", "other"], {"small"}),
        (["in", "$hypervisor_hostname"], NONE),
        (["=", "$cpu_info.topology.cores", 4], {"big"}),  # the other one has no such value to compare
        (["=", "$cpu_info.topology.cores"], NONE),
        (["and", ["=", "$host", "big"], ["=", "$vcpus_used", 7]], {"big"}),
        (["and", ["=", "$host", "big"], ["=", "$host", "small"]], NONE),
        (["or", ["=", "$host", "big"], ["=", "$host", "small"]], BOTH),
        (["not", ["=", "$host", "big"]], {"small"}),
        (["and", ["not", ["=", "$host", "big"]], [">", "$vcpus_total", 0]], {"small"}),
        (["and"], BOTH),
        (["or"], NONE),
        (["<", "$host", 5], NONE),  # cannot be compared
        (["and", []], BOTH),
    ],
)
def test_who_fulfils_a_query(query: Any, who: set[str]) -> None:
    for hint in (query, json.dumps(query)):
        assert passing(NAME, asking(hints={"query": hint}), NOW) == who


@pytest.mark.parametrize("hints", [{}, {"query": ""}, {"query": []}, {"query": None}])
def test_no_query_asks_nothing(hints: dict[str, Any]) -> None:
    assert passing(NAME, asking(hints=hints), NOW) == BOTH


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("no JSON", "it is no JSON that can be read"),
        ({"a": "b"}, "it is no list of an operation and its arguments"),
        (["near", "$host", "x"], "'near' is none of the operations =, <, >, in,"),
        ([["="], 1], "is none of the operations"),
        (["=", "$secret", 1], "hosts have no 'secret', but hypervisor_type,"),
        (["=", "$free_ram_mb.more", 1], "hosts have no 'free_ram_mb.more'"),
        (["and", *["x"] * MOST_PARTS], "it has more than 100 operations and arguments"),
        ("[" * 5000 + "]" * 5000, "it is no JSON"),
    ],
)
def test_what_cannot_be_understood_lets_nobody_pass_and_says_so(query: Any, why: str) -> None:
    [constraint] = FILTERS[NAME](asking(hints={"query": query}), NOW)
    assert not constraint.passes.any()
    assert constraint.words.startswith("the hint query cannot be understood: ")
    assert why in constraint.words
