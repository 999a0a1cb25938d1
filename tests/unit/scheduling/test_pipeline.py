"""The decision is a pure function: who is out and why, and the order of those who are in."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.scheduling.pipeline import choose
from whimbrel.scheduling.snapshot import HostState, Request

WANT = {"VCPU": 2, "MEMORY_MB": 1024}


def host(name: str, **more: Any) -> HostState:
    room = {"VCPU": 4, "MEMORY_MB": 4096}
    fields: dict[str, Any] = {
        "name": HostName(name),
        "cell": CellName("c1"),
        "provider": ProviderId(name),
        "zone": "z1",
        "enabled": True,
        "up": True,
        "free": room,
        "capacity": room,
        "max_unit": room,
    }
    return HostState(**{**fields, **more})


def reasons(hosts: list[HostState], **asked: Any) -> dict[str, str | None]:
    decision = choose(Request(resources=WANT, **asked), hosts, 3)
    return {one.host: one.reason for one in decision.considered}


def test_every_reason() -> None:
    hosts = [
        host("elsewhere", cell=CellName("c2")),
        host("source"),
        host("zone", zone="z2"),
        host("disabled", enabled=False),
        host("down", up=False),
        host("small", max_unit={"VCPU": 1, "MEMORY_MB": 4096}),
        host("full", free={"VCPU": 1, "MEMORY_MB": 4096}),
        host("good"),
    ]
    out = reasons(hosts, cell=CellName("c1"), zone="z1", excluded=frozenset({HostName("source")}))
    assert out == {
        "elsewhere": "in another cell",
        "source": "it is the host that the server is on",
        "zone": "not in zone z1",
        "disabled": "its service is disabled",
        "down": "its service is down",
        "small": "2 VCPU is more than one server may have there",
        "full": "no room for 2 VCPU",
        "good": None,
    }


def test_the_emptiest_comes_first_and_no_more_than_asked_for() -> None:
    hosts = [host(f"h{n}", free={"VCPU": n, "MEMORY_MB": 4096}) for n in range(2, 5)]
    decision = choose(Request(resources=WANT), hosts, 2)
    assert [choice.host for choice in decision.choices] == ["h4", "h3"]


def test_no_host_says_why() -> None:
    decision = choose(Request(resources=WANT), [host("a", up=False), host("b", up=False)], 3)
    assert decision.summary() == "No valid host was found. Of 2 hosts considered, 2: its service is down."


@given(st.lists(st.integers(0, 8), max_size=8), st.text(max_size=3))
def test_what_is_chosen_has_room_and_all_are_considered(free: list[int], spread: str) -> None:
    hosts = [host(f"h{n}", free={"VCPU": amount, "MEMORY_MB": 4096}) for n, amount in enumerate(free)]
    decision = choose(Request(resources=WANT, spread=spread), hosts, 3)
    room = {one.name: one.free["VCPU"] for one in hosts}
    assert all(room[choice.host] >= 2 for choice in decision.choices)
    assert sorted(one.host for one in decision.considered) == sorted(room)
    assert decision == choose(Request(resources=WANT, spread=spread), hosts, 3)


@given(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=2))
def test_the_order_of_the_snapshot_does_not_matter(names: list[str]) -> None:
    request = Request(resources=WANT, spread="x")
    chosen = [choose(request, [host(n) for n in order], 3).choices for order in (names, sorted(names))]
    assert chosen[0] == chosen[1]
