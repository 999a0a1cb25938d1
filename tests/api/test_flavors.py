"""Flavors, their extra specs and who has access, as Nova's clients see it."""

from typing import Any

import pytest

from tests.api.front import OTHER_PROJECT, PROJECT, Front, fault
from whimbrel.api.catalog import extra_specs
from whimbrel.domain.errors import Invalid

REQUESTED = {"name": "tiny", "ram": 64, "vcpus": 1, "disk": 0}


async def create(front: Front, minor: int = 104, **requested: Any) -> Any:
    answer = await front.ask("POST", "/flavors", {"flavor": {**REQUESTED, **requested}}, who="admin", minor=minor)
    assert answer.status_code == 200, answer.text
    return answer.json()["flavor"]


async def test_what_was_created_is_shown(front: Front) -> None:
    made = await create(front, id="t1", description="for tests", swap=512, **{"OS-FLV-EXT-DATA:ephemeral": 3})
    assert made == (await front.get("/flavors/t1"))["flavor"]
    assert made.pop("links")[0] == {"rel": "self", "href": "http://cloud:8774/compute/v2.1/flavors/t1"}
    assert made == {
        "id": "t1",
        "name": "tiny",
        "ram": 64,
        "vcpus": 1,
        "disk": 0,
        "swap": 512,
        "OS-FLV-EXT-DATA:ephemeral": 3,
        "os-flavor-access:is_public": True,
        "description": "for tests",
        "extra_specs": {},
    }


@pytest.mark.parametrize(
    ("minor", "described", "with_specs", "swap"),
    [(1, False, False, ""), (54, False, False, ""), (55, True, False, ""), (61, True, True, ""), (75, True, True, 0)],
)
async def test_what_is_shown_grew(front: Front, minor: int, described: bool, with_specs: bool, swap: Any) -> None:
    for flavor in [
        (await front.get("/flavors/1", minor=minor))["flavor"],
        (await front.get("/flavors/detail", minor=minor))["flavors"][0],
        await create(front, minor=minor),
    ]:
        assert ("description" in flavor, "extra_specs" in flavor) == (described, with_specs)
        assert flavor["swap"] == swap
    assert ("description" in (await front.get("/flavors", minor=minor))["flavors"][0]) is described


@pytest.mark.parametrize("id", [None, "a", "a b", "x" * 255, 7, 1.5])
async def test_ids_are_chosen_or_made(front: Front, id: Any) -> None:
    made = await create(front, id=id)
    assert len(made["id"]) == 36 if id is None else made["id"] == str(id)
    assert (await front.ask("GET", f"/flavors/{made['id']}")).status_code == 200


@pytest.mark.parametrize(
    "requested",
    [
        {"name": ""},
        {"name": " x"},
        {"name": "x" * 256},
        {"ram": 0},
        {"ram": "many"},
        {"ram": 2**31},
        {"vcpus": 0},
        {"vcpus": -1},
        {"disk": -1},
        {"swap": -1},
        {"id": " "},
        {"id": "a/b"},
        {"id": "x" * 256},
        {"id": 10**300},
        {"rxtx_factor": 0},
        {"rxtx_factor": "0"},
        {"rxtx_factor": "0.0"},
        {"os-flavor-access:is_public": "maybe"},
        {"colour": "blue"},
        {"description": "x" * 65536},
    ],
)
async def test_bad_sizes_are_refused(front: Front, requested: dict[str, Any]) -> None:
    answer = await front.ask("POST", "/flavors", {"flavor": {**REQUESTED, **requested}}, who="admin")
    fault(answer, "badRequest", 400)
    assert len((await front.get("/flavors"))["flavors"]) == 2


async def test_a_description_needs_its_version(front: Front) -> None:
    body = {"flavor": REQUESTED | {"description": "x"}}
    fault(await front.ask("POST", "/flavors", body, who="admin", minor=54), "badRequest", 400)
    change = {"flavor": {"description": "new"}}
    fault(await front.ask("PUT", "/flavors/1", change, who="admin", minor=54), "itemNotFound", 404)
    answer = await front.ask("PUT", "/flavors/1", change, who="admin", minor=55)
    assert answer.json()["flavor"]["description"] == "new"
    answer = await front.ask("PUT", "/flavors/1", {"flavor": {"description": None}}, who="admin")
    assert answer.json()["flavor"]["description"] is None
    fault(await front.ask("PUT", "/flavors/none", change, who="admin"), "itemNotFound", 404)


async def test_ids_and_names_are_taken_once(front: Front) -> None:
    await create(front, id="t1")
    again = await front.ask("POST", "/flavors", {"flavor": REQUESTED | {"id": "t2"}}, who="admin")
    assert fault(again, "conflictingRequest", 409) == "Flavor with name tiny already exists."
    again = await front.ask("POST", "/flavors", {"flavor": REQUESTED | {"id": "t1", "name": "other"}}, who="admin")
    assert fault(again, "conflictingRequest", 409) == "Flavor with ID t1 already exists."


async def test_deleting(front: Front) -> None:
    await create(front, id="t1")
    fault(await front.ask("DELETE", "/flavors/t1"), "forbidden", 403)
    assert (await front.ask("DELETE", "/flavors/t1", who="admin")).status_code == 202
    answer = await front.ask("GET", "/flavors/t1")
    assert fault(answer, "itemNotFound", 404) == "Flavor t1 could not be found."
    fault(await front.ask("DELETE", "/flavors/t1", who="admin"), "itemNotFound", 404)


async def test_users_may_not_change_flavors(front: Front) -> None:
    reason = fault(await front.ask("POST", "/flavors", {"flavor": REQUESTED}), "forbidden", 403)
    assert reason == "Policy doesn't allow os_compute_api:os-flavor-manage:create to be performed."
    fault(await front.ask("PUT", "/flavors/1", {"flavor": {"description": "x"}}), "forbidden", 403)
    fault(await front.ask("POST", "/flavors/1/os-extra_specs", {"extra_specs": {"a": "b"}}), "forbidden", 403)
    fault(await front.ask("GET", "/flavors/1/os-flavor-access"), "forbidden", 403)


# Lists


async def names(front: Front, query: str = "", **more: Any) -> list[str]:
    return [flavor["name"] for flavor in (await front.get(f"/flavors/detail{query}", **more))["flavors"]]


async def test_lists_are_sorted_filtered_and_paged(front: Front) -> None:
    await create(front, name="huge", id="0", ram=4096, disk=100)
    assert await names(front) == ["huge", "small", "large"]
    assert await names(front, "?sort_key=memory_mb&sort_dir=desc") == ["huge", "large", "small"]
    assert await names(front, "?sort_key=id") == ["small", "large", "huge"]
    assert await names(front, "?minRam=600") == ["huge", "large"]
    assert await names(front, "?minDisk=2&minRam=600&sort_key=name") == ["huge", "large"]
    assert await names(front, "?minDisk=101") == []
    assert await names(front, "?marker=0") == ["small", "large"]
    page = await front.get("/flavors?limit=2&minRam=1")
    assert [flavor["name"] for flavor in page["flavors"]] == ["huge", "small"]
    link = page["flavors_links"][0]
    assert link == {"rel": "next", "href": "http://cloud:8774/compute/v2.1/flavors?limit=2&minRam=1&marker=1"}
    rest = await front.get("/flavors?limit=2&minRam=1&marker=1")
    assert ([flavor["name"] for flavor in rest["flavors"]], "flavors_links" in rest) == (["large"], False)
    assert (await front.get("/flavors?limit=0"))["flavors"] == []


@pytest.mark.parametrize(
    "query", ["marker=9", "minRam=big", "minDisk=1e3", "sort_key=colour", "sort_dir=up", "limit=-1", "limit=x"]
)
async def test_bad_lists_are_refused(front: Front, query: str) -> None:
    fault(await front.ask("GET", f"/flavors?{query}"), "badRequest", 400)


async def test_unknown_query_keys(front: Front) -> None:
    assert len((await front.get("/flavors?colour=blue", minor=74))["flavors"]) == 2
    fault(await front.ask("GET", "/flavors?colour=blue", minor=75), "badRequest", 400)
    fault(await front.ask("GET", "/flavors?name=small", minor=101), "badRequest", 400)
    assert await names(front, "?name=small", minor=102) == ["small"]
    fault(await front.ask("GET", "/flavors/1?colour=blue", minor=102), "badRequest", 400)


# Access


async def test_a_private_flavor_is_for_those_who_were_granted_it(front: Front) -> None:
    await create(front, id="p", **{"os-flavor-access:is_public": False})
    assert "tiny" not in await names(front)
    assert "tiny" not in await names(front, who="admin")
    assert await names(front, "?is_public=false", who="admin") == ["tiny"]
    assert len(await names(front, "?is_public=None", who="admin")) == 3
    assert "tiny" not in await names(front, "?is_public=None")
    fault(await front.ask("GET", "/flavors/p"), "itemNotFound", 404)
    fault(await front.ask("GET", "/flavors/p/os-extra_specs"), "itemNotFound", 404)

    grant = {"addTenantAccess": {"tenant": PROJECT}}
    answer = await front.ask("POST", "/flavors/p/action", grant, who="admin")
    assert answer.json() == {"flavor_access": [{"flavor_id": "p", "tenant_id": PROJECT}]}
    fault(await front.ask("POST", "/flavors/p/action", grant, who="admin"), "conflictingRequest", 409)
    assert "tiny" in await names(front)
    assert (await front.get("/flavors/p"))["flavor"]["os-flavor-access:is_public"] is False
    fault(await front.ask("GET", "/flavors/p", who=f"member@{OTHER_PROJECT}"), "itemNotFound", 404)
    assert len((await front.get("/flavors/p/os-flavor-access", who="admin"))["flavor_access"]) == 1

    revoke = {"removeTenantAccess": {"tenant": PROJECT}}
    answer = await front.ask("POST", "/flavors/p/action", revoke, who="admin")
    assert answer.json() == {"flavor_access": []}
    fault(await front.ask("POST", "/flavors/p/action", revoke, who="admin"), "itemNotFound", 404)
    fault(await front.ask("GET", "/flavors/p"), "itemNotFound", 404)


async def test_public_flavors_have_no_list_of_access(front: Front) -> None:
    fault(await front.ask("GET", "/flavors/1/os-flavor-access", who="admin"), "itemNotFound", 404)
    grant = {"addTenantAccess": {"tenant": PROJECT}}
    fault(await front.ask("POST", "/flavors/1/action", grant, who="admin"), "conflictingRequest", 409)
    assert (await front.ask("POST", "/flavors/1/action", grant, who="admin", minor=6)).status_code == 200
    fault(await front.ask("POST", "/flavors/9/action", grant, who="admin"), "itemNotFound", 404)
    for bad in ("", "a" * 256, None):
        wanted = {"addTenantAccess": {"tenant": bad}}
        fault(await front.ask("POST", "/flavors/1/action", wanted, who="admin"), "badRequest", 400)
    unknown = {"removeTenantAccess": {"tenant": "a b"}}
    fault(await front.ask("POST", "/flavors/1/action", unknown, who="admin"), "itemNotFound", 404)
    fault(await front.ask("GET", "/flavors?is_public=maybe", who="admin"), "badRequest", 400)


# Extra specs


async def test_extra_specs_are_added_changed_and_removed(front: Front) -> None:
    url = "/flavors/1/os-extra_specs"
    specs = {"hw:cpu_policy": "shared", "my:own": "x", "count": 7}
    answer = await front.ask("POST", url, {"extra_specs": specs}, who="admin")
    assert (answer.status_code, answer.json()) == (200, {"extra_specs": specs | {"count": "7"}})
    answer = await front.ask("PUT", f"{url}/my:own", {"my:own": "y"}, who="admin")
    assert answer.json() == {"my:own": "y"}
    assert await front.get(f"{url}/my:own") == {"my:own": "y"}
    assert (await front.ask("DELETE", f"{url}/count", who="admin")).status_code == 200
    assert (await front.get("/flavors/1"))["flavor"]["extra_specs"] == {"hw:cpu_policy": "shared", "my:own": "y"}
    fault(await front.ask("DELETE", f"{url}/count", who="admin"), "itemNotFound", 404)
    fault(await front.ask("GET", f"{url}/count"), "itemNotFound", 404)
    fault(await front.ask("PUT", f"{url}/a", {"b": "c"}, who="admin"), "badRequest", 400)
    fault(await front.ask("PUT", f"{url}/a", {"a": "c", "b": "c"}, who="admin"), "badRequest", 400)
    fault(await front.ask("POST", url, {"extra_specs": {"a/b": "c"}}, who="admin"), "badRequest", 400)
    fault(await front.ask("POST", "/flavors/9/os-extra_specs", {"extra_specs": {}}, who="admin"), "itemNotFound", 404)


async def test_known_extra_specs_are_checked_from_2_86(front: Front) -> None:
    bad = {"extra_specs": {"hw:cpu_policy": "mine"}}
    assert (await front.ask("POST", "/flavors/1/os-extra_specs", bad, who="admin", minor=85)).status_code == 200
    fault(await front.ask("POST", "/flavors/1/os-extra_specs", bad, who="admin", minor=86), "badRequest", 400)
    one = {"hw:cpu_polcy": "shared"}
    fault(await front.ask("PUT", "/flavors/1/os-extra_specs/hw:cpu_polcy", one, who="admin"), "badRequest", 400)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hw:numa_nodes", "2"),
        ("hw:numa_cpus.0", "0-3,^2"),
        ("hw:mem_page_size", "2MB"),
        ("hw:pmu", "Yes"),
        ("resources:VCPU", "0"),
        ("resources1:CUSTOM_GOLD", "1"),
        ("resources_GPU:VGPU", "1"),
        ("trait:COMPUTE_VOLUME_EXTEND", "required"),
        ("trait2:CUSTOM_FAST", "forbidden"),
        ("group_policy", "isolate"),
        ("pci_passthrough:alias", "gpu:2,nic:1"),
        ("aggregate_instance_extra_specs:ssd", "<or> true <or> 1"),
        ("quota:disk_total_iops_sec", "100"),
        ("whimbrel:az_on_move", "prefer"),
        ("elsewhere:anything", "goes"),
        ("no_namespace", "goes"),
    ],
)
def test_extra_specs_that_make_sense(name: str, value: str) -> None:
    extra_specs.check({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hw:numa_nodes", "0"),
        ("hw:numa_nodes", "two"),
        ("hw:nothing", "1"),
        ("resources:CPU", "1"),
        ("resources:VCPU", "-1"),
        ("resources:CUSTOM_", "1"),
        ("trait:COMPUTE_NOTHING", "required"),
        ("trait:CUSTOM_FAST", "wanted"),
        ("group_policy", "spread"),
        ("pci_passthrough:alias", "gpu"),
        ("hw_rng:allowed", "perhaps"),
        ("whimbrel:az_on_move", "stay"),
        ("whimbrel:az", "keep"),
    ],
)
def test_extra_specs_that_make_none(name: str, value: str) -> None:
    with pytest.raises(Invalid, match="Validation failed"):
        extra_specs.check({name: value})


async def test_2_102_has_no_rxtx_factor(front: Front) -> None:
    was = (await front.get("/flavors/1", minor=101))["flavor"]
    assert set(was) - set((await front.get("/flavors/1"))["flavor"]) == {"OS-FLV-DISABLED:disabled", "rxtx_factor"}
    wanted = {"flavor": {"name": "f", "vcpus": 1, "ram": 64, "disk": 0, "rxtx_factor": 2.0}}
    fault(await front.ask("POST", "/flavors", wanted, who="admin"), "badRequest", 400)
    assert (await front.ask("POST", "/flavors", wanted, who="admin", minor=101)).json()["flavor"]["rxtx_factor"] == 2.0
    fault(await front.ask("GET", "/flavors?sort_key=rxtx_factor"), "badRequest", 400)
    assert await names(front, "?sort_key=rxtx_factor", minor=101)
