"""Reports of failing seeds: the kind of failure, and the timeline without repetitions."""

import pytest

from whimbrel.sim.checks.failure_kinds import kind_of
from whimbrel.sim.record.trace import Line, folded

ONE, OTHER = "0fa07a3f-2e29-4065-afa2-31e959acdd98", "642aad48-fcfc-4a81-b306-d70019d5f970"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (f"I1: agent h1.start: server {ONE} runs 2 times: on h1 and on h2",
         f"I1: the end: server {OTHER} runs 3 times: on h3 and on h4", True),
        (f"I7: agent h1.start: volume {ONE} is connected to ['h1', 'h2']",
         f"I7: agent h1.start: {ONE} runs on h1 with volume {OTHER}, which is not connected", False),
        (f"rest: port {ONE} was made for {OTHER}, which has it no more; image {ONE} is left of what came to nothing",
         f"rest: port {OTHER} was made for {ONE}, which has it no more", True),
        (f"rest: port {ONE} was made for {OTHER}, which has it no more",
         f"rest: image {ONE} is left of what came to nothing", False),
        (f"rest: image {ONE} is left of what came to nothing", "unended: after 900 s: resize of s1 is open", False),
        ("unended: after 900 s: resize of s1 is open", "unended: after 900 s: migrate of s2 is open back", True),
        ("rest: nothing", None, False),
    ],
)  # fmt: skip
def test_a_kind_is_an_invariant_and_its_words(one: str, other: str | None, is_same: bool) -> None:
    assert (kind_of(one) == kind_of(other)) is is_same


def test_what_repeats_itself_is_shown_once_with_how_often() -> None:
    told = [
        Line(1.0, "door1", "owes, 7 tries"),
        Line(2.0, "door2", "waits"),
        *(Line(3.0 + at, "door1", f"owes, {at} tries") for at in range(44)),
        Line(50.0, "door2", "waits"),
        Line(51.0, "fault", "nothing goes wrong any more"),
        Line(52.0, "door1", "owes, 45 tries"),
        Line(53.0, "user", "asks"),
        Line(54.0, "user", "asks"),
    ]
    assert [(line.at, line.what) for line in folded(told)] == [
        (1.0, "owes, 7 tries"),
        (2.0, "waits"),
        (3.0, "owes, 0 tries … 44 times until 46.000"),
        (50.0, "waits"),
        (51.0, "nothing goes wrong any more"),
        (52.0, "owes, 45 tries"),
        (53.0, "asks"),
        (54.0, "asks"),
    ]
