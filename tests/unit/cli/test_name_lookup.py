"""What people call things by, with a played API: where a name is not found, and why that may be."""

from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.unit.cli.test_move_view import DOCUMENT
from whimbrel.cli import name_lookup
from whimbrel.domain.errors import NotFound, Refused, Unavailable


class PlayedMoves:
    """Moves with these ids, for who looks for them by how their ids begin."""

    def __init__(self, ids: list[str]) -> None:
        self._ids = ids

    def get(self, service: str, path: str) -> Any:
        asked = dict(parse_qsl(path.removeprefix("/whimbrel/moves?")))
        assert asked["kind"] == "any"
        found = [id for id in self._ids if id.startswith(asked["id_prefix"])][: int(asked["limit"])]
        return {"moves": [DOCUMENT | {"id": id, "server_name": None, "server_id": "s"} for id in found]}


def move_found(wanted: str, ids: list[str]) -> str:
    api: Any = PlayedMoves(ids)
    return name_lookup.move_id(api, wanted)


def test_a_move_is_found_by_how_its_id_begins() -> None:
    ids = ["4300c00c-8af5-4ec5-a02d-d181fae07eeb", "4300c00d-0000-4ec5-a02d-d181fae07eeb"]
    assert move_found("4300C00c", ids) == ids[0]
    assert move_found("4300c00c-8af5-4ec5-a02d-d181fae07eee", ids).endswith("e")  # whole: the API says what it thinks
    with pytest.raises(Refused, match=r"begins with '43', give more of it: 4300c00c-8af5\S+ \(resize of s\), 4300c00d"):
        move_found("43", ids)
    for nobody in ("5", "4300c00c_", "%", ""):
        with pytest.raises(NotFound, match="whimbrel move list shows"):
            move_found(nobody, ids)


def test_of_many_moves_with_the_same_beginning_a_few_are_named() -> None:
    with pytest.raises(Refused) as refused:
        move_found("a", [f"a{n}" for n in range(9)])
    assert refused.value.reason.count("resize of s") == name_lookup.MOST_CANDIDATES
    assert refused.value.reason.endswith("and more")


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
