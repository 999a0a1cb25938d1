"""`whimbrel sim`: what it says to people and to programs, and how it says that something is wrong."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sim.planted import PLANTED
from whimbrel.cli import app
from whimbrel.cli import sim as command
from whimbrel.domain.errors import Invalid
from whimbrel.sim.faults.planned_events import FAULTS, Act, Mishap, Size, Story, story_of, to_file, varied
from whimbrel.sim.runs.simulation import run


def say(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = app(["sim", *map(str, arguments)])
    return code or 0, capsys.readouterr().out


def test_run_says_that_all_invariants_hold(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = say(capsys, "run", "--seed", "3", "--steps", "5")
    assert code == 0
    assert out.startswith("1 seed, ")
    assert "all invariants hold" in out


def test_run_tells_programs_everything(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = say(capsys, "run", "--seed", "4", "--seeds", "2", "--steps", "5", "--json")
    told = [msgspec.json.decode(line) for line in out.splitlines()]
    assert code == 0
    assert [one["seed"] for one in told] == [4, 5]
    assert [one["failure"] for one in told] == [None, None]
    assert told[0]["trace"] == run(story_of(4, 5, varied(4, Size()))).hash
    assert told[0]["counts"]["ended"]["create"]["done"] >= 5
    assert len(told[0]["story"]["decisions"]) == 5


def test_run_says_what_many_seeds_did(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = say(capsys, "run", "--seeds", "2", "--steps", "4", "--cells", "1")
    assert code == 0
    lines = out.splitlines()
    assert [line for line in lines if line.endswith(":")] == ["asked:", "ended:", "moved with:", "went wrong:"]
    assert any(line.startswith("  create ") and "done " in line for line in lines)


def test_run_uses_several_processes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = say(capsys, "run", "--seeds", "3", "--steps", "3", "--jobs", "2", "--json")
    assert code == 0
    assert [msgspec.json.decode(line)["seed"] for line in out.splitlines()] == [0, 1, 2]


def test_a_timeline_says_when_who_and_what(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    story = Story(
        seed=0,
        size=Size(servers=1, hosts=2),
        decisions=(Act(at=1.0, what="migrate", pick=7), Mishap(at=3.0, what="kill", where="door1", for_s=80.0)),
    )
    (tmp_path / "story").write_bytes(to_file(story))
    code, out = say(capsys, "replay", tmp_path / "story")
    assert code == 0
    lines = [line.split(maxsplit=2) for line in out.splitlines()]
    assert ["3.000", "fault", "kill: door1 for 80.0 s"] in lines
    assert any(who == "user" and what == "migrate s1: 202" for _, who, what in lines[1:-1])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--cells", "9"], "9 cells"),
        (["--faults", "2"], "0 to 1"),
        (["--weight", "kil=3"], "names are"),
        (["--weight", "kill"], "NAME=NUMBER"),
        (["--hosts", "0"], "1 at least"),
        (["--jobs", "-1"], "jobs 0 at least"),
        (["--gap", "inf"], "--gap is in seconds"),
        (["--gap", "nan"], "--gap is in seconds"),
        (
            ["--faults", "1", *(word for name in FAULTS for word in ("--weight", f"{name.replace(' ', '-')}=0"))],
            "nothing",
        ),
        (["--save", "/nowhere/story"], "no directory /nowhere"),
        (["--save", "/"], "that is a directory"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        app(["sim", "run", *arguments])


@pytest.mark.parametrize("content", [b"", b"[]", b'{"seed": 1}', b'{"whimbrel": "move"}'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    file: Any = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(Invalid):
        app(["sim", "replay", str(file)])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        app(["sim", "replay", str(tmp_path / "nothing")])


def test_of_seeds_that_fail_alike_one_is_made_short(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "tell", lambda story: run(story, PLANTED["the old guest is not destroyed"]))
    words = ("--steps", "6", "--faults", "0", "--weight", "turn-back=0")
    code, out = say(capsys, "run", "--seed", "3", "--seeds", "6", *words)
    lines = out.splitlines()
    told = [line for line in lines if line.startswith("seed ") and line.endswith((" step:", " steps:"))]
    too = [line for line in lines if "in a way that was shown already: I" in line]
    assert code == 1
    assert len(told) == 1
    assert too
    assert len([line for line in lines if line.startswith("again")]) == 1 + len(too)


def test_a_failing_seed_says_by_which_words_it_is_shown_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "tell", lambda story: run(story, PLANTED["the old guest is not destroyed"]))
    saved = tmp_path / "story"
    words = ("--steps", "12", "--gap", "2", "--faults", "0.25", "--weight", "turn-back=0", "--as-it-is")
    code, out = say(capsys, "run", "--seed", "7", "--seeds", "4", "--save", saved, *words)
    again = [line.partition(": ")[2] for line in out.splitlines() if line.startswith("again")]
    assert code == 1
    assert len(again) > 1
    kept = msgspec.json.decode(saved.read_bytes())
    assert f"--seed {kept['seed']} " in again[0]  # the first that fails
    assert f"--save {saved}" not in again[0]
    code, told = say(capsys, *again[0].split()[2:], "--json")
    assert code == 1
    assert {"whimbrel": "story", **msgspec.json.decode(told)["story"]} == kept
