"""What people call things by, with a played API: where a name is not found, and why that may be."""

from typing import Any

import pytest

from whimbrel.cli import names
from whimbrel.domain.errors import NotFound, Refused, Unavailable


class PlayedCloud:
    """Two servers named twin, one named web, and cells in these states. cells: None: the caller may not see them."""

    def __init__(self, cells: dict[str, str] | None) -> None:
        self._cells = cells

    def get(self, service: str, path: str) -> Any:
        assert service == "compute"
        if path == "/whimbrel/cells":
            if self._cells is None:
                raise Refused("not for you")
            return {"cells": [{"name": name, "state": state} for name, state in self._cells.items()]}
        assert path.startswith("/servers?name="), path
        return {"servers": [{"id": "1", "name": "twin"}, {"id": "2", "name": "twin"}, {"id": "3", "name": "web"}]}


def found(wanted: str, cells: dict[str, str] | None) -> Any:
    api: Any = PlayedCloud(cells)
    return names.server(api, wanted)


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
