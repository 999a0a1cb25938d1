"""Filters by hints: beside others, apart from others, near an address."""

from typing import Any

import pytest

from tests.unit.scheduling.capacity import host, snapshot
from tests.unit.scheduling.passing import asking, passing

HOSTS = [
    host("one", host_ip="10.0.0.1"),
    host("two", host_ip="10.0.0.200"),
    host("far", host_ip="10.0.7.1"),
    host("six", host_ip="2001:db8::1:1"),
    host("none", host_ip=""),
]
ALL = {"one", "two", "far", "six", "none"}
HINTED = {"a": "one", "b": "two", "b2": "two", "left": "a host that is gone"}


@pytest.mark.parametrize(
    ("servers", "there"),
    [
        ("a", {"one"}),
        (["a"], {"one"}),
        (["a", "b", "b2"], {"one", "two"}),
        (["a", "deleted"], {"one"}),
        ("deleted", set()),
        ("left", set()),
    ],
)
def test_with_others_and_apart_from_them(servers: Any, there: set[str]) -> None:
    same = asking(hints={"same_host": servers}, hinted=HINTED)
    assert passing("SameHostFilter", same, snapshot(HOSTS)) == there
    different = asking(hints={"different_host": servers}, hinted=HINTED)
    assert passing("DifferentHostFilter", different, snapshot(HOSTS)) == ALL - there


@pytest.mark.parametrize("hints", [{}, {"same_host": []}, {"different_host": []}, {"group": "a"}])
def test_no_hint_asks_nothing(hints: dict[str, Any]) -> None:
    for name in ("SameHostFilter", "DifferentHostFilter", "SimpleCIDRAffinityFilter"):
        assert passing(name, asking(hints=hints, hinted=HINTED), snapshot(HOSTS)) == ALL


@pytest.mark.parametrize(
    ("near", "cidr", "who"),
    [
        ("10.0.0.99", None, {"one", "two"}),
        ("10.0.0.99", "/25", {"one"}),
        ("10.0.0.99", "25", {"one"}),
        (["10.0.0.99"], ["/25"], {"one"}),
        ("10.0.0.99", "/16", {"one", "two", "far"}),
        ("10.0.0.99", "/0", {"one", "two", "far"}),
        ("10.0.0.200", "/32", {"two"}),
        ("2001:db8::", "/64", {"six"}),
        ("2001:db8::1:0", "/112", {"six"}),
        ("2001:db8::2:0", "/112", set()),
        ("10.0.0.99", "/40", set()),
        ("nowhere", None, set()),
        ("10.0.0.99", "wide", set()),
    ],
)
def test_near_an_address(near: Any, cidr: Any, who: set[str]) -> None:
    hints = {"build_near_host_ip": near} | ({"cidr": cidr} if cidr else {})
    assert passing("SimpleCIDRAffinityFilter", asking(hints=hints), snapshot(HOSTS)) == who
