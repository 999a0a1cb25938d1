"""The table of URLs: every line can be reached, and a schema is there wherever a body is wanted."""

import pytest

from whimbrel.http.problem import Problem
from whimbrel.http.schema import is_uuid
from whimbrel.placement_api import resource_classes
from whimbrel.placement_api.app import ROUTE_TABLE
from whimbrel.placement_api.dispatch import Route
from whimbrel.placement_api.microversions import LAST
from whimbrel.placement_api.routes import ROUTES


def find(method: str, path: str, minor: int) -> tuple[Route, dict[str, str]]:
    [route], names = ROUTE_TABLE.find(method, path.removeprefix("/").split("/"), minor)
    return route, names


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path} {route.since}")
def test_every_line_is_found_where_it_is_there(route: Route) -> None:
    newest = LAST if route.until is None else route.until
    for minor in (route.since, newest):
        assert find(route.method, route.path, minor)[0] is route
        assert route.body is None or route.body.at(minor) is not None


@pytest.mark.parametrize(("path", "method", "minor"), [("/traits", "GET", 5), ("/resource_classes/{name}", "PUT", 1)])
def test_below_its_first_version_a_line_is_not_there(path: str, method: str, minor: int) -> None:
    with pytest.raises(Problem) as found:
        find(method, path, minor)
    assert found.value.status == 404


def test_put_of_a_resource_class_changed_its_meaning() -> None:
    path = "/resource_classes/{name}"
    assert find("PUT", path, 6)[0].handler is resource_classes.rename
    assert find("PUT", path, 7)[0].handler is resource_classes.put


def test_names_in_a_path() -> None:
    route, names = find("GET", "/resource_providers/one/inventories/two", 39)
    assert route.path == "/resource_providers/{uuid}/inventories/{name}"
    assert names == {"uuid": "one", "name": "two"}


@pytest.mark.parametrize("path", ["", "/", "//", "/resource_providers//", "/resource_providers//inventories", "/x"])
def test_no_such_path(path: str) -> None:
    with pytest.raises(Problem) as found:
        find("GET", path, 39)
    assert found.value.status == 404


def test_uuids_with_and_without_dashes() -> None:
    assert is_uuid("11111111-0000-4000-8000-000000000001")
    assert is_uuid("11111111000040008000000000000001")
    assert not is_uuid("{11111111-0000-4000-8000-000000000001}")
    assert not is_uuid("x")
