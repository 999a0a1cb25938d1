"""What each microversion of Placement brought, one line for each: routes, fields, query keys, parts of bodies, headers.

A line is tried at the version that brought it and at the one before.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.placement_client import Client
from tests.api.test_placement import CHILD, HOST, MOVE, PROVIDER, SERVER, TWO_CPUS, ZONE, make_host
from whimbrel.placement_api.microversions import LAST

CLASS, TRAIT = "/resource_classes/CUSTOM_A", "/traits/CUSTOM_GOLD"
CPUS = "/allocation_candidates?resources=VCPU:1"
OWNER = {"project_id": "own", "user_id": "somebody"}
VERSIONS = range(LAST + 1)


async def make_world(client: Client) -> None:
    """Make a host of which a server holds two VCPU, a class, a trait and an aggregate."""
    await make_host(client)
    await client.done("PUT", CLASS)
    await client.done("PUT", TRAIT)
    body = {"traits": ["CUSTOM_GOLD"], "resource_provider_generation": 1}
    await client.done("PUT", f"{PROVIDER}/traits", body)
    await client.done("PUT", f"{PROVIDER}/aggregates", [ZONE], at=1)
    claim = {"allocations": TWO_CPUS, **OWNER, "consumer_generation": None, "consumer_type": "INSTANCE"}
    await client.done("PUT", f"/allocations/{SERVER}", claim)


# Routes: below their first version they are not there; from then on they answer something else.


ROUTES = (
    ("GET", "/resource_providers", 0),
    ("POST", "/resource_providers", 0),
    ("GET", PROVIDER, 0),
    ("PUT", PROVIDER, 0),
    ("DELETE", PROVIDER, 0),
    ("GET", f"{PROVIDER}/inventories", 0),
    ("POST", f"{PROVIDER}/inventories", 0),
    ("PUT", f"{PROVIDER}/inventories", 0),
    ("GET", f"{PROVIDER}/inventories/VCPU", 0),
    ("PUT", f"{PROVIDER}/inventories/VCPU", 0),
    ("DELETE", f"{PROVIDER}/inventories/VCPU", 0),
    ("GET", f"{PROVIDER}/usages", 0),
    ("GET", f"{PROVIDER}/allocations", 0),
    ("GET", f"/allocations/{SERVER}", 0),
    ("PUT", f"/allocations/{SERVER}", 0),
    ("DELETE", f"/allocations/{SERVER}", 0),
    ("GET", f"{PROVIDER}/aggregates", 1),
    ("PUT", f"{PROVIDER}/aggregates", 1),
    ("GET", "/resource_classes", 2),
    ("POST", "/resource_classes", 2),
    ("GET", CLASS, 2),
    ("PUT", CLASS, 2),
    ("DELETE", CLASS, 2),
    ("DELETE", f"{PROVIDER}/inventories", 5),
    ("GET", "/traits", 6),
    ("GET", TRAIT, 6),
    ("PUT", TRAIT, 6),
    ("DELETE", TRAIT, 6),
    ("GET", f"{PROVIDER}/traits", 6),
    ("PUT", f"{PROVIDER}/traits", 6),
    ("DELETE", f"{PROVIDER}/traits", 6),
    ("GET", "/usages?project_id=own", 9),
    ("GET", CPUS, 10),
    ("POST", "/allocations", 13),
    ("POST", "/reshaper", 30),
)


@pytest.mark.parametrize(("method", "path", "since"), ROUTES, ids=[f"{each[0]} {each[1]}" for each in ROUTES])
async def test_routes(client: Client, method: str, path: str, since: int) -> None:
    await make_world(client)
    if since:
        below = 405 if (method, path) == ("DELETE", f"{PROVIDER}/inventories") else 404
        await client.refused(below, method, path, at=since - 1)
    answer = await client.ask(method, path, at=since)
    assert answer.status_code not in (404, 405), answer.text


# Fields: a way to look into an answer, and since when there is something.


FIELDS: tuple[tuple[str, str, int, Callable[[Any], Any]], ...] = (
    ("link to aggregates", PROVIDER, 1, lambda shown: "aggregates" in _links(shown)),
    ("link to traits", PROVIDER, 6, lambda shown: "traits" in _links(shown)),
    ("link to allocations", PROVIDER, 11, lambda shown: "allocations" in _links(shown)),
    ("parent", PROVIDER, 14, lambda shown: "parent_provider_uuid" in shown),
    ("root", PROVIDER, 14, lambda shown: shown.get("root_provider_uuid") == HOST),
    ("listed root", "/resource_providers", 14, lambda shown: "root_provider_uuid" in shown["resource_providers"][0]),
    ("generation of aggregates", f"{PROVIDER}/aggregates", 19, lambda shown: "resource_provider_generation" in shown),
    ("project", f"/allocations/{SERVER}", 12, lambda shown: shown.get("project_id") == "own"),
    ("user", f"/allocations/{SERVER}", 12, lambda shown: shown.get("user_id") == "somebody"),
    ("generation of the consumer", f"/allocations/{SERVER}", 28, lambda shown: shown.get("consumer_generation") == 1),
    ("type of the consumer", f"/allocations/{SERVER}", 38, lambda shown: shown.get("consumer_type") == "INSTANCE"),
    ("generation of a holder", f"{PROVIDER}/allocations", 28,
        lambda shown: "consumer_generation" in shown["allocations"][SERVER]),
    ("usages by type", "/usages?project_id=own", 38,
        lambda shown: shown["usages"] == {"INSTANCE": {"VCPU": 2, "consumer_count": 1}}),
    ("requests by provider", CPUS, 12, lambda shown: HOST in shown["allocation_requests"][0]["allocations"]),
    ("traits of candidates", CPUS, 17, lambda shown: _summary(shown).get("traits") == ["CUSTOM_GOLD"]),
    ("all classes of candidates", CPUS, 27, lambda shown: "MEMORY_MB" in _summary(shown)["resources"]),
    ("parents of candidates", CPUS, 29, lambda shown: "parent_provider_uuid" in _summary(shown)),
    ("roots of candidates", CPUS, 29, lambda shown: _summary(shown).get("root_provider_uuid") == HOST),
    ("mappings", CPUS, 34, lambda shown: shown["allocation_requests"][0].get("mappings") == {"": [HOST]}),
)  # fmt: skip


def _links(shown: Any) -> set[str]:
    return {link["rel"] for link in shown["links"]}


def _summary(shown: Any) -> Any:
    return shown["provider_summaries"][HOST]


@pytest.mark.parametrize(("path", "since", "is_there"), [each[1:] for each in FIELDS], ids=[each[0] for each in FIELDS])
async def test_fields(client: Client, path: str, since: int, is_there: Callable[[Any], Any]) -> None:
    await make_world(client)
    assert not is_there(await client.get(path, at=since - 1))
    for minor in {since, LAST}:
        assert is_there(await client.get(path, at=minor))


# Query keys and forms of their values: below they are refused.


KEYS = (
    ("/resource_providers?name=host", 0),
    (f"/resource_providers?uuid={HOST}", 0),
    (f"/resource_providers?member_of={ZONE}", 3),
    (f"/resource_providers?member_of=in:{ZONE},{HOST}", 3),
    (f"/resource_providers?member_of={ZONE}&member_of={ZONE}", 24),
    (f"/resource_providers?member_of=!{CHILD}", 32),
    (f"/resource_providers?member_of=!in:{CHILD},{MOVE}", 32),
    ("/resource_providers?resources=VCPU:1", 4),
    (f"/resource_providers?in_tree={HOST}", 14),
    ("/resource_providers?required=CUSTOM_GOLD", 18),
    ("/resource_providers?required=!HW_CPU_X86_AVX", 22),
    ("/resource_providers?required=in:CUSTOM_GOLD,HW_CPU_X86_AVX", 39),
    (f"{CPUS}&limit=1", 16),
    (f"{CPUS}&required=CUSTOM_GOLD", 17),
    (f"{CPUS}&member_of={ZONE}", 21),
    (f"{CPUS}&required=!HW_CPU_X86_AVX", 22),
    (f"{CPUS}&member_of={ZONE}&member_of={ZONE}", 24),
    (f"{CPUS}&resources1=MEMORY_MB:1", 25),
    (f"{CPUS}&group_policy=none", 25),
    (f"{CPUS}&in_tree={HOST}", 31),
    (f"{CPUS}&member_of=!{CHILD}", 32),
    (f"{CPUS}&resources_MEMORY=MEMORY_MB:1", 33),
    (f"{CPUS}&root_required=CUSTOM_GOLD", 35),
    ("/allocation_candidates?resources_A=VCPU:1&resources_B=MEMORY_MB:1&group_policy=none&same_subtree=_A,_B", 36),
    (f"{CPUS}&required=in:CUSTOM_GOLD,HW_CPU_X86_AVX", 39),
    ("/usages?project_id=own&user_id=somebody", 9),
    ("/usages?project_id=own&consumer_type=all", 38),
    ("/traits?name=startswith:CUSTOM", 6),
    ("/traits?associated=true", 6),
)


@pytest.mark.parametrize(("query", "since"), KEYS, ids=[each[0] for each in KEYS])
async def test_keys_of_queries(client: Client, query: str, since: int) -> None:
    await make_world(client)
    if since not in (0, 6, 9):  # there the route itself begins
        await client.refused(400, "GET", query, at=since - 1)
    found = await client.get(query, at=since)
    assert next(iter(found.values()))


# Parts of bodies: the versions from and to which this is taken.


def listed(**more: Any) -> dict[str, Any]:
    return {"allocations": [{"resource_provider": {"uuid": HOST}, "resources": {"VCPU": 1}}], **more}


def keyed(**more: Any) -> dict[str, Any]:
    return {"allocations": {HOST: {"resources": {"VCPU": 1}}}, **OWNER, **more}


NEW = {"consumer_generation": None}
TYPED = {**NEW, "consumer_type": "INSTANCE"}
MAPPED = {"mappings": {"": [HOST]}}
FULL = {
    "resource_provider_generation": 3,
    "inventories": {"VCPU": {"total": 8}, "DISK_GB": {"total": 1, "reserved": 1}},
}
BODIES: tuple[tuple[str, str, Any, int, int], ...] = (
    ("POST", "/resource_providers", {"name": "new"}, 0, LAST),
    ("POST", "/resource_providers", {"name": "new", "parent_provider_uuid": HOST}, 14, LAST),
    ("PUT", PROVIDER, {"name": "new"}, 0, LAST),
    ("PUT", PROVIDER, {"name": "new", "parent_provider_uuid": None}, 14, LAST),
    ("PUT", f"{PROVIDER}/inventories", FULL, 26, LAST),
    ("PUT", f"{PROVIDER}/aggregates", [ZONE], 1, 18),
    ("PUT", f"{PROVIDER}/aggregates", {"aggregates": [ZONE], "resource_provider_generation": 3}, 19, LAST),
    ("PUT", f"{PROVIDER}/traits", {"traits": [], "resource_provider_generation": 3}, 6, LAST),
    ("POST", "/resource_classes", {"name": "CUSTOM_B"}, 2, LAST),
    ("PUT", f"/allocations/{MOVE}", listed(), 0, 7),
    ("PUT", f"/allocations/{MOVE}", listed(**OWNER), 8, 11),
    ("PUT", f"/allocations/{MOVE}", keyed(), 12, 27),
    ("PUT", f"/allocations/{MOVE}", keyed(**NEW), 28, 37),
    ("PUT", f"/allocations/{MOVE}", keyed(**NEW, **MAPPED), 34, 37),
    ("PUT", f"/allocations/{MOVE}", keyed(**TYPED, **MAPPED), 38, LAST),
    ("PUT", f"/allocations/{MOVE}", {"allocations": {}, **OWNER, **NEW}, 28, 37),
    ("POST", "/allocations", {MOVE: keyed()}, 13, 27),
    ("POST", "/allocations", {MOVE: {"allocations": {}, **OWNER}}, 13, 27),
    ("POST", "/allocations", {MOVE: keyed(**NEW)}, 28, 37),
    ("POST", "/allocations", {MOVE: keyed(**NEW, **MAPPED)}, 34, 37),
    ("POST", "/allocations", {MOVE: keyed(**TYPED, **MAPPED)}, 38, LAST),
)


@pytest.mark.parametrize(("method", "path", "body", "first", "last"), BODIES)
async def test_bodies(client: Client, method: str, path: str, body: Any, first: int, last: int) -> None:
    await make_world(client)
    for minor in (first - 1, last + 1):
        if 0 <= minor <= LAST:
            answer = await client.ask(method, path, body, at=minor)
            assert answer.status_code in (400, 404), (minor, answer.text)
    await client.done(method, path, body, at=first)


@pytest.mark.parametrize("minor", [14, 36, 37, 39])
async def test_from_1_37_on_a_parent_can_change(client: Client, minor: int) -> None:
    await make_world(client)
    await make_host(client, CHILD, "child", parent_provider_uuid=HOST)
    await make_host(client, MOVE, "other")
    for parent in (MOVE, None):
        body = {"name": "child", "parent_provider_uuid": parent}
        answer = await client.ask("PUT", f"/resource_providers/{CHILD}", body, at=minor)
        assert answer.status_code == (200 if minor >= 37 else 400)
    body = {"name": "host", "parent_provider_uuid": HOST}
    assert "creating loop" in (await client.refused(400, "PUT", PROVIDER, body, at=minor))["detail"]


async def test_put_of_a_class_changed_its_meaning_at_1_7(client: Client) -> None:
    await make_world(client)
    renamed = await client.done("PUT", CLASS, {"name": "CUSTOM_B"}, at=6)
    assert (renamed.status_code, renamed.json()["name"]) == (200, "CUSTOM_B")
    for status in (201, 204):
        answer = await client.done("PUT", CLASS, at=7)
        assert (answer.status_code, answer.content) == (status, b"")
        assert answer.headers["location"].endswith(CLASS)


@pytest.mark.parametrize(("minor", "status"), [(0, 201), (19, 201), (20, 200), (LAST, 200)])
async def test_from_1_20_on_a_new_provider_is_shown(client: Client, minor: int, status: int) -> None:
    answer = await client.done("POST", "/resource_providers", {"name": "new", "uuid": HOST}, at=minor)
    assert (answer.status_code, bool(answer.content)) == (status, status == 200)
    assert answer.headers["location"].endswith(PROVIDER)


# Headers


async def test_headers_of_every_version(client: Client) -> None:
    await make_world(client)
    for minor in VERSIONS:
        good = await client.done("GET", PROVIDER, at=minor)
        bad = await client.ask("GET", f"/resource_providers/{CHILD}", at=minor)
        for answer in (good, bad):
            assert answer.headers["openstack-api-version"] == f"placement 1.{minor}"
            assert answer.headers["vary"].lower() == "openstack-api-version"
            assert answer.headers["x-openstack-request-id"].startswith("req-")
        assert ("last-modified" in good.headers, "cache-control" in good.headers) == (minor >= 15,) * 2
        assert ("last-modified" in bad.headers, "cache-control" in bad.headers) == (False, False)
        error = bad.json()["errors"][0]
        assert ("code" in error) == (minor >= 23)
        assert error.keys() - {"code"} == {"status", "title", "detail", "request_id"}


DATED = (
    "/resource_providers", PROVIDER, f"{PROVIDER}/inventories", f"{PROVIDER}/inventories/VCPU", f"{PROVIDER}/usages",
    f"{PROVIDER}/aggregates", f"{PROVIDER}/traits", f"{PROVIDER}/allocations", f"/allocations/{SERVER}",
    f"/allocations/{MOVE}", "/resource_classes", CLASS, "/traits", TRAIT, CPUS, "/usages?project_id=own",
)  # fmt: skip


@pytest.mark.parametrize("path", DATED)
async def test_whatever_is_read_is_dated_from_1_15_on(client: Client, path: str) -> None:
    await make_world(client)
    assert "last-modified" not in (await client.done("GET", path, at=14)).headers
    answer = await client.done("GET", path, at=15)
    assert answer.headers["last-modified"].endswith(" GMT")
    assert answer.headers["cache-control"] == "no-cache"
    deleted = await client.done("DELETE", f"/allocations/{SERVER}")
    assert "last-modified" not in deleted.headers
