"""How cells and what came of emptying one look on a terminal."""

from tests.unit.cli.test_heal import lines
from whimbrel.api.views.cells import Cell, Cells, Unplaced
from whimbrel.cli import cell, drain
from whimbrel.cli.drain import LeavingServer, Outcome


def test_cells_are_shown_with_whether_they_take_servers_and_answer() -> None:
    cells = [
        Cell(name="one", enabled=True, state="up", database="sqlite", hosts=["n1", "n2"], hosts_up=1, servers=7),
        Cell(
            name="two",
            enabled=False,
            disabled_reason="old",
            state="up",
            database="postgresql",
            physnets=["back", "front"],
            storage=[],
        ),
        Cell(name="three", enabled=False, state="down", problem="it is away", servers=3),
    ]
    assert lines(cell.shown(Cells(cells, Unplaced(2)))) == [
        "cell   state           servers  hosts      database         reaches",
        "one    up              7        1 of 2 up  sqlite           all",
        "two    up, disabled    0        0 of 0 up  postgresql       network back, front; storage none  old",
        "three  down, disabled  3        -          -                all                                it is away",
        "cell0                  2        -          the directory's                                     servers that found no host",  # noqa: E501
    ]


def test_a_new_cell_is_reported_with_what_to_do_next() -> None:
    up = Cell(name="two", enabled=True, state="up")
    assert "whimbrel host invite NAME --cell two" in cell.sentence_of_new(up)
    down = Cell(name="two", enabled=True, state="down", problem="it is away")
    assert "recorded, but it is down: it is away." in cell.sentence_of_new(down)


def test_what_a_drain_came_to_is_said_with_who_is_left_and_why() -> None:
    gone, stays = (
        LeavingServer(id="1", name="a", host="n1"),
        LeavingServer(id="2", name="b", host="m1", reason="it is locked"),
    )
    assert lines(drain.summary(Outcome(cell="two", moved=[gone]))) == ["cell two: 1 server moved away; none is left"]
    assert lines(drain.summary(Outcome(cell="two", moved=[gone], waiting=[gone], left=[stays]))) == [
        "cell two: 1 server moved away; arrived elsewhere, and not yet confirmed: 1; left: 1",
        "server  id  host  why it is left",
        "b       2   m1    it is locked",
    ]
