"""What Placement says no with: methods, codes, and sentences that name the offending part."""

import asyncio
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from tests.api.placement_client import Client
from tests.api.test_placement import CHILD, HOST, MOVE, PROVIDER, SERVER
from tests.api.test_placement_versions import CLASS, FULL, NEW, TRAIT, TYPED, keyed, make_world

ALLOWED = (
    ("/resource_classes", "GET, POST"),
    (CLASS, "GET, PUT, DELETE"),
    ("/resource_providers", "GET, POST"),
    (PROVIDER, "GET, DELETE, PUT"),
    (f"{PROVIDER}/inventories", "GET, POST, PUT, DELETE"),
    (f"{PROVIDER}/inventories/VCPU", "GET, PUT, DELETE"),
    (f"{PROVIDER}/usages", "GET"),
    (f"{PROVIDER}/aggregates", "GET, PUT"),
    (f"{PROVIDER}/traits", "GET, PUT, DELETE"),
    (f"{PROVIDER}/allocations", "GET"),
    ("/allocations", "POST"),
    (f"/allocations/{SERVER}", "GET, PUT, DELETE"),
    ("/allocation_candidates", "GET"),
    ("/traits", "GET"),
    (TRAIT, "GET, PUT, DELETE"),
    ("/usages", "GET"),
    ("/reshaper", "POST"),
)


async def test_methods_that_are_not_allowed(client: Client) -> None:
    for path, methods in ALLOWED:
        for method in {"GET", "POST", "PUT", "DELETE", "PATCH"} - set(methods.split(", ")):
            answer = await client.ask(method, path, at=0)  # whatever the version
            assert (answer.status_code, answer.headers["allow"]) == (405, methods), (method, path)


# Codes


CODES: tuple[tuple[int, str, str, Any, str], ...] = (
    (404, "GET", f"/resource_providers/{CHILD}", None, "undefined_code"),
    (409, "POST", "/resource_providers", {"name": "host"}, "duplicate_name"),
    (409, "POST", "/resource_providers", {"name": "new", "uuid": HOST}, "duplicate_name"),
    (409, "DELETE", PROVIDER, None, "resource_provider.inuse"),
    (409, "DELETE", f"{PROVIDER}/inventories", None, "inventory.inuse"),
    (409, "POST", f"{PROVIDER}/inventories", {"resource_class": "VCPU", "total": 1}, "concurrent_update"),
    (409, "PUT", f"{PROVIDER}/inventories", {**FULL, "resource_provider_generation": 2}, "concurrent_update"),
    (409, "PUT", f"{PROVIDER}/inventories/VCPU", {"total": 1, "resource_provider_generation": 2}, "concurrent_update"),
    (409, "PUT", f"{PROVIDER}/traits", {"traits": [], "resource_provider_generation": 2}, "concurrent_update"),
    (409, "PUT", f"{PROVIDER}/aggregates", {"aggregates": [], "resource_provider_generation": 2}, "concurrent_update"),
    (409, "PUT", f"/allocations/{SERVER}", keyed(**TYPED), "concurrent_update"),
    (409, "PUT", f"/allocations/{MOVE}", {**keyed(**TYPED), "allocations": {HOST: {"resources": {"VCPU": 9}}}},
        "undefined_code"),
    (409, "POST", "/resource_classes", {"name": "CUSTOM_A"}, "undefined_code"),
    (409, "DELETE", TRAIT, None, "undefined_code"),
    (400, "GET", "/usages", None, "undefined_code"),
    (400, "GET", "/usages?project_id=", None, "undefined_code"),
    (400, "GET", "/usages?project_id=own&user_id=", None, "undefined_code"),
    (400, "GET", "/usages?project_id=own&consumer_type=server", None, "undefined_code"),
    (409, "DELETE", f"{PROVIDER}/inventories/VCPU", None, "concurrent_update"),
    (400, "GET", "/traits?name=CUSTOM", None, "undefined_code"),
)  # fmt: skip


@pytest.mark.parametrize(("status", "method", "path", "body", "code"), CODES)
async def test_codes(client: Client, status: int, method: str, path: str, body: Any, code: str) -> None:
    await make_world(client)
    assert (await client.refused(status, method, path, body))["code"] == f"placement.{code}"


SENTENCES: tuple[tuple[str, str, Any, str], ...] = (
    ("PUT", f"/allocations/{MOVE}", keyed(**NEW), "'consumer_type' is a required property"),
    ("PUT", f"/allocations/{MOVE}", keyed(**NEW, consumer_type="server"), "'server' does not match '^[A-Z0-9_]+$'"),
    ("PUT", f"/allocations/{MOVE}", keyed(**TYPED, mappings={"a": "b"}), "'b' is not of type 'array'"),
    ("PUT", f"{PROVIDER}/traits", {"traits": "x", "resource_provider_generation": 3}, "'x' is not of type 'array'"),
    ("PUT", f"{PROVIDER}/aggregates", {"aggregates": ["x"], "resource_provider_generation": 3}, "'x' is not a 'uuid'"),
    ("POST", "/resource_classes", {"name": "CUSTOM_" + "X" * 255}, "Failed validating 'maxLength'"),
    ("POST", "/resource_classes", {"name": "CUSTOM_B", "more": 1}, "('more' was unexpected)"),
)


@pytest.mark.parametrize(("method", "path", "body", "sentence"), SENTENCES)
async def test_what_is_wrong_with_a_body_is_said(
    client: Client, method: str, path: str, body: Any, sentence: str
) -> None:
    await make_world(client)
    detail = (await client.refused(400, method, path, body))["detail"]
    assert detail.startswith("JSON does not validate: ")
    assert sentence in detail


async def test_versions_that_are_none(client: Client) -> None:
    """Before anything else, also where no token is needed."""
    for header in ("pony.horse", "1.2.3", "1", "1.x"):
        error = await client.refused(400, "GET", "/", at=f"placement {header}", token=None)
        assert error["detail"] == f"invalid version string: {header}"
    for header in ("0.5", "1.40", "2.0"):
        error = await client.refused(406, "GET", "/", at=f"placement {header}", token=None)
        assert error["detail"].startswith(f"Unacceptable version header: {header}")
        assert (error["title"], error["min_version"], error["max_version"]) == ("Not Acceptable", "1.0", "1.39")


async def test_a_route_that_is_too_young_is_not_there_whatever_is_sent(client: Client) -> None:
    sent = {"headers": {"content-type": "text/plain"}, "content": b"data"}
    await client.refused(404, "POST", "/resource_classes", at=1, **sent)
    await client.refused(415, "POST", "/resource_classes", at=2, **sent)
    assert (await client.ask("GET", "/nonsense", headers={"accept": "text/plain"})).status_code == 404
    for method in ("POST", "HEAD", "OPTIONS"):
        answer = await client.ask(method, "/", headers={"content-type": "application/xml"}, content=b"<x/>")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


async def test_only_who_can_try_again_is_advised_to(client: Client) -> None:
    """Six VCPU are left. Ten make the same consumer, which takes one; ten others want one each."""
    await make_world(client)

    async def heard(uuid: str) -> str:
        answer = await client.ask("PUT", f"/allocations/{uuid}", keyed(**TYPED))
        return "done" if answer.is_success else str(answer.json()["errors"][0]["code"])

    same = await asyncio.gather(*(heard(MOVE) for _ in range(10)))
    assert Counter(same) == {"done": 1, "placement.concurrent_update": 9}
    others = await asyncio.gather(*(heard(str(UUID(int=number, version=4))) for number in range(10)))
    assert Counter(others) == {"done": 5, "placement.undefined_code": 5}


async def test_of_a_key_that_comes_twice_the_last_one_counts(client: Client) -> None:
    await make_world(client)
    for query, found in (
        ("/resource_providers?name=other&name=host", True),
        ("/resource_providers?name=host&name=other", False),
        ("/usages?project_id=other&project_id=own", True),
        ("/usages?project_id=own&project_id=other", False),
        ("/traits?name=in:X&name=in:CUSTOM_GOLD", True),
        ("/allocation_candidates?resources=VCPU:999&resources=VCPU:1", True),
        ("/allocation_candidates?resources=VCPU:1&resources=VCPU:999", False),
    ):
        assert bool(next(iter((await client.get(query)).values()))) is found, query
    for query in ("limit=1&limit=2", "limit=99999999999999999999", "limit=99999999999999999999&limit=1"):
        assert (await client.get(f"/allocation_candidates?resources=VCPU:1&{query}"))["allocation_requests"]
