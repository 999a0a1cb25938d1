"""What requests may have: it changes at the versions at which it does in Nova, and its edges are Nova's."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.api import nova_facts
from tools.api_table import Line, table
from whimbrel.api.http.call import Route
from whimbrel.api.schemas.servers import LIST
from whimbrel.http.problem import Problem

QUERIES, BODIES, ANSWERS = nova_facts.requests("query"), nova_facts.requests("body"), nova_facts.answers()


def compared() -> list[Line]:
    """Return the routes of Nova that are served here, without the alias for servers."""
    return [
        line
        for line in table()
        if any(route.refuses is None for route in line.routes) and not line.nova.path.startswith("/os-volumes_boot")
    ]


def body_at(routes: list[Route], minor: int) -> Any:
    return [route.body.at(minor) for route in routes if route.body]


def query_at(routes: list[Route], minor: int) -> Any:
    return [(route.query.keys_at(minor), route.query.is_strict(minor)) for route in routes if route.reads_query]


def changes_of(line: Line, at: Callable[[list[Route], int], Any]) -> Iterator[int]:
    for minor in line.nova.minors[1:]:
        before, now = ([route for route in line.routes if route.serves(each)] for each in (minor - 1, minor))
        if at(before, minor - 1) != at(now, minor):
            yield minor


def test_the_facts_are_of_routes_that_nova_has() -> None:
    known = {line.nova.key: line.nova.minors for line in table()}
    for facts in (QUERIES, BODIES, ANSWERS):
        assert facts
        for key, minors in facts.items():
            assert set(minors) <= set(known[key][1:]), key


@pytest.mark.parametrize(("at", "facts"), [(body_at, BODIES), (query_at, QUERIES)], ids=["bodies", "queries"])
def test_requests_change_at_the_versions_at_which_they_do_in_nova(at: Any, facts: Mapping[Any, list[int]]) -> None:
    ours = {line.nova.key: list(changes_of(line, at)) for line in compared()}
    assert ours == {key: facts.get(key, []) for key in ours}


# Edges

UUID = "f2d7fa0c-8b1a-4b0c-9c1c-3b7f0d5e9a11"
SERVER = {"name": "s", "flavorRef": "1"}
FLAVOR = {"name": "f", "ram": 1, "vcpus": 1, "disk": 1}
VOLUME = {"volumeId": UUID}
RULE = {"parent_group_id": UUID.replace("-", "")}


def wrapped(key: str, *parts: Mapping[str, Any], **more: Any) -> Any:
    return {key: {name: value for part in (*parts, more) for name, value in part.items()}}


@pytest.mark.parametrize(
    ("method", "path", "minor", "body"),
    [
        ("POST", "/flavors", 1, wrapped("flavor", FLAVOR, ram="2147483647", swap="0000000000007")),
        ("POST", "/flavors", 1, wrapped("flavor", FLAVOR, rxtx_factor="2147483648.25")),
        ("PUT", "/os-quota-sets/{}", 57, wrapped("quota_set", cores="2147483647", ram="-1")),
        ("POST", "/os-server-groups", 64, wrapped("server_group", name="g", policy="affinity", rules={})),
        ("POST", "/servers", 1, wrapped("server", SERVER, imageRef="")),
        ("PUT", "/servers/{}/tags", 26, {"tags": ["a\tb"]}),
        ("POST", "/servers/{}/os-volume_attachments", 1, wrapped("volumeAttachment", VOLUME, device="/dev/xvdb")),
        ("POST", "/os-security-group-rules", 1, wrapped("security_group_rule", RULE)),
    ],
)
def test_what_nova_takes_is_taken(method: str, path: str, minor: int, body: Any) -> None:
    check(method, path, minor, body)


@pytest.mark.parametrize(
    ("method", "path", "minor", "body"),
    [
        ("POST", "/flavors", 1, wrapped("flavor", FLAVOR, ram="2147483648")),
        ("POST", "/flavors", 1, wrapped("flavor", FLAVOR, ram="0")),
        ("PUT", "/os-quota-sets/{}", 57, wrapped("quota_set", cores="-2")),
        ("PUT", "/os-quota-sets/{}", 1, wrapped("quota_set", networks=1)),
        ("POST", "/servers", 1, wrapped("server", SERVER, imageRef="http://cloud/images/" + UUID)),
        ("POST", "/servers", 1, wrapped("server", SERVER, block_device_mapping=[{"volume_size": "0"}])),
        ("PUT", "/servers/{}/tags", 26, {"tags": ["a,b"]}),
        ("POST", "/servers/{}/os-volume_attachments", 1, wrapped("volumeAttachment", VOLUME, device="vdb")),
        ("POST", "/os-volumes", 1, wrapped("volume", size="0")),
    ],
)
def test_what_nova_refuses_is_refused(method: str, path: str, minor: int, body: Any) -> None:
    with pytest.raises(Problem) as refused:
        check(method, path, minor, body)
    assert refused.value.status == 400


def check(method: str, path: str, minor: int, body: Any) -> None:
    [line] = [line for line in compared() if line.nova.key == (method, path, None)]
    [route] = [route for route in line.routes if route.serves(minor)]
    assert route.body
    route.body.check(minor, body)


def test_a_refused_query_names_its_key_as_nova_does() -> None:
    with pytest.raises(Problem) as refused:
        LIST.read(104, {"limit": ["1", "x"]})
    assert refused.value.message.startswith("Invalid input for query parameters limit. Value: x. ")
