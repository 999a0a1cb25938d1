"""Moving an affinity group together, over Whimbrel's own part of the API."""

from typing import Any

import httpx

from tests.api.front import Front, fault
from tests.api.test_server_groups import NOWHERE, all_of, boot, booted, host_of, make
from tests.api.test_zones import put_into_zone
from whimbrel.domain.ids import GroupId
from whimbrel.ports.placement.placement import GroupLocations


async def ask_to_move(front: Front, group: str, **more: Any) -> httpx.Response:
    who = more.pop("who", "admin")
    return await front.ask("POST", f"/whimbrel/server-groups/{group}/move", {"move": more}, who=who)


async def moved(front: Front, group: str, **more: Any) -> Any:
    answer = await ask_to_move(front, group, **more)
    assert answer.status_code == 202, answer.text
    return answer.json()["server_group"]


async def look(front: Front, group: str) -> Any:
    return (await front.get(f"/whimbrel/server-groups/{group}", who="admin"))["server_group"]


async def confirm_all(front: Front, group: str) -> None:
    for server in (await look(front, group))["servers"]:
        assert (await front.act(server["id"], {"confirmResize": None})).status_code == 204
    await front.settle()


async def places(front: Front, group: str) -> GroupLocations:
    return await front.world.cloud.placement.group_places(GroupId(group))


async def two_together(front: Front) -> tuple[str, list[str], str]:
    """Return an affinity group with two servers, and the host that they are on."""
    group = await make(front, "affinity")
    servers = [await booted(front, name, group) for name in "ab"]
    host = await host_of(front, servers[0])
    assert host
    return group, servers, host


async def test_a_group_moves_together(front: Front) -> None:
    group, servers, source = await two_together(front)
    assert (await look(front, group))["state"] == "resting"
    begun = await moved(front, group)
    target = begun["moving_to"]
    assert target != source
    assert (begun["state"], begun["hosts"]) == ("moving", [source])
    assert [server["reason"] for server in begun["servers"]] == [None, None]
    await front.settle()
    now = await look(front, group)
    assert (now["state"], now["hosts"], now["moving_to"]) == ("waiting", [target], target)
    assert [(server["id"], server["status"], server["arrived"]) for server in now["servers"]] == [
        (server, "VERIFY_RESIZE", True) for server in servers
    ]
    await confirm_all(front, group)
    now = await look(front, group)
    assert (now["state"], now["hosts"], now["moving_to"]) == ("resting", [target], None)
    assert {server.host for server in await all_of(front)} == {target}


async def test_a_softer_group_moves_together_too(front: Front) -> None:
    group = await make(front, "soft-affinity")
    for name in "ab":
        await booted(front, name, group, requested={"host": "h1"}, who="admin")
    target = (await moved(front, group))["moving_to"]
    await front.settle()
    await confirm_all(front, group)
    assert ((await look(front, group))["hosts"], (await look(front, group))["state"]) == ([target], "resting")


async def test_to_a_named_host(front: Front) -> None:
    group, _, source = await two_together(front)
    target = next(name for name in ("h3", "h2") if name != source)
    assert (await moved(front, group, host=target))["moving_to"] == target
    await front.settle()
    assert (await look(front, group))["hosts"] == [target]


async def test_to_another_zone_and_going_on_there(front: Front) -> None:
    await put_into_zone(front, "south", "h3")
    group = await make(front, "affinity")
    here = {"host": "h1"}
    servers = [await booted(front, name, group, requested=here, who="admin") for name in "ab"]
    said = fault(await ask_to_move(front, group, host="h3"), "badRequest", 400)
    assert "it stays in zone nova" in said
    await front.act(servers[1], {"os-resetState": {"state": "error"}}, who="admin")
    assert (await moved(front, group, zone="south"))["moving_to"] == "h3"
    await front.settle()
    assert (await look(front, group))["state"] == "split"
    await front.act(servers[1], {"os-resetState": {"state": "active"}}, who="admin")
    await moved(front, group)
    await front.settle()
    await confirm_all(front, group)
    assert [(await front.show(server))["OS-EXT-AZ:availability_zone"] for server in servers] == ["south", "south"]


async def test_one_of_an_affinity_group_cannot_leave_the_others(front: Front) -> None:
    _, servers, source = await two_together(front)
    assert (await front.act(servers[0], {"migrate": None}, who="admin")).status_code == 202
    await front.settle()
    assert (await front.show(servers[0]))["status"] == "ACTIVE"
    assert await host_of(front, servers[0]) == source


async def test_the_host_has_room_for_all_of_them(front: Front) -> None:
    """Each other host has three of its four cpus taken: room for one, not for two."""
    group, _, source = await two_together(front)
    for host in {"h1", "h2", "h3"} - {source}:
        for number in range(3):
            await front.boot(f"{host}-{number}", host=host, who="admin")
    said = fault(await ask_to_move(front, group), "badRequest", 400)
    assert said.startswith("For all 2 servers of the group at once: No valid host was found.")
    assert not (await places(front, group)).is_moving
    assert {(await look(front, group))["state"]} == {"resting"}


async def test_who_does_not_arrive_leaves_it_split_and_asking_again_goes_on(front: Front) -> None:
    group, servers, source = await two_together(front)
    assert (await front.act(servers[1], {"os-resetState": {"state": "error"}}, who="admin")).status_code == 202
    begun = await moved(front, group)
    assert "vm_state error" in begun["servers"][1]["reason"]
    await front.settle()
    now = await look(front, group)
    assert (now["state"], now["hosts"]) == ("split", sorted([source, now["moving_to"]]))
    assert [server["arrived"] for server in now["servers"]] == [True, False]
    assert (await front.act(servers[1], {"os-resetState": {"state": "active"}}, who="admin")).status_code == 202
    assert (await moved(front, group))["moving_to"] == now["moving_to"]
    await front.settle()
    await confirm_all(front, group)
    assert (await look(front, group))["state"] == "resting"
    assert {server.host for server in await all_of(front)} == {now["moving_to"]}


async def test_who_goes_back_leaves_it_split(front: Front) -> None:
    group, servers, source = await two_together(front)
    await moved(front, group)
    await front.settle()
    assert (await front.act(servers[0], {"revertResize": None})).status_code == 202
    await front.settle()
    now = await look(front, group)
    assert (now["state"], [server["arrived"] for server in now["servers"]]) == ("split", [False, True])
    assert (await moved(front, group, host=source))["moving_to"] == source  # all of them back
    assert (await front.act(servers[1], {"revertResize": None})).status_code == 202
    await front.settle()
    assert ((await look(front, group))["state"], (await look(front, group))["hosts"]) == ("resting", [source])


async def test_a_server_made_meanwhile_goes_where_the_others_go(front: Front) -> None:
    group, _, _ = await two_together(front)
    target = (await moved(front, group))["moving_to"]
    new = await booted(front, "c", group)
    assert await host_of(front, new) == target


async def test_nothing_begins_where_nobody_can_be_moved(front: Front) -> None:
    group, servers, _ = await two_together(front)
    for server in servers:
        await front.act(server, {"os-resetState": {"state": "error"}}, who="admin")
    said = fault(await ask_to_move(front, group), "conflictingRequest", 409)
    assert "vm_state error" in said
    assert not (await places(front, group)).is_moving


async def test_what_cannot_be_asked(front: Front) -> None:
    group, _, source = await two_together(front)
    apart, empty = await make(front), await make(front, "affinity")
    assert "anti-affinity do not move together" in fault(await ask_to_move(front, apart), "badRequest", 400)
    fault(await ask_to_move(front, empty), "conflictingRequest", 409)
    fault(await ask_to_move(front, group, host=source), "conflictingRequest", 409)
    assert "nowhere" in fault(await ask_to_move(front, group, host="nowhere"), "badRequest", 400)
    fault(await ask_to_move(front, group, zone="nowhere"), "badRequest", 400)
    fault(await ask_to_move(front, group, colour="red"), "badRequest", 400)
    fault(await ask_to_move(front, NOWHERE), "itemNotFound", 404)
    fault(await ask_to_move(front, group, who="member"), "forbidden", 403)
    fault(await front.ask("GET", f"/whimbrel/server-groups/{group}", who="member"), "forbidden", 403)
    assert (await boot(front, "c", group)).status_code == 202


# Plans


async def planned(front: Front, group: str, **requested: Any) -> Any:
    body = {"plan": {"server_group": group, "action": "migrate", **requested}}
    answer = await front.ask("POST", "/whimbrel/plans", body, who="admin")
    assert answer.status_code == 200, answer.text
    return answer.json()["plan"]


async def no_plan(front: Front, code: int, name: str, who: str = "admin", **requested: Any) -> str:
    return fault(await front.ask("POST", "/whimbrel/plans", {"plan": requested}, who=who), name, code)


async def test_a_plan_of_a_group_changes_nothing_and_the_group_goes_there(front: Front) -> None:
    group, servers, source = await two_together(front)
    before = (await look(front, group), await places(front, group), await front.world.cloud.placement.allocations())
    plan = await planned(front, group)
    assert (await look(front, group), await places(front, group), await front.world.cloud.placement.allocations()) == (
        before
    )
    assert (plan["found"], plan["chosen"]) == (True, [plan["moving_to"]])
    assert plan["asked"] == {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 2}
    assert plan["servers"] == [
        {"id": server, "name": name, "source": source, "moves": True, "reason": None}
        for server, name in zip(servers, "ab", strict=True)
    ]
    reasons = {one["host"]: one["reason"] for one in plan["considered"]}
    assert (reasons[source]["words"], reasons[plan["moving_to"]]) == ("servers of the group are there", None)
    assert (await moved(front, group))["moving_to"] == plan["moving_to"]


async def test_a_plan_of_a_group_says_why_there_is_no_host(front: Front) -> None:
    group, _, source = await two_together(front)
    [other, full] = sorted({"h1", "h2", "h3"} - {source})
    await front.boot("big", flavorRef="2", host=full, who="admin")
    await front.boot("bigger", flavorRef="2", host=full, who="admin")
    plan = await planned(front, group, host=full)
    assert (plan["found"], plan["moving_to"], [one["moves"] for one in plan["servers"]]) == (False, None, [False] * 2)
    [why] = [one["reason"] for one in plan["considered"] if one["host"] == full]
    assert (why["resource"], why["asked"], why["free"]) == ("VCPU", 2, 0)
    assert plan["summary"] in fault(await ask_to_move(front, group, host=full), "badRequest", 400)
    assert (await planned(front, group))["moving_to"] == other


async def test_a_plan_of_a_group_says_who_would_not_move(front: Front) -> None:
    group, [first, second], _ = await two_together(front)
    assert (await front.act(first, {"resize": {"flavorRef": "2"}})).status_code == 202
    plan = await planned(front, group)
    reasons = {server["id"]: server["reason"] for server in plan["servers"]}
    assert reasons == {first: f"something is under way on server {first}", second: None}
    begun = await moved(front, group)
    assert {server["id"]: server["reason"] for server in begun["servers"]} == reasons


async def test_a_plan_goes_on_where_a_group_was_split(front: Front) -> None:
    group, [_, second], _ = await two_together(front)
    target = (await moved(front, group))["moving_to"]
    await front.settle()
    await front.act(second, {"revertResize": None})
    await front.settle()
    plan = await planned(front, group)
    assert (plan["moving_to"], [server["moves"] for server in plan["servers"]]) == (target, [False, True])


async def test_plans_of_groups_that_cannot_be(front: Front) -> None:
    apart = await make(front, "anti-affinity")
    server = await booted(front, "a", apart)
    assert "do not move together" in await no_plan(front, 400, "badRequest", server_group=apart, action="migrate")
    await no_plan(front, 404, "itemNotFound", server_group=NOWHERE, action="migrate")
    await no_plan(front, 403, "forbidden", who="manager", server_group=apart, action="migrate")
    words = "A plan is for a 'server' or for a 'server_group'."
    assert await no_plan(front, 400, "badRequest", action="migrate") == words
    assert await no_plan(front, 400, "badRequest", server=server, server_group=apart, action="migrate") == words
    group, _, source = await two_together(front)
    await no_plan(front, 400, "badRequest", server_group=group, action="resize", flavor="2")
    await no_plan(front, 400, "badRequest", server_group=group, action="migrate", host="h9")
    await no_plan(front, 409, "conflictingRequest", server_group=group, action="migrate", host=source)
