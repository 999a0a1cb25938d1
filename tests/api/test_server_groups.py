"""Server groups over the compute API, at every version, and what they do to servers."""

from typing import Any

import httpx
import pytest

from tests.api.front import OTHER_PROJECT, Front, fault
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import PROJECT, USER

NOWHERE = "99999999-9999-4999-8999-999999999999"


async def send(front: Front, group: dict[str, Any], **more: Any) -> httpx.Response:
    return await front.ask("POST", "/os-server-groups", {"server_group": group}, **more)


async def make(front: Front, policy: str = "anti-affinity", name: str = "g", **more: Any) -> str:
    rules = {"rules": more.pop("rules")} if "rules" in more else {}
    answer = await send(front, {"name": name, "policy": policy, **rules}, **more)
    assert answer.status_code == 200, answer.text
    group_id: str = answer.json()["server_group"]["id"]
    return group_id


async def get(front: Front, group_id: str, **more: Any) -> Any:
    return (await front.get(f"/os-server-groups/{group_id}", **more))["server_group"]


async def boot(front: Front, name: str, group: str, **more: Any) -> httpx.Response:
    requested = {"name": name, "flavorRef": "1", "imageRef": "33333333-3333-4333-8333-333333333333", "networks": "none"}
    body = {"server": {**requested, **more.pop("requested", {})}, "os:scheduler_hints": {"group": group}}
    return await front.ask("POST", "/servers", body, **more)


async def booted(front: Front, name: str, group: str, **more: Any) -> str:
    answer = await boot(front, name, group, **more)
    assert answer.status_code == 202, answer.text
    await front.settle()
    server_id: str = answer.json()["server"]["id"]
    return server_id


async def host_of(front: Front, server_id: str) -> HostName | None:
    return (await lookup.find(front.world.cloud, ServerId(server_id))).host


OLDEST = {"name": "g", "members": [], "policies": ["anti-affinity"], "metadata": {}}
OWNED = {"project_id": PROJECT, "user_id": USER}
NEWEST = {"name": "g", "members": [], "policy": "anti-affinity", "rules": {}}


@pytest.mark.parametrize(
    ("minor", "shown"),
    [
        *((minor, OLDEST) for minor in (1, 12)),
        *((minor, OLDEST | OWNED) for minor in (13, 15, 63)),
        *((minor, NEWEST | OWNED) for minor in (64, 104)),
    ],
)
async def test_how_it_is_made_and_shown(front: Front, minor: int, shown: dict[str, Any]) -> None:
    requested = {"policies": ["anti-affinity"]} if minor < 64 else {"policy": "anti-affinity"}
    answer = await send(front, {"name": "g", **requested}, minor=minor)
    assert answer.status_code == 200
    made = answer.json()["server_group"]
    assert made == {"id": made["id"], **shown}
    assert await get(front, made["id"], minor=minor) == made
    assert (await front.get("/os-server-groups", minor=minor))["server_groups"] == [made]


@pytest.mark.parametrize("policy", ["soft-affinity", "soft-anti-affinity"])
async def test_soft_policies_are_there_from_2_15_on(front: Front, policy: str) -> None:
    fault(await send(front, {"name": "g", "policies": [policy]}, minor=14), "badRequest", 400)
    answer = await send(front, {"name": "g", "policies": [policy]}, minor=15)
    assert answer.json()["server_group"]["policies"] == [policy]
    assert (await get(front, await make(front, policy)))["policy"] == policy


async def test_rules_are_for_anti_affinity_from_2_64_on(front: Front) -> None:
    for most in (3, "3"):
        made = await make(front, rules={"max_server_per_host": most})
        assert (await get(front, made))["rules"] == {"max_server_per_host": 3}
        assert (await get(front, made, minor=63))["metadata"] == {}
    said = await send(front, {"name": "g", "policy": "affinity", "rules": {"max_server_per_host": 3}})
    assert fault(said, "badRequest", 400) == "Only anti-affinity policy supports rules."
    assert (await send(front, {"name": "g", "policy": "affinity", "rules": {}})).status_code == 200
    for rules in ({"max_server_per_host": 0}, {"max_server_per_host": "x"}, {"most": 1}, []):
        fault(await send(front, {"name": "g", "policy": "anti-affinity", "rules": rules}), "badRequest", 400)


@pytest.mark.parametrize(
    ("minor", "requested"),
    [
        (63, {"name": "g", "policy": "affinity"}),
        (64, {"name": "g", "policies": ["affinity"]}),
        (63, {"name": "g", "policies": []}),
        (63, {"name": "g", "policies": ["affinity", "anti-affinity"]}),
        (63, {"name": "g", "policies": ["any"]}),
        (63, {"policies": ["affinity"]}),
        (63, {"name": "", "policies": ["affinity"]}),
        (64, {"name": "g"}),
        (64, {"name": "g", "policy": "affinity", "metadata": {}}),
    ],
)
async def test_what_is_not_understood_is_refused(front: Front, minor: int, requested: dict[str, Any]) -> None:
    fault(await send(front, requested, minor=minor), "badRequest", 400)
    assert (await front.get("/os-server-groups"))["server_groups"] == []


async def test_a_list_is_of_the_project_page_by_page_and_of_all_for_administrators(front: Front) -> None:
    mine = [await make(front, name=f"g{number}") for number in range(3)]
    theirs = await make(front, who=f"member@{OTHER_PROJECT}")

    async def listed(query: str = "", **more: Any) -> list[str]:
        return [group["id"] for group in (await front.get(f"/os-server-groups{query}", **more))["server_groups"]]

    assert await listed() == mine == await listed(who="reader")
    assert await listed("?all_projects=True") == mine
    assert await listed("?all_projects=True", who="admin") == await listed("?all_projects", who="admin")
    assert await listed("?all_projects=True", who="admin") == [*mine, theirs]
    assert await listed("?all_projects=False", who="admin") == mine == await listed(who="admin")
    assert await listed("?limit=1&offset=1") == mine[1:2]
    assert await listed("?offset=2") == mine[2:]
    assert await listed("?limit=0") == mine
    fault(await front.ask("GET", "/os-server-groups?limit=x"), "badRequest", 400)
    fault(await front.ask("GET", "/os-server-groups?colour=red"), "badRequest", 400)
    assert await listed("?colour=red", minor=74) == mine


async def test_who_may_do_what(front: Front) -> None:
    made = await make(front)
    fault(await send(front, {"name": "g", "policy": "affinity"}, who="reader"), "forbidden", 403)
    fault(await front.ask("DELETE", f"/os-server-groups/{made}", who="reader"), "forbidden", 403)
    for method in ("GET", "DELETE"):
        stranger = await front.ask(method, f"/os-server-groups/{made}", who=f"member@{OTHER_PROJECT}")
        fault(stranger, "forbidden", 403)
        fault(await front.ask(method, f"/os-server-groups/{NOWHERE}"), "itemNotFound", 404)
    assert (await get(front, made, who=f"admin@{OTHER_PROJECT}"))["id"] == made


async def test_quotas(front: Front) -> None:
    limits = {"quota_set": {"server_groups": 2, "server_group_members": 1}}
    assert (await front.ask("PUT", f"/os-quota-sets/{PROJECT}", limits, who="admin")).status_code == 200
    made = await make(front)
    await make(front)
    fault(await send(front, {"name": "g", "policy": "affinity"}), "forbidden", 403)
    detail = (await front.get(f"/os-quota-sets/{PROJECT}/detail", who="admin"))["quota_set"]
    assert detail["server_groups"] == {"limit": 2, "in_use": 2, "reserved": 0}
    assert (await front.get("/limits"))["limits"]["absolute"]["totalServerGroupsUsed"] == 2
    await booted(front, "a", made)
    fault(await boot(front, "b", made), "forbidden", 403)
    assert (await front.get("/servers"))["servers"][0]["name"] == "a"
    assert len((await front.get("/servers"))["servers"]) == 1


# Servers


async def test_a_server_is_in_its_group_until_one_of_both_is_deleted(front: Front) -> None:
    made = await make(front)
    first, second = await booted(front, "a", made), await booted(front, "b", made)
    other = await front.boot("c")
    assert (await get(front, made))["members"] == [first, second]
    assert (await front.show(first))["server_groups"] == [made]
    assert (await front.show(first))["scheduler_hints"] == {"group": [made]}
    assert (await front.show(other))["server_groups"] == []
    assert "server_groups" not in await front.show(first, minor=70)
    changed = await front.ask("PUT", f"/servers/{first}", {"server": {"name": "z"}}, minor=75)
    assert changed.json()["server"]["server_groups"] == [made]
    await front.ask("DELETE", f"/servers/{first}")
    await front.settle()
    assert (await get(front, made))["members"] == [second]
    assert (await front.ask("DELETE", f"/os-server-groups/{made}")).status_code == 204
    assert (await front.show(second))["server_groups"] == []


async def test_a_group_that_is_not_there_is_refused(front: Front) -> None:
    theirs = await make(front, who=f"member@{OTHER_PROJECT}")
    for group in (NOWHERE, theirs):
        said = fault(await boot(front, "a", group), "badRequest", 400)
        assert said == f"Instance group {group} could not be found."
    fault(await boot(front, "a", "no uuid"), "badRequest", 400)
    assert (await front.get("/servers"))["servers"] == []


async def test_servers_of_an_anti_affinity_group_are_apart(front: Front) -> None:
    made = await make(front)
    servers = [await booted(front, name, made) for name in "abc"]
    assert {await host_of(front, server) for server in servers} == {"h1", "h2", "h3"}
    fourth = await booted(front, "d", made)
    assert (await front.show(fourth))["status"] == "ERROR"
    assert "anti-affinity" in str(await why(front, fourth)).lower()


async def test_servers_made_at_once_are_apart_too(front: Front) -> None:
    made = await make(front)
    await booted(front, "a", made, requested={"max_count": 3, "min_count": 3})
    assert {server.host for server in await all_of(front)} == {"h1", "h2", "h3"}


async def test_servers_of_an_affinity_group_are_together(front: Front) -> None:
    made = await make(front, "affinity")
    servers = [await booted(front, name, made) for name in "abc"]
    assert len({await host_of(front, server) for server in servers}) == 1
    assert (await front.show(await booted(front, "d", made)))["status"] == "ACTIVE"
    assert (await front.show(await booted(front, "e", made)))["status"] == "ERROR"  # a host has four cpus


async def test_a_deleted_group_lets_its_servers_go_where_they_want(front: Front) -> None:
    made = await make(front, "affinity")
    first, second = await booted(front, "a", made), await booted(front, "b", made)
    await front.ask("DELETE", f"/os-server-groups/{made}")
    assert (await front.act(first, {"migrate": None}, who="admin")).status_code == 202
    await front.settle()
    assert (await front.show(first))["status"] == "VERIFY_RESIZE"
    assert await host_of(front, first) != await host_of(front, second)


async def why(front: Front, server_id: str) -> str | None:
    [run] = await front.world.cloud.journal.find(RunFilter(subject=ServerId(server_id), limit=1))
    return run.message


async def all_of(front: Front) -> list[Any]:
    found = await front.get("/servers")
    return [await lookup.find(front.world.cloud, ServerId(server["id"])) for server in found["servers"]]
