"""Unified limits of the embedded identity service, over HTTP."""

from typing import Any

from tests.embedded.opened import CATALOG, Opened

V3 = "/identity/v3"
SERVICE = CATALOG.services[1].id
SERVERS = {"service_id": SERVICE, "resource_name": "servers", "default_limit": 10}


async def asked(services: Opened, who: str, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    answer = await services.ask(who, method, f"{V3}{path}", body)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def registered(services: Opened, **fields: Any) -> dict[str, Any]:
    body = {"registered_limits": [SERVERS | fields]}
    made = (await asked(services, "root", "POST", "/registered_limits", body, 201))["registered_limits"]
    return dict(made[0])


async def limited(services: Opened, status: int = 201, **fields: Any) -> Any:
    body = {"service_id": SERVICE, "resource_name": "servers", "resource_limit": 5, **fields}
    return await asked(services, "root", "POST", "/limits", {"limits": [body]}, status)


async def listed(services: Opened, who: str, path: str) -> list[str]:
    answer = await asked(services, who, "GET", path)
    [key] = set(answer) - {"links"}
    return [each["id"] for each in answer[key]]


async def test_a_registered_limit_is_made_found_changed_and_deleted(services: Opened) -> None:
    made = await registered(services, description="all of them")
    path = f"/registered_limits/{made['id']}"
    assert made == {
        **SERVERS,
        "id": made["id"],
        "region_id": None,
        "description": "all of them",
        "links": {"self": f"http://cloud/identity{V3.removeprefix('/identity')}{path}"},
    }
    other = await registered(services, region_id="RegionOne", resource_name="class:VCPU", default_limit=-1)
    for query, found in (
        ("", [made, other]),
        ("?resource_name=servers", [made]),
        ("?region_id=RegionOne", [other]),
        (f"?service_id={SERVICE}", [made, other]),
        ("?service_id=other", []),
    ):
        assert sorted(await listed(services, "eve", f"/registered_limits{query}")) == sorted(one["id"] for one in found)
    changed = await asked(services, "root", "PATCH", path, {"registered_limit": {"default_limit": 0}})
    assert changed["registered_limit"] == made | {"default_limit": 0}
    assert (await asked(services, "eve", "GET", path))["registered_limit"] == made | {"default_limit": 0}
    clash = {"registered_limit": {"region_id": "RegionOne", "resource_name": "class:VCPU"}}
    await asked(services, "root", "PATCH", path, clash, 409)
    await asked(services, "root", "DELETE", path, status=204)
    await asked(services, "root", "GET", path, status=404)


async def test_a_limit_is_that_of_one_project(services: Opened) -> None:
    of = await registered(services)
    [made] = (await limited(services, project_id="p1"))["limits"]
    path = f"/limits/{made['id']}"
    assert (made["resource_limit"], made["project_id"], made["domain_id"]) == (5, "p1", None)
    assert (made["service_id"], made["region_id"], made["resource_name"]) == (SERVICE, None, "servers")
    [theirs] = (await limited(services, project_id="p2", resource_limit=0))["limits"]
    [of_all] = (await limited(services, domain_id="default"))["limits"]
    assert len(await listed(services, "root", "/limits")) == 3
    assert await listed(services, "root", "/limits?project_id=p2&resource_name=servers") == [theirs["id"]]
    assert await listed(services, "root", "/limits?domain_id=default") == [of_all["id"]]
    assert await listed(services, "root", "/limits?resource_name=class:VCPU") == []
    assert await listed(services, "ann", "/limits") == [made["id"]]
    assert await listed(services, "ann", "/limits?project_id=p2") == []
    assert (await asked(services, "ann", "GET", path))["limit"] == made
    await asked(services, "bob", "GET", path, status=403)
    changed = await asked(services, "root", "PATCH", path, {"limit": {"resource_limit": 0}})
    assert changed["limit"] == made | {"resource_limit": 0}
    await limited(services, 409, project_id="p1")
    for method, body in (("DELETE", None), ("PATCH", {"registered_limit": {"default_limit": 1}})):
        await asked(services, "root", method, f"/registered_limits/{of['id']}", body, 403)
    await asked(services, "root", "DELETE", path, status=204)
    await asked(services, "root", "GET", path, status=404)


async def test_the_limits_of_a_project_end_with_it(services: Opened) -> None:
    await registered(services)
    [made] = (await limited(services, project_id="p2"))["limits"]
    await asked(services, "root", "DELETE", "/projects/p2", status=204)
    await asked(services, "root", "GET", f"/limits/{made['id']}", status=404)


async def test_of_several_limits_all_are_made_or_none(services: Opened) -> None:
    twice = {"registered_limits": [SERVERS | {"resource_name": "class:VCPU"}, SERVERS, SERVERS]}
    await asked(services, "root", "POST", "/registered_limits", twice, 409)
    assert await listed(services, "root", "/registered_limits") == []


async def test_what_is_refused(services: Opened) -> None:
    await limited(services, 403, project_id="p1")  # without a registered limit
    await registered(services)
    await limited(services, 400)
    await limited(services, 400, project_id="p1", domain_id="default")
    await limited(services, 400, project_id="none")
    await limited(services, 400, domain_id="none")
    await limited(services, 400, project_id="p1", resource_limit=-2)
    await limited(services, 400, project_id="p1", unknown=1)
    await limited(services, 403, project_id="p1", region_id="RegionOne")  # the registered one is that of all regions
    for fields in ({"service_id": "none"}, {"region_id": "none"}, {"default_limit": 2**31}, {"resource_name": ""}):
        await asked(services, "root", "POST", "/registered_limits", {"registered_limits": [SERVERS | fields]}, 400)
    for body in ({"registered_limits": []}, {}):
        await asked(services, "root", "POST", "/registered_limits", body, 400)
    await asked(services, "ann", "POST", "/registered_limits", {"registered_limits": [SERVERS]}, 403)
    await asked(services, "ann", "POST", "/limits", {"limits": []}, 403)
    await asked(services, "", "GET", "/limits/model", status=401)
    assert (await asked(services, "ann", "GET", "/limits/model"))["model"]["name"] == "flat"


async def test_registered_limits_do_not_keep_a_service_or_a_region(services: Opened) -> None:
    service = await asked(services, "root", "POST", "/services", {"service": {"type": "dns"}}, 201)
    region = await asked(services, "root", "POST", "/regions", {"region": {"id": "far"}}, 201)
    made = await registered(services, service_id=service["service"]["id"], region_id=region["region"]["id"])
    for path in (f"/services/{service['service']['id']}", "/regions/far"):
        await asked(services, "root", "DELETE", path, status=204)
    assert (await asked(services, "root", "GET", f"/registered_limits/{made['id']}"))["registered_limit"] == made
    await asked(services, "root", "DELETE", f"/registered_limits/{made['id']}", status=204)
