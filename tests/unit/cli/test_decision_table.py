"""How decisions look: the chosen first, what the others lack, no wider than a terminal, and the sentences."""

import io
from typing import Any

import msgspec
from rich.console import Console, RenderableType

from whimbrel.api.views.decisions import Decision
from whimbrel.api.views.plans import Plan
from whimbrel.cli import decision_table, plan
from whimbrel.cli.decision_table import MOST_LINES

IN: dict[str, Any] = {"verdict": "in", "reason": None}
OUT: dict[str, Any] = {"verdict": "out", "weight": None, "weights": {}}
FULL: dict[str, Any] = {
    "constraint": "placement",
    "words": "no room for 4 VCPU",
    "resource": "VCPU",
    "asked": 4,
    "free": 1,
}
DOCUMENT: dict[str, Any] = {
    "found": True,
    "summary": "3 of 5 hosts fit; of the others, 2: no room for 4 VCPU.",
    "availability_zone_because": "it stays in zone nova (az_on_move = keep)",
    "hosts": 5,
    "chosen": ["n2", "n1"],
    "considered": [
        {"host": "n2", "weight": 1.5, "weights": {"CPUWeigher": 1.0, "RAMWeigher": 0.5}, **IN},
        {"host": "n1", "weight": 0.25, "weights": {"CPUWeigher": 0.25}, **IN},
        {"host": "n3", "weight": 0.0, "weights": {}, **IN},
        {"host": "n4", "reason": FULL, **OUT},
        {"host": "n5", "reason": FULL | {"words": "its service is down", "asked": None, "free": None}, **OUT},
    ],
    "unknown to this client": True,
}


def read(**changes: Any) -> Decision:
    return msgspec.convert(DOCUMENT | changes, Decision)


def test_the_name_of_a_host_is_not_broken() -> None:
    long = "compute-rack12-node07.example.org"
    considered = [{"host": long, "reason": FULL | {"words": "a reason of several words " * 5}, **OUT}]
    assert any(
        line.startswith(f"{long}  out") for line in lines(decision_table.whole(read(considered=considered), True))
    )


def lines(what: RenderableType) -> list[str]:
    written = Console(file=io.StringIO(), width=80, highlight=False)
    written.print(what)
    assert isinstance(written.file, io.StringIO)
    return [line.rstrip() for line in written.file.getvalue().splitlines()]


def test_what_was_overridden_is_said() -> None:
    overridden = [{"words": "its service is disabled"}, {"words": "it is for other projects"}]
    seen = lines(decision_table.whole(read(overridden=overridden), everything=False))
    assert "Forced, although its service is disabled; it is for other projects." in seen


def test_the_best_comes_first_and_each_says_why() -> None:
    seen = lines(decision_table.whole(read(), everything=False))
    assert [line.split() for line in seen[:6]] == [
        ["host", "verdict", "weight", "why", "asked/free"],
        ["n2", "chosen", "1.500", "CPU", "1.00,", "RAM", "0.50"],
        ["n1", "next", "0.250", "CPU", "0.25"],
        ["n3", "in", "0.000"],
        ["n4", "out", "no", "room", "for", "4", "VCPU", "4/1"],
        ["n5", "out", "its", "service", "is", "down"],
    ]
    assert seen[6:] == ["", DOCUMENT["summary"], "Zone: it stays in zone nova (az_on_move = keep)."]


def test_what_is_said_below_and_columns_without_anything_are_left_out() -> None:
    because = DOCUMENT["availability_zone_because"]
    elsewhere = {"words": f"in another availability zone ({because})"}
    hosts = [{"host": "n6", "reason": FULL | elsewhere | {"asked": None}, **OUT}]
    seen = lines(
        decision_table.whole(
            read(found=False, summary=f"No ({because}).", chosen=[], considered=hosts), everything=False
        )
    )
    assert [line.split() for line in seen] == [
        ["host", "verdict", "why"],
        ["n6", "out", "in", "another", "availability", "zone"],
        [],
        ["No", *f"({because}).".split()],
    ]


def test_no_host_says_what_would_help() -> None:
    change = "n4 would fit with 3 VCPU more free there, or a flavor with at most 1 VCPU."
    seen = lines(decision_table.whole(read(found=False, chosen=[], change=change), everything=False))
    assert seen[-1] == change


def test_it_fits_a_terminal() -> None:
    name, words = "compute-0123456789.rack-17.example.net", "it lacks the trait CUSTOM_SOMETHING_WITH_A_LONG_NAME"
    hosts = [{"host": f"{n}{name}", "reason": FULL | {"words": words}, **OUT} for n in range(9)]
    seen = lines(decision_table.whole(read(considered=[*DOCUMENT["considered"], *hosts]), everything=False))
    assert max(map(len, seen)) <= 80
    assert len([line for line in seen if line.endswith("4/1")]) == 10


def test_of_many_hosts_some_of_both_kinds_are_shown() -> None:
    inside = [{"host": f"in{n}", "weight": 1.0, "weights": {}, **IN} for n in range(50)]
    outside = [{"host": f"out{n}", "reason": FULL, **OUT} for n in range(40)]
    many = read(considered=[*inside, *outside], untold=7)
    seen = lines(decision_table.whole(many, everything=False))
    half = MOST_LINES // 2
    assert f"and {50 - half} more that fit and {40 - half} more that do not: --all shows them" in seen
    assert "and 7 more, of which only the counts below are kept" in seen
    assert len([line for line in seen if line.startswith(("in", "out"))]) == MOST_LINES
    assert (
        len([line for line in lines(decision_table.whole(many, everything=True)) if line.startswith(("in", "out"))])
        == 90
    )
    few = lines(decision_table.whole(read(considered=[*inside, *outside[:3]]), everything=False))
    assert f"and {50 - MOST_LINES + 3} more that fit: --all shows them" in few
    assert len([line for line in few if line.startswith("out")]) == 3


def test_an_owner_sees_sentences() -> None:
    assert lines(decision_table.whole(read(chosen=[], considered=[], hosts=5), everything=False)) == [
        DOCUMENT["summary"],
        "Zone: it stays in zone nova (az_on_move = keep).",
        "Which hosts these are, administrators are shown.",
    ]


def test_several_choices_of_a_run_each_have_their_time() -> None:
    seen = lines(decision_table.several([read(at=1577934245.0, found=False), read(at=1577934246.0)], everything=False))
    assert [line for line in seen if line.startswith("choice")] == [
        "choice 1 of 2, at 2020-01-02 03:04:05",
        "choice 2 of 2, at 2020-01-02 03:04:06",
    ]


def test_the_head_says_what_is_planned() -> None:
    about = Plan(found=True, summary="", action="resize", flavor="large", source="n1")
    assert plan.head(about, "anna").plain == "resize of anna on n1 to large; nothing is moved"
    about = Plan(found=True, summary="", action="migrate", source=None)
    assert plan.head(about, "anna").plain == "migrate of anna; nothing is moved"
