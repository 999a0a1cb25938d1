import ast
from pathlib import Path

import pytest

from tools import retired_words

USE = {"wish": "request", "let_go": "release"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wish", ["wish"]),
        ("ZoneWish", ["wish"]),
        ("_wish_of", ["wish"]),
        ("let_go_ports", ["let_go"]),
        ("wishing", []),
        ("let", []),
    ],
)
def test_words_are_found_as_parts_of_names(name: str, words: list[str]) -> None:
    assert retired_words.retired_in(name, USE) == words


@pytest.mark.parametrize(
    "source",
    [
        "wish = 1",
        "def wish(): ...",
        "class Wish: ...",
        "def f(wish): ...",
        "a.wish = 1",
        "wish: int",
        "for wish in x: ...",
    ],
)
def test_definitions_of_every_kind_are_read(source: str) -> None:
    assert {name.lower() for name, _ in retired_words.defined(ast.parse(source))} & {"wish"}


def test_names_that_are_only_used_are_not_definitions() -> None:
    assert list(retired_words.defined(ast.parse("print(wish, a.wish)"))) == []


def test_a_finding_says_where_and_what_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retired_words, "ROOT", tmp_path)
    file = tmp_path / "wish.py"
    file.write_text("x = 1\nlet_go_ports = 2\nlet_go = 3\n")
    assert list(retired_words.findings(file, USE, {"let_go_ports": "step"})) == [
        "wish.py:1: wish: use request instead of wish",
        "wish.py:3: let_go: use release instead of let_go",
    ]
