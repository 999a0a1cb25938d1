"""What people call things by, with a played API: where a name is not found, and why that may be."""

from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.unit.cli.test_move_view import DOCUMENT
from whimbrel.cli import name_lookup
from whimbrel.domain.errors import NotFound, Refused, Unavailable


class PlayedMoves:
    """Moves (id, id of the server), the newest first, and servers (id, name)."""

    def __init__(self, moves: list[tuple[str, str]], servers: dict[str, str]) -> None:
        self._moves = moves
        self._servers = servers

    def get(self, service: str, path: str) -> Any:
        what, _, query = path.partition("?")
        asked = dict(parse_qsl(query))
        if what == "/servers":
            return {"servers": [{"id": id, "name": name} for id, name in self._servers.items()]}
        if what != "/whimbrel/moves":
            if what.removeprefix("/whimbrel/moves/") in dict(self._moves):
                return {}
            raise NotFound("no such move")
        if "server" in asked:
            found = [move for move in self._moves if move[1] == asked["server"]]
        else:
            assert asked["kind"] == "any"
            found = [move for move in self._moves if move[0].startswith(asked["id_prefix"])]
        return {"moves": [self._row(*move) for move in found[: int(asked["limit"])]]}

    def _row(self, id: str, server: str) -> Any:
        return DOCUMENT | {"id": id, "server_name": self._servers.get(server), "server_id": server}


def move_found(wanted: str, moves: list[tuple[str, str]], **servers: str) -> str:
    api: Any = PlayedMoves(moves, servers)
    return name_lookup.move_id(api, wanted)


FIRST, SECOND = "4300c00c-8af5-4ec5-a02d-d181fae07eeb", "4300c00d-0000-4ec5-a02d-d181fae07eeb"
SERVER = "aaaaaaaa-0000-4ec5-a02d-d181fae07eeb"


def test_a_move_is_found_by_how_its_id_begins() -> None:
    moves = [(FIRST, "s"), (SECOND, "s")]
    assert move_found("4300C00c", moves) == FIRST
    assert move_found(FIRST, moves) == FIRST
    with pytest.raises(Refused, match=r"match '43'.* the id of one: 4300c00c-8af5\S+ \(resize of s\), 4300c00d"):
        move_found("43", moves)
    for nobody in ("5", "4300c00c_", "%", ""):
        with pytest.raises(NotFound, match="whimbrel move list shows"):
            move_found(nobody, moves)


def test_of_many_moves_with_the_same_beginning_a_few_are_named() -> None:
    with pytest.raises(Refused) as refused:
        move_found("a", [(f"a{n}", "s") for n in range(9)])
    assert refused.value.reason.count("resize of s") == name_lookup.MOST_CANDIDATES
    assert refused.value.reason.endswith("and more")


def test_a_server_stands_for_its_newest_move() -> None:
    moves = [(SECOND, "s1"), (FIRST, "s1"), ("9", SERVER)]
    assert move_found("db", moves, s1="db", s2="db2") == SECOND
    assert move_found(SERVER, moves) == "9"


def test_a_name_that_is_also_the_beginning_of_an_id_is_ambiguous() -> None:
    with pytest.raises(Refused, match=rf"match '43'.*: {FIRST} \(resize of web\), 99 \(resize of 43\)"):
        move_found("43", [(FIRST, "s1"), ("99", "s2")], s1="web", s2="43")


def test_moves_of_servers_with_one_name_are_listed() -> None:
    with pytest.raises(Refused, match=r"match 'twin'.*: 1 \(resize of twin\), 2 \(resize of twin\)"):
        move_found("twin", [("1", "s1"), ("2", "s2")], s1="twin", s2="twin")


def test_a_server_that_has_not_moved_is_named() -> None:
    with pytest.raises(NotFound, match="no move web, and a server of this id or name has not moved"):
        move_found("web", [(FIRST, "s1")], s1="db", s2="web")
    with pytest.raises(NotFound, match=f"no move {SERVER}"):
        move_found(SERVER, [(FIRST, "s1")])


class PlayedCloud:
    """Two servers named twin, one named web, and cells in these states. cells: None: the caller may not see them."""

    def __init__(self, cells: dict[str, str] | None) -> None:
        self._cells = cells

    def get(self, service: str, path: str) -> Any:
        assert service == "compute"
        if path == "/whimbrel/cells":
            if self._cells is None:
                raise Refused("not for you")
            cells = [{"name": name, "state": state, "enabled": True} for name, state in self._cells.items()]
            return {"cells": cells, "cell0": {"servers": 0}}
        assert path.startswith("/servers?name="), path
        return {"servers": [{"id": "1", "name": "twin"}, {"id": "2", "name": "twin"}, {"id": "3", "name": "web"}]}


def found(wanted: str, cells: dict[str, str] | None) -> Any:
    api: Any = PlayedCloud(cells)
    return name_lookup.server(api, wanted)


def test_who_alone_has_a_name_is_found_by_it() -> None:
    assert found("web", {"one": "down"}) == {"id": "3", "name": "web"}
    with pytest.raises(Refused, match="2 servers are named twin: name one by its id: 1, 2"):
        found("twin", {"one": "up"})


@pytest.mark.parametrize("cells", [{"one": "up", "two": "up"}, None], ids=["an administrator", "somebody else"])
def test_a_name_that_nobody_has_is_not_found(cells: dict[str, str] | None) -> None:
    with pytest.raises(NotFound, match="there is no server db"):
        found("db", cells)


def test_while_a_cell_is_down_nobody_knows_the_names_of_its_servers() -> None:
    with pytest.raises(Unavailable, match="names of servers in cell two are not known while it is down: name it by"):
        found("db", {"one": "up", "two": "down"})


def test_a_host_that_there_is_not_is_refused_with_what_to_do() -> None:
    with pytest.raises(NotFound, match=r"no host n9 \(HTTP 404\): whimbrel host list shows"), name_lookup.of_hosts():
        raise NotFound("no host n9 (HTTP 404)")
