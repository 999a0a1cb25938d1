"""POST /reshaper as its clients see it."""

from typing import Any

import pytest

from tests.api.placement_client import Client
from tests.api.test_placement import CHILD, HOST, PROVIDER, SERVER, claim, make_host

BELOW = f"/resource_providers/{CHILD}"
NOBODY = "11111111-0000-4000-8000-000000000009"


async def make_tree(client: Client) -> None:
    """Make a host with generation 2 of whose VCPU a server holds two, and a child of it with nothing."""
    await make_host(client)
    await client.done("POST", "/resource_providers", {"uuid": CHILD, "name": "child", "parent_provider_uuid": HOST})
    await client.done("PUT", f"/allocations/{SERVER}", claim({HOST: {"resources": {"VCPU": 2}}}))


def shapes(generation: int = 2, child: str = CHILD, **cpus: Any) -> dict[str, Any]:
    return {
        HOST: {"resource_provider_generation": generation, "inventories": {"MEMORY_MB": {"total": 1024}}},
        child: {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8, **cpus}}},
    }


def moved(generation: int | None = 1, provider: str = CHILD, **more: Any) -> dict[str, Any]:
    return {SERVER: claim({provider: {"resources": {"VCPU": 2}}}, generation, **more)}


def old(minor: int, allocations: dict[str, Any]) -> dict[str, Any]:
    """Leave away what that version does not know yet."""
    return {
        uuid: {key: value for key, value in sent.items() if minor >= 38 or key != "consumer_type"}
        for uuid, sent in allocations.items()
    }


@pytest.mark.parametrize("minor", [30, 34, 38, 39])
async def test_inventory_and_claims_move_to_a_child(client: Client, minor: int) -> None:
    await make_tree(client)
    body = {"inventories": shapes(), "allocations": old(minor, moved())}
    answer = await client.done("POST", "/reshaper", body, at=minor)
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await client.get(f"{PROVIDER}/usages"))["usages"] == {"MEMORY_MB": 0}
    assert (await client.get(f"{BELOW}/usages"))["usages"] == {"VCPU": 2}
    found = await client.get(f"/allocations/{SERVER}")
    assert found["allocations"][CHILD]["resources"] == {"VCPU": 2}
    assert (found["allocations"].keys(), found["consumer_generation"]) == ({CHILD}, 2)
    # Each step of it raises a generation: new inventories, claims, what is left over.
    assert (await client.get(PROVIDER))["generation"] == 4
    assert (await client.get(BELOW))["generation"] == 3


@pytest.mark.parametrize(
    ("body", "status", "code", "detail"),
    [
        ({"inventories": shapes(generation=1), "allocations": moved()},
            409, "concurrent_update", "actual: 2, given: 1"),
        ({"inventories": shapes(), "allocations": moved(generation=7)},
            409, "concurrent_update", "consumer generation conflict"),
        ({"inventories": shapes(), "allocations": moved(generation=None)},
            409, "concurrent_update", "consumer generation conflict"),
        ({"inventories": shapes(), "allocations": {}}, 409, "inventory.inuse", "VCPU"),
        ({"inventories": shapes(child=NOBODY), "allocations": moved()}, 400, "resource_provider.not_found", NOBODY),
        ({"inventories": shapes(), "allocations": moved(provider=NOBODY)}, 400, "undefined_code", NOBODY),
        ({"inventories": shapes(max_unit=1), "allocations": moved()}, 409, "undefined_code", "Unable to allocate"),
        ({"inventories": shapes(total=1), "allocations": moved()}, 409, "undefined_code", "Unable to allocate"),
        ({"inventories": shapes(reserved=9), "allocations": moved()}, 400, "undefined_code", "reserved"),
        ({"inventories": shapes(wrong=1), "allocations": moved()}, 400, "undefined_code", "'wrong' was unexpected"),
        ({"inventories": shapes(), "allocations": moved(wrong=1)}, 400, "undefined_code", "'wrong' was unexpected"),
        ({"inventories": {**shapes(), CHILD.replace("-", ""): shapes()[CHILD]}, "allocations": moved()},
            400, "undefined_code", "does not match any of the regexes"),
        ({"inventories": {HOST: {"resource_provider_generation": 2, "inventories": {"CUSTOM_X": {"total": 1}}}},
            "allocations": {}}, 400, "undefined_code", "No such resource class CUSTOM_X"),
        ({"inventories": {}, "allocations": {}}, 400, "undefined_code", "JSON does not validate"),
        ({"inventories": shapes()}, 400, "undefined_code", "is a required property"),
        ({"allocations": moved()}, 400, "undefined_code", "is a required property"),
        ({"cows": "moo"}, 400, "undefined_code", "JSON does not validate"),
        ([], 400, "undefined_code", "JSON does not validate"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
async def test_refused(client: Client, body: Any, status: int, code: str, detail: str) -> None:
    await make_tree(client)
    before = [await client.get(path) for path in (f"{PROVIDER}/inventories", BELOW, f"/allocations/{SERVER}")]
    error = await client.refused(status, "POST", "/reshaper", body)
    assert (error["code"], detail in error["detail"]) == (f"placement.{code}", True), error
    assert before == [await client.get(path) for path in (f"{PROVIDER}/inventories", BELOW, f"/allocations/{SERVER}")]


async def test_versions_and_methods(client: Client) -> None:
    body = {"inventories": shapes(), "allocations": moved()}
    await client.refused(404, "POST", "/reshaper", body, at=29)
    answer = await client.ask("GET", "/reshaper")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    await client.refused(403, "POST", "/reshaper", body, token="member")
    for minor, sent, key in (
        (33, {"mappings": {"": [CHILD]}}, "mappings"),
        (37, {"consumer_type": "INSTANCE"}, "consumer_type"),
    ):
        extra = {"inventories": shapes(), "allocations": {SERVER: {**old(0, moved())[SERVER], **sent}}}
        assert key in (await client.refused(400, "POST", "/reshaper", extra, at=minor))["detail"]
        await make_tree(client) if minor == 33 else None
    await client.refused(400, "POST", "/reshaper", {"inventories": shapes(), "allocations": old(0, moved())}, at=38)
    mapped = {"inventories": shapes(), "allocations": moved(mappings={"": [CHILD]})}
    await client.done("POST", "/reshaper", mapped)
