"""`whimbrel maintenance`: its words, and how a maintenance is named."""

from typing import Any

import msgspec
import pytest
from rich.console import Console

from tests.unit.cli.test_listing import at_a_terminal
from whimbrel.api.views.maintenances import MaintenanceRow, MaintenanceRows, MaintenanceState
from whimbrel.cli.maintenance import chosen, headline, listed, next_command, shown, watch_lines, window_words
from whimbrel.domain.errors import NotFound, Refused

NUMBERS = {"total": 120, "moved": 37, "moving": 4, "planned": 76, "failed": 0, "left": 0, "stays": 3}
SERVER = {"server_id": "u1", "name": "db", "source": "h1", "kind": None, "downtime": False, "target": None,
          "server_group_id": None, "state": "stays", "reason": "No valid host was found.", "move_id": None, "tries": 0,
          "started_at": None, "finished_at": None}  # fmt: skip


def fields(**more: Any) -> dict[str, Any]:
    budgets = {"at_once": 8, "host_at_once": 4, "group_at_once": 1, "most_failed": 3}
    plain = {"id": "aa11", "name": "disks", "target": "host h1", "state": "running", "message": None, "hosts": ["h1"],
             "allow_downtime": False, "on_drift": "replan", "leaves_cell": False, "budgets": budgets,
             "progress": {**NUMBERS, "remaining_s": 840.0}, "created_at": 1.0, "updated_at": 1.0, "started_at": None,
             "finished_at": None}  # fmt: skip
    return plain | more


def row(**more: Any) -> MaintenanceRow:
    return msgspec.convert(fields(**more), MaintenanceRow)


@pytest.mark.parametrize(
    ("remaining_s", "words"),
    [
        (840.0, "37 of 120 moved, 4 under way, 3 cannot move, about 14 minutes left"),
        (30.2, "37 of 120 moved, 4 under way, 3 cannot move, about 30 seconds left"),
        (None, "37 of 120 moved, 4 under way, 3 cannot move"),
    ],
)
def test_the_progress_is_a_sentence(remaining_s: float | None, words: str) -> None:
    assert row(progress={**NUMBERS, "remaining_s": remaining_s}).progress.words == words


def test_a_plan_for_hosts_without_servers_says_so_and_what_its_start_does() -> None:
    nothing = dict.fromkeys(NUMBERS, 0)
    empty = row(state="planned", progress={**nothing, "remaining_s": None})
    assert empty.progress.words == "no servers to move"
    assert "whimbrel maintenance start aa11\nIt only disables the hosts" in next_command(empty)
    assert "only disables" not in next_command(row(state="planned"))


@pytest.mark.parametrize("goal", ["balance", "pack"])
def test_a_balance_without_moves_does_not_say_that_it_disables_hosts_without_servers(goal: str) -> None:
    nothing = row(state="planned", goal=goal, progress={**dict.fromkeys(NUMBERS, 0), "remaining_s": None})
    assert next_command(nothing) == "\nThe plan has no moves: there is nothing to execute."


def test_the_next_command_is_on_a_line_of_its_own() -> None:
    id_ = "57705834-5ce0-412d-b8d1-9588d8dcec76"
    assert next_command(row(state="planned", id=id_)).splitlines()[-1] == f"  whimbrel maintenance start {id_}"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, None),
        ({"windows": ["22:00-04:00"], "opens_at": 3600.0, "time_zone": "Europe/Berlin"},
         "no move starts before 1970-01-01 01:00:00 UTC: 22:00-04:00 Europe/Berlin"),
        ({"windows": ["mon 22:00-04:00", "12:00-13:00"], "closes_at": 3600.0},
         "moves start until 1970-01-01 01:00:00 UTC: mon 22:00-04:00, 12:00-13:00 UTC"),
        ({"windows": ["00:00-12:00", "12:00-24:00"]}, "windows: 00:00-12:00, 12:00-24:00 UTC"),
        ({"windows": ["22:00-04:00"], "state": "done", "finished_at": 5.0}, None),
        ({"windows": ["22:00-04:00"], "state": "aborting", "opens_at": 3600.0}, None),
        ({"windows": ["22:00-04:00"], "state": "paused", "closes_at": 3600.0}, None),
    ],
)  # fmt: skip
def test_the_windows_are_a_sentence(more: dict[str, Any], words: str | None) -> None:
    assert window_words(row(**more)) == words


def test_a_maintenance_is_named_by_id_name_or_prefix() -> None:
    rows = MaintenanceRows([row(), row(id="ab22", name="fans")])
    assert [chosen(rows, wanted) for wanted in ("aa11", "fans", "ab")] == ["aa11", "ab22", "ab22"]
    with pytest.raises(Refused, match=r"2 maintenances are called a: .* aa11 \(disks, running\), ab22 \(fans"):
        chosen(rows, "a")
    for nobody in ("x", ""):
        with pytest.raises(NotFound, match=f"no maintenance {nobody}"):
            chosen(rows, nobody)


def test_each_server_is_shown_with_its_reason() -> None:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(shown(msgspec.convert(fields(servers=[SERVER], message="why"), MaintenanceState)))
    text = console.export_text()
    assert "No valid host was found." in text
    assert "disks: running, 37 of 120 moved" in text
    assert "why" in text


def state(*servers: dict[str, Any], **more: Any) -> MaintenanceState:
    return msgspec.convert(fields(servers=list(servers), **more), MaintenanceState)


def test_the_headline_says_why_servers_cannot_move_or_failed() -> None:
    failed = SERVER | {"state": "failed", "reason": "n2 refused it"}
    others = [SERVER | {"reason": f"reason {number}"} for number in range(9)]
    lines = str(
        headline(state(SERVER, failed, SERVER | {"state": "moved"}, SERVER, failed, SERVER, *others))
    ).splitlines()
    assert lines[1:3] == ["3 cannot move: No valid host was found.", "2 failed: n2 refused it"]
    assert len(lines) == 6  # at most five reasons


def test_what_is_approved_is_shown_until_it_is_over() -> None:
    budgets = {"at_once": 1, "host_at_once": 4, "group_at_once": 1, "aggregate_at_once": 2, "most_failed": 1}
    limits = "1 move at once, 4 per host, 1 per server group, 2 per aggregate; more than 1 failed move pauses it"
    assert row(budgets=budgets).budgets.words == limits
    assert row().terms == (
        "8 moves at once, 4 per host, 1 per server group; more than 3 failed moves pause it;"
        " downtime is not allowed; a server that cannot move as planned is planned anew"
    )
    assert row(allow_downtime=True, on_drift="pause").terms.endswith(
        "is allowed; a server that cannot move as planned pauses it"
    )
    assert "8 moves at once" in " ".join(at_a_terminal(shown(state(SERVER))))
    assert "8 moves at once" not in " ".join(at_a_terminal(shown(state(SERVER, state="done", finished_at=2.0))))


def test_a_pipe_gets_the_progress_when_it_changes_and_each_reason_once() -> None:
    def at(moved: int, remaining_s: float | None, state_: str = "running") -> MaintenanceState:
        return state(SERVER, state=state_, progress={**NUMBERS, "moved": moved, "remaining_s": remaining_s})

    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    seen = watch_lines(console, iter([at(36, 900.0), at(36, 850.0), at(37, 840.0), at(116, None, "done")]))
    assert seen.state == "done"
    assert [line.rstrip() for line in console.export_text().splitlines()][:4] == [
        "disks: running, 36 of 120 moved, 4 under way, 3 cannot move, about 15 minutes left",
        "1 cannot move: No valid host was found.",
        "disks: running, 37 of 120 moved, 4 under way, 3 cannot move, about 14 minutes left",
        "disks: done, 116 of 120 moved, 4 under way, 3 cannot move",
    ]


ID = "4300c00c-8af5-4ec5-a02d-d181fae07eeb"


def test_nothing_is_broken_on_80_columns() -> None:
    rows = [row(id=ID, name="new disks in the whole of rack 4"), row(id=ID.replace("c00c", "c00d"), name="fans")]
    lines = at_a_terminal(listed(rows))
    assert [line.split()[0] for line in lines] == ["id", "4300c00c", "37", "4300c00d", "37"]
    assert lines[2].strip() == "37 of 120 moved, 4 under way, 3 cannot move, about 14 minutes left"
    assert at_a_terminal(listed([])) == ["no maintenances"]
    moves = {"server_id": ID, "move_id": ID, "name": "a database with a long name", "source": "compute-rack12-07",
             "target": "compute-rack13-11", "kind": "cold", "downtime": True, "state": "moving"}  # fmt: skip
    lines = at_a_terminal(shown(msgspec.convert(fields(servers=[SERVER | moves, SERVER]), MaintenanceState)))
    assert lines[1].split()[-1] == "4300c00c"
    assert "cold, with downtime" in lines[1]
    assert lines[2].strip() == lines[4].strip() == "No valid host was found."


def share(memory: float, servers: int, disk: float | None = None) -> dict[str, Any]:
    return {"vcpus": 50.0, "memory": memory, "disk": disk, "servers": servers}


def goal(name: str, **more: Any) -> MaintenanceState:
    use = [
        {"host": "n1", "before": share(82.4, 5), "after": share(55.0, 3), "takes_part": True, "reason": None},
        {"host": "n2", "before": share(31.0, 1), "after": share(46.6, 0), "takes_part": True, "reason": "too full"},
        {"host": "n3", "before": share(1.0, 1), "after": share(1.0, 1), "takes_part": False, "reason": "it is down"},
    ]
    moves = SERVER | {"purpose": "n1 has 82 % of its memory used, n2 31 %", "kind": "live", "reason": None}
    return msgspec.convert(fields(goal=name, use=use, servers=[moves], **more), MaintenanceState)


def test_the_use_of_each_host_before_and_after_is_shown_with_why_each_server_moves() -> None:
    lines = at_a_terminal(shown(goal("balance", spread=10, is_reached=True)))
    assert lines[1].endswith("n1 has 82 % of its memory used, n2 31 %")
    head = next(number for number, line in enumerate(lines) if line.startswith("host"))
    assert lines[head].split("  ")[0] == "host"
    assert lines[head + 1].split() == ["n1", "50", "82", "to", "55", "-", "5", "to", "3"]
    assert [line.split()[0] for line in lines[head + 2 : head + 4]] == ["n2", "n3"]
    assert lines[head + 2].endswith("too full")
    assert "differ by 51 % at most, and by 8 % after the plan; asked for: 10 %" in " ".join(lines)
    assert "pack: 1 of 3 hosts become empty by the plan: n2" in at_a_terminal(shown(goal("pack")))


@pytest.mark.parametrize(
    ("more", "succeeds"),
    [
        ({"is_reached": True}, True),
        ({"is_reached": False}, False),
        ({"progress": {**NUMBERS, "stays": 0, "remaining_s": None}}, True),
        ({}, False),
        ({"state": "paused", "is_reached": True}, False),
    ],
)
def test_it_has_succeeded_if_the_goal_is_reached(more: dict[str, Any], succeeds: bool) -> None:
    none_left = {"progress": {**NUMBERS, "stays": 0, "remaining_s": None}} if "is_reached" in more else {}
    found = row(**{"state": "done", **none_left, **more})
    assert found.has_succeeded == succeeds
