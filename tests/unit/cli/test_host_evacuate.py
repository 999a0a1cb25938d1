"""`whimbrel host evacuate`: it repeats its request until nothing is under way."""

from typing import Any

from rich.console import Console

from whimbrel.api.views.host_evacuations import HostEvacuationState, LeftServer
from whimbrel.cli.host_evacuate import WaitReasons, follow, progress_of, summary


def state(**fields: Any) -> dict[str, Any]:
    plain = {"host": "h1", "since": 5.0, "begun": 0, "under_way": 0, "waiting": 0, "why": None, "to_go": 0,
             "arrived": 0, "left": [], "is_over": False}  # fmt: skip
    return plain | fields


class Answers:
    def __init__(self, *states: dict[str, Any]) -> None:
        self._states = list(states)
        self.asked: list[Any] = []

    def post(self, service: str, path: str, body: Any) -> Any:
        self.asked.append((path, dict(body["evacuation"])))
        return {"evacuation": self._states.pop(0)}


def follow_all(answers: Answers, *, detach: bool = False) -> HostEvacuationState:
    pace = {"at_once": 4, "per_minute": None}
    return follow(answers, "h/1", pace, detach=detach, show=lambda _: None, sleep=lambda _: None)  # type: ignore[arg-type]


def test_it_is_repeated_until_it_is_over() -> None:
    answers = Answers(state(under_way=2), state(arrived=1, under_way=1), state(arrived=2, is_over=True))
    assert follow_all(answers).arrived == 2
    assert answers.asked == [
        ("/whimbrel/hosts/h%2F1/evacuation", {"at_once": 4}),
        *[("/whimbrel/hosts/h%2F1/evacuation", {"at_once": 4, "since": 5.0})] * 2,
    ]


def test_who_does_not_wait_gets_the_first_answer() -> None:
    assert follow_all(Answers(state(under_way=2)), detach=True).under_way == 2


def test_what_it_waits_for_is_said_in_full_and_once() -> None:
    console = Console(width=40, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    reasons = WaitReasons(console)
    for why in ("waits for evidence: the agent answers and says that it is running", "waits for evidence"):
        for _ in range(2):
            reasons.show(HostEvacuationState(**state(under_way=2, waiting=2, why=why)))
    reasons.show(HostEvacuationState(**state(under_way=2)))
    assert " ".join(console.export_text().split()) == (
        "host h1: waits for evidence: the agent answers and says that it is running host h1: waits for evidence"
    )


def test_that_no_more_may_begin_is_said_once() -> None:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    reasons = WaitReasons(console)
    for next_in_s in (31.2, 30.9, None, 59.0):
        reasons.show(HostEvacuationState(**state(to_go=2, per_minute=5, next_in_s=next_in_s)))
    assert console.export_text() == (
        "host h1: 5 a minute may begin, the next one in 31 s; other servers wait for that\n"
    )


def test_the_numbers_are_said() -> None:
    going = HostEvacuationState(**state(under_way=2, waiting=1, arrived=3, to_go=4))
    assert progress_of(going) == "host h1: 3 evacuated, 2 under way, 4 to go"
    paced = HostEvacuationState(**state(under_way=2, to_go=4, per_minute=5, next_in_s=31.2))
    assert progress_of(paced) == (
        "host h1: 0 evacuated, 2 under way, 4 to go (5 a minute may begin, the next one in 31 s)"
    )


def test_servers_that_are_left_are_listed_with_the_reason() -> None:
    one = LeftServer(server="id", name="db", reason="No valid host")
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(summary(HostEvacuationState(**state(arrived=1, left=[one], is_over=True))))
    text = console.export_text()
    assert "db" in text
    assert "No valid host" in text
    assert "1 evacuated, 0 under way, 0 to go, 1 left" in text
