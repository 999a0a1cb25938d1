"""How a history looks: a line for each thing, who and why, no wider than a terminal; and how it stood."""

import io
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from rich.console import Console, RenderableType

from tests.unit.cli.test_listing import at_a_terminal
from whimbrel.api.views.histories import History
from whimbrel.cli import history_table
from whimbrel.cli.listing import INDENT
from whimbrel.domain.errors import Invalid

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()


def entry(after_s: float, kind: str, what: str, **more: Any) -> dict[str, Any]:
    return {"at": NOON + after_s, "kind": kind, "what": what, "move_kind": "resize", **more}


ENTRIES = [
    entry(0, "asked", "resize", user_id="u1", project_id="p1"),
    entry(1, "step", "choose_target", way="do", outcome="done", took_s=0.004),
    entry(1, "choice", "choose_target", summary="2 of 3 hosts fit.", chosen=["h2", "h3"]),
    entry(2, "debt", "prepare_target", way="undo", outcome="debt", took_s=1.0, detail="no answer from h2"),
    entry(3, "takeover", "lease", **{"from": "main", "to": "c2", "epoch": 4}),
    entry(4, "paid", "prepare_target", way="undo", outcome="done", took_s=0.5),
    entry(86400, "ended", "undone", outcome="refused", took_s=86400.0, detail="no answer"),
]


RAN_OUT = ["had", "run", "out", "(epoch", "4)"]


def read(**fields: Any) -> History:
    return msgspec.convert({"server_id": "s1", "project_id": "p1", "entries": ENTRIES, **fields}, History)


def lines(what: RenderableType, width: int = 120) -> list[str]:
    written = Console(file=io.StringIO(), width=width, highlight=False)
    written.print(what)
    assert isinstance(written.file, io.StringIO)
    return [line.rstrip() for line in written.file.getvalue().splitlines()]


def test_the_requester_is_shown_by_name_where_it_is_known() -> None:
    ada = {"user_id": "u1", "user_name": "[b]ada", "project_id": "p1", "project_name": "engines"}
    named = [
        entry(0, "asked", "resize", **ada),
        entry(1, "asked", "reboot", user_id="u2", project_id="p2", project_name="looms"),
        entry(2, "verdict", "confirm", user_id="u2", project_id="p3"),
    ]
    seen = [" ".join(line.split()) for line in lines(history_table.whole(read(entries=named)))]
    assert seen[2:] == [
        "12:00:00.000 resize user [b]ada",
        "12:00:01.000 reboot user u2 of project looms",
        "12:00:02.000 confirm user u2 of project p3",
    ]


def test_a_note_of_what_was_asked_is_shown() -> None:
    noted = [entry(0, "asked", "create", user_id="u1", project_id="p1", detail="user_data: not delivered")]
    assert lines(history_table.whole(read(entries=noted)))[2].endswith("user u1; user_data: not delivered")


def test_each_thing_is_a_line_with_who_and_why() -> None:
    seen = [line.split() for line in lines(history_table.whole(read()))]
    assert seen == [
        ["when", "what", "took", "outcome", "who,", "why"],
        ["2026-03-01"],
        ["12:00:00.000", "resize", "user", "u1"],
        ["12:00:01.000", "v", "choose_target", "4", "ms", "done"],
        ["12:00:01.000", "chose", "h2,", "h3:", "2", "of", "3", "hosts", "fit."],
        ["12:00:02.000", "^", "prepare_target", "1.0", "s", "owed", "no", "answer", "from", "h2"],
        [*["12:00:03.000", "taken", "over", "by", "c2:", "the", "lease", "of", "main"], *RAN_OUT],
        ["12:00:04.000", "^", "prepare_target", "500", "ms", "paid"],
        ["2026-03-02"],
        ["12:00:00.000", "resize", "is", "undone", "86400.0", "s", "refused", "no", "answer"],
    ]


def test_what_a_repair_is_to_do_is_shown_with_its_sentence() -> None:
    agreed = entry(0, "agreed", "bind_port", detail="bind port p to h2")
    seen = lines(history_table.whole(read(entries=[agreed])))
    assert seen[-1].split() == ["12:00:00.000", "is", "to", "bind_port", "bind", "port", "p", "to", "h2"]


def test_on_a_narrow_terminal_who_and_why_have_a_line_of_their_own() -> None:
    seen = at_a_terminal(history_table.whole(read()))
    assert [line.split() for line in seen[5:9]] == [
        ["12:00:01.000", "chose"],
        ["h2,", "h3:", "2", "of", "3", "hosts", "fit."],
        ["12:00:02.000", "^", "prepare_target", "1.0", "s", "owed"],
        ["no", "answer", "from", "h2"],
    ]
    assert {len(line) - len(line.lstrip()) for line in seen} == {0, INDENT}


def test_an_owner_sees_a_take_over_without_names() -> None:
    [line] = [
        line for line in lines(history_table.whole(read(entries=[entry(0, "takeover", "lease")]))) if "over" in line
    ]
    assert line.split() == ["12:00:00.000", "taken", "over", "another", "conductor", "goes", "on", "with", "it"]


def test_how_it_stood() -> None:
    state = {"vm_state": "resized", "flavor": "large", "host": "h2", "cell": "c1", "availability_zone": "north"}
    run = {"move_id": "m1", "move_kind": "resize", "after_step": "switch_home", "way": "do"}
    seen = lines(history_table.whole(read(at=NOON, state={**state, "under_way": [run]})))
    assert seen[0] == "server s1 at 2026-03-01 12:00:00 UTC"
    assert [line.split(maxsplit=1) for line in seen if line][1:] == [
        ["vm_state", "resized"],
        ["flavor", "large"],
        ["host", "h2 (cell c1)"],
        ["zone", "north"],
        ["under", "way  resize (move m1), after switch_home"],
        ["The", "last that had happened: resize is undone, at 2026-03-02 12:00:00."],
    ]
    assert lines(history_table.whole(read(at=NOON, state=None)))[1] == "It was not there yet."
    unknown = history_table.whole(read(at=NOON, state={**state, "vm_state": None}))
    assert any("an administrator set it" in line for line in lines(unknown))


def test_a_time_is_read_as_people_write_it() -> None:
    assert history_table.time_asked("2026-03-01T12:00:00") == "2026-03-01T12:00:00+00:00"
    assert history_table.time_asked("2026-03-01 12:00:00+02:00") == "2026-03-01T10:00:00+00:00"
    assert history_table.time_asked("20260301T120000") == "2026-03-01T12:00:00+00:00"
    assert history_table.time_asked("10:30:00-05:00").endswith("T15:30:00+00:00")
    today = datetime.now(UTC).date()
    assert history_table.time_asked("10:30:00") in (
        f"{today}T10:30:00+00:00",
        f"{datetime.now(UTC).date()}T10:30:00+00:00",
    )


@pytest.mark.parametrize("text", ["yesterday", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_what_is_no_time_or_far_beyond_all_is_said_to_be(text: str) -> None:
    with pytest.raises(Invalid, match="is no time"):
        history_table.time_asked(text)


def test_the_requester_from_another_project_is_shown_with_it() -> None:
    stranger = entry(0, "asked", "migrate", user_id="u2", project_id="p2")
    assert lines(history_table.whole(read(entries=[stranger])))[-1].endswith("user u2 of project p2")
