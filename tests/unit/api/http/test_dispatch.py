"""Finding the line of the table that a request means."""

from typing import Any

import pytest

from whimbrel.api.http.call import Call
from whimbrel.api.http.dispatch import Dispatcher, Route, action_of
from whimbrel.api.http.problems import Problem


async def nothing(call: Call) -> Any:
    return None


def route(method: str, path: str, **more: Any) -> Route:
    return Route(method, path, nothing, None, **more)


TABLE = (
    route("GET", "/things"),
    route("GET", "/things/{thing}"),
    route("PUT", "/things/{thing}", since=10),
    route("PUT", "/things/enable", until=9),
    route("GET", "/things/detail"),
    route("POST", "/things/{thing}/action", action="up"),
    route("POST", "/things/{thing}/action", action="down", since=5),
    route("GET", "/things/{thing}/parts/{part}"),
)


@pytest.mark.parametrize(
    ("method", "path", "minor", "found", "params"),
    [
        ("GET", "things", 1, "/things", {}),
        ("GET", "things/detail", 1, "/things/detail", {}),
        ("GET", "things/7", 1, "/things/{thing}", {"thing": "7"}),
        ("PUT", "things/enable", 9, "/things/enable", {}),
        ("PUT", "things/enable", 10, "/things/{thing}", {"thing": "enable"}),
        ("PUT", "things/detail", 10, "/things/{thing}", {"thing": "detail"}),
        ("GET", "things/7/parts/8", 1, "/things/{thing}/parts/{part}", {"thing": "7", "part": "8"}),
        ("GET", "things/detail/parts/8", 1, "/things/{thing}/parts/{part}", {"thing": "detail", "part": "8"}),
    ],
)
def test_a_path_finds_its_line(method: str, path: str, minor: int, found: str, params: dict[str, str]) -> None:
    routes, values = Dispatcher(TABLE).find(method, path.split("/"), minor)
    assert ([one.path for one in routes], values) == ([found], params)


@pytest.mark.parametrize(
    ("method", "path", "minor", "status"),
    [
        ("GET", "nothing", 1, 404),
        ("GET", "things/7/parts", 1, 404),
        ("GET", "things/7/parts/", 1, 404),
        ("PUT", "things/7", 9, 404),
        ("DELETE", "things", 1, 405),
        ("GET", "things/7/action", 1, 405),
    ],
)
def test_what_is_in_no_line_is_404_or_405(method: str, path: str, minor: int, status: int) -> None:
    with pytest.raises(Problem) as refused:
        Dispatcher(TABLE).find(method, path.split("/"), minor)
    assert refused.value.status == status


def test_an_action_is_found_by_the_only_key_of_the_body() -> None:
    routes, _ = Dispatcher(TABLE).find("POST", ["things", "7", "action"], 5)
    assert action_of(routes, {"down": None}).action == "down"
    routes, _ = Dispatcher(TABLE).find("POST", ["things", "7", "action"], 4)
    for body in ({"down": None}, {}, {"up": 1, "down": 1}, [], None, "up"):
        with pytest.raises(Problem) as refused:
            action_of(routes, body)
        assert refused.value.status == 400
