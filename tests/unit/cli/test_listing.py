"""Lists on terminals of any width: nothing is broken over lines."""

import pytest
from rich.console import Console, RenderableType

from whimbrel.cli import terminal
from whimbrel.cli.listing import Column, Listing
from whimbrel.domain.id_prefixes import short_ids

IDS = ["4300c00c-8af5-4ec5-a02d-d181fae07eeb", "4300c00d-0000-4ec5-a02d-d181fae07eeb"]
COLUMNS = (Column("id", "id"), Column("name", "name"), Column("standing for", narrow="for"), Column("begun", "more"),
           Column("why", "reason"))  # fmt: skip


def at_a_terminal(what: RenderableType, width: int = 80, height: int = 24) -> list[str]:
    """Return the lines on a terminal; none is longer than its width."""
    console = Console(width=width, height=height, force_terminal=True, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(what)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert max(map(len, lines)) <= width
    return lines


def listing(name: str = "db", why: str | None = None) -> Listing:
    return Listing(COLUMNS, [(IDS[0], name, "5 min", "10:00:00", why), (IDS[1], None, "1 h", "11:00:00", None)])


def test_what_fits_is_a_table() -> None:
    assert at_a_terminal(listing()) == [
        "id                                    name  standing for  begun     why",
        f"{IDS[0]}  db    5 min         10:00:00",
        f"{IDS[1]}  -     1 h           11:00:00",
    ]


def test_first_the_reasons_get_lines_of_their_own() -> None:
    assert at_a_terminal(listing(why="no answer from host n2"))[1:] == [
        f"{IDS[0]}  db    5 min         10:00:00",
        "    no answer from host n2",
        f"{IDS[1]}  -     1 h           11:00:00",
    ]


def test_then_ids_are_shortened_and_names_cut() -> None:
    assert at_a_terminal(listing("a name of 24 characters", "no answer"), 40) == [
        "id        name                     for",
        "4300c00c  a name of 24 characters  5 min",
        "    no answer",
        "4300c00d  -                        1 h",
    ]
    assert at_a_terminal(listing("a name of 24 characters"), 28)[1] == "4300c00c  a name of …  5 min"


def test_in_a_pipe_each_object_is_one_line_however_long() -> None:
    console = terminal.console()
    with console.capture() as captured:
        console.print(listing("n" * 200, "no\nanswer " * 20))
    _, first, second = captured.get().splitlines()
    assert first.startswith(IDS[0])
    assert "n" * 200 in first
    assert first.rstrip().endswith("no answer")
    assert second.startswith(IDS[1])


def test_an_empty_list_says_so() -> None:
    assert at_a_terminal(Listing(COLUMNS, [], none="no moves")) == ["no moves"]


@pytest.mark.parametrize(
    ("ids", "short"),
    [
        (IDS, ["4300c00c", "4300c00d"]),
        ([IDS[0], IDS[0].replace("8af5", "8af6")], ["4300c00c-8af5", "4300c00c-8af6"]),
        ([IDS[0], IDS[0]], ["4300c00c", "4300c00c"]),
        ([], []),
    ],
)
def test_short_ids_tell_each_from_the_others(ids: list[str], short: list[str]) -> None:
    found = short_ids(ids)
    assert [found[id] for id in ids] == short
