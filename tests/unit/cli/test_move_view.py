"""How moves look: what happened, what is ahead, what is owed, and what to do."""

import time
from typing import Any

import msgspec
import pytest
from rich.console import RenderableType

from tests.unit.cli.test_listing import at_a_terminal
from whimbrel.api.views.moves import Move
from whimbrel.cli import move_view, terminal
from whimbrel.cli.terminal import moment
from whimbrel.saga.engine import NEVER

DOCUMENT: dict[str, Any] = {
    "id": "5e3c",
    "saga": "resize",
    "server_id": "a1b2",
    "server_name": "anna",
    "source": "n1",
    "target": "n2",
    "old_flavor": "small",
    "new_flavor": "large",
    "state": "open",
    "status": "migrating",
    "way": "forward",
    "at": "carry_disk",
    "owner": "c1",
    "epoch": 3,
    "tries": 2,
    "ahead": ["carry_disk", "await_verdict"],
    "steps": [
        {"step": "lock", "way": "do", "took_s": 0.0042, "outcome": "done", "detail": None},
        {"step": "choose_target", "way": "do", "took_s": 1.25, "outcome": "done", "detail": None},
    ],
    "debts": [],
    "summary": "1 of 2 hosts fit; of the others, 1: no room for 4 VCPU.",
    "message": None,
    "problem": None,
    "created_at": 1769853600.0,
    "since": 1769853601.0,
    "finished_at": None,
    "unknown to this client": True,
}


def read(**changes: Any) -> Move:
    return msgspec.convert(DOCUMENT | changes, Move)


def text(what: RenderableType) -> str:
    console = terminal.console()
    with console.capture() as captured:
        console.print(what)
    return captured.get()


def test_a_move_between_cells_names_them() -> None:
    move = read(source_cell="east", target_cell="west", cross_cell=True)
    head = text(move_view.whole(move)).splitlines()[0].rstrip()
    assert head == "resize of anna  east/n1 -> west/n2  between cells  small -> large  (move 5e3c)"
    row = text(move_view.listing([move])).splitlines()[-1].split()
    assert row[3:5] == ["east/n1", "west/n2"]
    inside = read(source_cell="east", target_cell="east", cross_cell=False)
    assert text(move_view.listing([inside])).splitlines()[-1].split()[3:5] == ["n1", "n2"]


def test_an_open_move_shows_what_was_what_is_and_what_comes() -> None:
    seen = text(move_view.whole(read()))
    lines = [line.rstrip() for line in seen.splitlines()]
    assert lines[0] == "resize of anna  n1 -> n2  small -> large  (move 5e3c)"
    assert any(line.split() == ["v", "lock", "4", "ms", "done"] for line in lines)
    assert any(line.split() == ["v", "choose_target", "1.2", "s", "done"] for line in lines)
    at_it = next(line for line in lines if "at it" in line)
    assert "carry_disk" in at_it
    assert "asked 2 times" in at_it
    assert lines.index(at_it) < next(n for n, line in enumerate(lines) if "await_verdict" in line)
    assert lines.index(f"{DOCUMENT['summary']}") + 1 == lines.index("Why it chose so: whimbrel move show 5e3c --why")
    assert "goes forward, with conductor c1, epoch 3" in seen
    assert "\x1b" not in seen


def test_debts_and_bugs_are_said_with_what_to_do() -> None:
    seen = text(
        move_view.whole(read(debts=["carry_disk"], problem="Traceback ...", message="no answer from n2", owner=None))
    )
    assert "still to be undone: carry_disk" in seen
    assert "whimbrel move retry 5e3c" in seen
    assert "no answer from n2" in seen


@pytest.mark.parametrize(
    ("saga", "debts", "is_said"),
    [
        ("migrate", ["stop_on_source", "lock"], True),
        ("migrate", ["carry_disk", "lock"], False),
        ("live_migrate", ["stop_on_source"], False),
    ],
)
def test_a_move_that_waits_for_its_source_says_how_it_ends_without_it(
    saga: str, debts: list[str], is_said: bool
) -> None:
    seen = text(move_view.state(read(saga=saga, way="back", debts=debts)))
    assert ("If host n1 never returns: whimbrel move give-up-source 5e3c" in seen) == is_said


def test_a_run_that_waits_says_when_it_is_asked_again() -> None:
    soon = time.time() + 3600
    assert f"goes forward, asked again at {moment(soon)}, epoch 3" in text(
        move_view.whole(read(owner=None, due_at=soon))
    )


def test_a_run_that_nobody_takes_says_so() -> None:
    seen = text(move_view.whole(read(owner=None, due_at=1769853605.0)))
    assert "goes forward, with no conductor yet, epoch 3" in seen
    assert "asked again" not in seen


def test_a_run_whose_conductor_is_gone_says_when_its_lease_ran_out() -> None:
    ran_out = 1769853605.0
    assert f"with conductor c1, whose lease ran out at {moment(ran_out)}," in text(
        move_view.whole(read(due_at=ran_out))
    )
    held = text(move_view.whole(read(due_at=time.time() + 3600)))
    assert "with conductor c1, epoch 3" in held


def test_a_run_at_a_bug_is_not_said_to_be_asked_again() -> None:
    seen = text(move_view.whole(read(owner=None, due_at=NEVER, problem="Traceback ...")))
    assert "goes forward, with no conductor, epoch 3" in seen


def test_a_refused_choice_is_not_said_twice() -> None:
    seen = text(move_view.whole(read(state="undone", message=DOCUMENT["summary"])))
    assert seen.count("no room for 4 VCPU") == 1
    assert "--why" in seen


def test_a_parked_move_says_whose_turn_it_is() -> None:
    assert "waits for a verdict: openstack server resize confirm|revert a1b2" in text(
        move_view.whole(read(state="parked"))
    )


def test_an_ended_move_says_how_long_it_took() -> None:
    seen = text(move_view.whole(read(state="done", status="confirmed", finished_at=1769853609.5)))
    assert "done (confirmed) after 9.5 s" in seen
    assert "at it" not in seen


def test_a_listing_is_one_line_for_each_move() -> None:
    seen = text(move_view.listing([read(), read(state="undone", status="error", server_name=None)]))
    assert len(seen.splitlines()) == 3
    assert "carry_disk" in seen
    assert "a1b2" in seen
    assert text(move_view.listing([])).strip() == "no moves"


IDS = ["4300c00c-8af5-4ec5-a02d-d181fae07eeb", "4300c00d-0000-4ec5-a02d-d181fae07eeb"]


def test_ids_are_short_where_they_would_not_fit_and_never_broken() -> None:
    moves = [read(id=id, server_name="a server with a long name", tries=0) for id in IDS]
    narrow = at_a_terminal(move_view.listing(moves))
    assert [line.split()[0] for line in narrow if line.startswith("43")] == ["4300c00c", "4300c00d"]
    assert max(len(line) for line in narrow) <= 80
    wide = at_a_terminal(move_view.listing(moves), width=140)
    assert [line.split()[0] for line in wide[1:]] == IDS
    assert IDS[0] in text(move_view.listing(moves))  # a pipe


def test_a_narrow_list_has_the_reason_below_each_move() -> None:
    """On 80 columns nothing is broken over lines: long names are cut, and the reason has a line of its own."""
    since = time.time() - 125
    waits = read(id=IDS[0], server_name="a server with a long name", message="no answer from host n2", since=since)
    doing = read(id=IDS[1], server_name="anna", since=since, tries=0, doing="copies the disks to the target")
    narrow = at_a_terminal(move_view.listing([waits, doing]))
    assert max(len(line) for line in narrow) <= 80
    assert [line.split()[0] for line in narrow] == ["move", "4300c00c", "no", "4300c00d", "copies"]
    assert narrow[1].endswith("2 min")
    assert narrow[2].strip() == "no answer from host n2"
    wide = text(move_view.listing([waits])).splitlines()
    assert wide[0].split()[-4:] == ["standing", "for", "begun", "why"]
    assert wide[1].rstrip().endswith("no answer from host n2")


def test_a_move_that_cannot_be_undone_yet_says_which_undo_on_which_host_waits() -> None:
    owes = ["start_on_target", "carry_disk", "lock"]
    waits = read(id=IDS[0], way="back", at="debts", debts=owes, ahead=owes, tries=9,
                 message="undo of start_on_target: no answer from host n2",
                 doing="destroys the guest on the target")  # fmt: skip
    narrow = at_a_terminal(move_view.listing([waits]))
    assert len(narrow) == 3
    assert "undo of start_on_target" in narrow[1]
    assert narrow[2].strip() == "cannot yet undo start_on_target on n2 (then 2 more): no answer from host n2"
    [now] = [line for line in text(move_view.whole(waits)).splitlines() if "at it" in line]
    assert now.split()[:2] == [">", "start_on_target"]
    assert read(at="debts", debts=["lock"], message=None).why == "cannot yet undo lock: no answer yet"


def test_in_a_pipe_a_move_is_one_line_however_long() -> None:
    seen = text(move_view.listing([read(id=IDS[0], message="no " * 200)])).splitlines()
    assert len(seen) == 2
    assert IDS[0] in seen[1]


def test_a_move_that_waits_says_for_how_long_and_one_that_is_over_does_not() -> None:
    parked = read(state="parked", parked_at=time.time() - 7300)
    assert move_view._time_at_step(parked, time.time()) == "2 h"
    assert move_view._time_at_step(read(state="done"), time.time()) == ""
    assert (parked.why, read(state="done").why, read(state="undone", message="no room").why) == ("", "", "no room")
    assert read(problem="Traceback\n  x\nKeyError: 'a'").why == "stopped by a bug: KeyError: 'a'"
    assert read(debts=["lock"], message="no answer").why == "no answer; still has to undo lock"


def test_a_step_has_a_sentence_if_there_is_no_other_detail() -> None:
    steps = [{"step": "lock", "way": "do", "took_s": 0.1, "outcome": "done", "sentence": "locks the server"}]
    move = read(steps=steps, tries=0, doing="copies the disks", ahead_sentences=["copies the disks", "waits"])
    lines = text(move_view.whole(move)).splitlines()
    for name, sentence in (
        ("lock", "locks the server"),
        ("carry_disk", "copies the disks"),
        ("await_verdict", "waits"),
    ):
        assert any(name in line and line.rstrip().endswith(sentence) for line in lines)


def test_the_copy_of_a_disk_shows_percent_and_rate() -> None:
    copy = {"disk": "root", "size_bytes": 20 << 30, "percent": 42, "rate": 117 << 20}
    assert "copied: disk root 42 % of 20 GiB at 117 MiB/s" in text(move_view.whole(read(disk_copy=copy)))
    assert "copied: disk root 42 % of 20 GiB at 117 MiB/s" in at_a_terminal(move_view.Fitted(read(disk_copy=copy)))
    between_cells = {"disk": "root", "size_bytes": 0, "percent": 71}
    assert "copied: disk root 71 %" in at_a_terminal(move_view.Fitted(read(disk_copy=between_cells)))


@pytest.mark.parametrize(
    ("turned", "status", "said"),
    [("refused", "error", "refused"), ("reverted", "reverted", "reverted"), ("asked", "error", "on request")],
)
def test_a_move_that_was_rolled_back_is_no_error(turned: str, status: str, said: str) -> None:
    move = read(state="undone", status=status, turned=turned, finished_at=1769853609.5)
    assert f"rolled back ({said}) after 9.5 s" in text(move_view.whole(move))
    assert ["rolled", "back", said.split()[0]] == text(move_view.listing([move])).splitlines()[1].split()[5:8]


LONG = [{"step": f"step_{n}", "way": "do", "took_s": 0.1, "outcome": "done", "detail": "x" * 200} for n in range(30)]


@pytest.mark.parametrize("height", [10, 24, 40])
@pytest.mark.parametrize("taken", [0, 5, 20, 30])
def test_how_a_move_stands_is_seen_on_any_terminal(height: int, taken: int) -> None:
    """A live display cuts off what does not fit at its end, where the sentence is that says what to do."""
    ahead = ["carry_disk", *(f"later_{n}" for n in range(30 - taken))]
    message = "no answer from host n2, which has given no sign of life since 10:30:00"
    move = read(steps=LONG[:taken], ahead=ahead, tries=2, message=message, owner=None)
    lines = at_a_terminal(move_view.Fitted(move), height=height)
    assert len(lines) < height
    assert any(line.startswith("> ") and "carry_disk" in line and "asked 2 times" in line for line in lines)
    assert "goes forward" in " ".join(lines)
    assert "sign of life since 10:30:00" in " ".join(lines)
    if taken and height > 10:
        assert any(f"step_{taken - 1} " in line for line in lines)


def test_what_fits_is_shown_whole() -> None:
    move = read()
    lines = at_a_terminal(move_view.Fitted(move), height=24)
    assert all(any(name in line for line in lines) for name in ("lock", "choose_target", "carry_disk", "await_verdict"))


@pytest.mark.parametrize(("took_s", "said"), [(0.0, "0 ms"), (0.0126, "13 ms"), (1.0, "1.0 s"), (75.04, "75.0 s")])
def test_durations(took_s: float, said: str) -> None:
    assert terminal.seconds(took_s) == said


def test_times_of_another_day_have_the_day() -> None:
    assert terminal.moment(1577934245.0) == "2020-01-02 03:04:05"
    assert terminal.moment(None) == "-"


def test_a_repair_says_what_it_is_to_do() -> None:
    agreed = [{"kind": "destroy_guest", "sentence": "destroy the guest of server a1b2 on n3"}]
    move = read(saga="repair", source=None, target=None, facts={"cell": "c1", "agreed": agreed})
    assert "It is to destroy the guest of server a1b2 on n3." in text(move_view.whole(move)).splitlines()[1]


def test_a_live_move_shows_its_transfer() -> None:
    transfer = {"memory_total": 2048, "memory_processed": 1024, "rate": 512, "prediction": "expected to end in 2 s"}
    seen = text(move_view.whole(read(saga="live_migrate", status="running", transfer=transfer)))
    assert "copied: memory 1.0 KiB of 2.0 KiB in 0 ms" in seen
    assert "prediction: expected to end in 2 s" in seen
    assert "prediction" not in text(move_view.whole(read()))
