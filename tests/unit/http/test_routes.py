"""Matching of requests with a table of routes, and the choice between actions."""

from typing import Any

import pytest

from whimbrel.api.http.call import Call, Route, action_of
from whimbrel.http.problem import Problem
from whimbrel.http.routes import RouteTable


async def nothing(call: Call) -> Any:
    return None


def route(method: str, path: str, **more: Any) -> Route:
    return Route(method, path, nothing, None, **more)


TABLE = RouteTable(
    (
        route("GET", "/things"),
        route("GET", "/things/{thing}"),
        route("PUT", "/things/{thing}", since=10),
        route("PUT", "/things/enable", until=9),
        route("GET", "/things/detail"),
        route("POST", "/things/{thing}/action", action="up"),
        route("POST", "/things/{thing}/action", action="down", since=5),
        route("GET", "/things/{thing}/parts/{part}"),
        route("DELETE", "/young/{thing}", since=5, below=405),
    ),
    no_method="The method {method} is not allowed here.",
    no_version="not in {minor}",
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
    routes, values = TABLE.find(method, path.split("/"), minor)
    assert ([one.path for one in routes], values) == ([found], params)


@pytest.mark.parametrize(
    ("method", "path", "minor", "status", "message", "allow"),
    [
        ("GET", "nothing", 1, 404, "The resource could not be found.", None),
        ("GET", "things/7/parts", 1, 404, "The resource could not be found.", None),
        ("GET", "things/7/parts/", 1, 404, "The resource could not be found.", None),
        ("PUT", "things/7", 9, 404, "not in 9", None),
        ("DELETE", "young/7", 4, 405, "not in 4", None),
        ("DELETE", "things", 1, 405, "The method DELETE is not allowed here.", "GET"),
        ("GET", "things/7/action", 1, 405, "The method GET is not allowed here.", "POST"),
        ("DELETE", "things/enable", 1, 405, "The method DELETE is not allowed here.", "GET, PUT"),
    ],
)
def test_a_request_without_a_route_is_refused(
    method: str, path: str, minor: int, status: int, message: str, allow: str | None
) -> None:
    with pytest.raises(Problem) as refused:
        TABLE.find(method, path.split("/"), minor)
    assert (refused.value.status, refused.value.message) == (status, message)
    assert refused.value.headers.get("allow") == allow


def test_without_a_sentence_a_wrong_method_is_a_path_that_does_not_exist() -> None:
    table = RouteTable((route("GET", "/things"),), no_path="nothing here")
    with pytest.raises(Problem, match="nothing here") as problem:
        table.find("DELETE", ["things"], 1)
    assert problem.value.status == 404


def test_without_a_version_the_routes_of_all_versions_are_found() -> None:
    routes, _ = TABLE.find("PUT", ["things", "enable"])
    assert [route.until for route in routes] == [9]


def test_an_action_is_found_by_the_only_key_of_the_body() -> None:
    routes, _ = TABLE.find("POST", ["things", "7", "action"], 5)
    assert action_of(routes, {"down": None}).action == "down"
    routes, _ = TABLE.find("POST", ["things", "7", "action"], 4)
    for body in ({"down": None}, {}, {"up": 1, "down": 1}, [], None, "up"):
        with pytest.raises(Problem) as refused:
            action_of(routes, body)
        assert refused.value.status == 400
