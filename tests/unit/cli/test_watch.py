"""Watching a move in a pipe: what is written, and that it ends when it is somebody's turn."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from tests.unit.cli.test_move_view import DOCUMENT
from whimbrel.cli import move, terminal
from whimbrel.cli.client import Api
from whimbrel.domain.errors import Invalid

RESTS = [
    ({"state": "parked", "owner": None}, "waits for a verdict: openstack server resize confirm|revert a1b2"),
    ({"problem": "Traceback ...", "owner": None}, "whimbrel move retry 5e3c"),
    ({"state": "undone", "turned": "refused", "finished_at": 1769853609.5}, "rolled back (refused) after 9.5 s"),
    ({"state": "done", "status": "confirmed", "finished_at": 1769853609.5}, "done (confirmed) after 9.5 s"),
]


def changed(**changes: Any) -> Any:
    return {"move": DOCUMENT | {"tries": 0} | changes}


@pytest.mark.parametrize(("end", "said"), RESTS)
def test_it_ends_when_somebody_has_to_act_or_all_is_over(
    end: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter([changed(), changed(), changed(**end)])
    asked: list[str] = []

    def get(api: Api, id: str) -> Any:
        asked.append(id)
        return next(answers)  # it fails where a fourth is asked for

    monkeypatch.setattr(move, "_get", get)
    monkeypatch.setattr(move, "POLL_S", 0.0)
    api: Any = None
    seen = move._watch(move._changes(api, "5e3c"))
    assert said in capsys.readouterr().out.splitlines()[-1 if "problem" not in end else -2]
    assert len(asked) == 3
    assert (seen.problem is not None) == ("problem" in end)


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_its_state_is_shown_when_it_is_interrupted(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told() -> Iterator[Any]:
        yield changed()
        yield changed(at="carry_disk", message="the last that was seen")
        raise KeyboardInterrupt

    console = Console(force_terminal=is_terminal, width=80)
    monkeypatch.setattr(terminal, "console", lambda: console)
    with pytest.raises(KeyboardInterrupt):
        move._watch(told())
    assert capsys.readouterr().out.rstrip().endswith("the last that was seen")


def lines(capsys: pytest.CaptureFixture[str], *documents: Any) -> list[str]:
    def told() -> Iterator[Any]:
        yield from documents

    move._watch_lines(told())
    return capsys.readouterr().out.splitlines()


def test_an_unreachable_host_is_said_once_for_as_long_as_it_is_unreachable(capsys: pytest.CaptureFixture[str]) -> None:
    unreachable = {"message": "no answer from host n2", "epoch": 4}
    seen = lines(
        capsys,
        changed(),
        changed(tries=1, **unreachable),
        changed(tries=2, **unreachable),
        changed(tries=0, at="activate_target"),
        changed(tries=1, at="activate_target", **unreachable),
        changed(state="parked"),
    )
    assert seen.count("no answer from host n2") == 2
    assert "waits for a verdict" in seen[-1]


def test_what_is_owed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    owes = {"way": "back", "debts": ["carry_disk"]}
    seen = lines(capsys, changed(), changed(**owes), changed(**owes, epoch=5), changed(state="undone", turned="asked"))
    assert seen.count("still to be undone: carry_disk") == 1


def test_a_move_that_no_conductor_has_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert any(
        "with no conductor yet" in line for line in lines(capsys, changed(owner=None, due_at=1.0), changed(owner="c1"))
    )


@pytest.mark.parametrize(
    ("word", "moment"), [("30m", "2026-01-31T09:30:00Z"), ("2d", "2026-01-29T10:00:00Z"), ("2026-01-31", "2026-01-31")]
)
def test_since_is_an_age_or_a_time(word: str, moment: str) -> None:
    now = datetime(2026, 1, 31, 10, tzinfo=UTC).timestamp()
    assert move._moment_of(word, now) == moment


def test_an_age_before_all_times_is_refused() -> None:
    with pytest.raises(Invalid, match="too long ago"):
        move._moment_of("99999999999d", 0.0)
