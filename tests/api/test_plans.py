"""Plans and decisions: why a server goes there, or nowhere; before and after, for administrators and for owners."""

from typing import Any

import pytest

from tests.api.front import OTHER_PROJECT, Front, fault
from tests.api.test_instance_actions import action
from tests.api.test_zones import disable, put_into_zone
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.host import Zone
from whimbrel.ports.cloud import Rules

HOSTS = ["h1", "h2", "h3"]
HUGE = Flavor(flavor_id="9", name="huge", vcpus=5, memory_mib=512, root_gib=1)


async def planned(front: Front, server_id: str, who: str = "admin", **requested: Any) -> Any:
    answer = await front.ask("POST", "/whimbrel/plans", {"plan": {"server": server_id, **requested}}, who=who)
    assert answer.status_code == 200, answer.text
    return answer.json()["plan"]


async def refusal(front: Front, code: int, name: str, who: str = "admin", **requested: Any) -> str:
    return fault(await front.ask("POST", "/whimbrel/plans", {"plan": requested}, who=who), name, code)


async def decisions(front: Front, run_id: str, who: str = "admin") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await front.get(f"/whimbrel/moves/{run_id}/decisions", who=who))["decisions"]
    return found


async def newest_run(front: Front, server_id: str) -> Any:
    return (await front.get(f"/whimbrel/moves?server={server_id}&kind=any", who="admin"))["moves"][0]


async def booted(front: Front) -> str:
    await front.world.cloud.flavors.create(HUGE, 0.0)
    return await front.boot(who="admin", host="h1")


async def test_an_administrator_sees_every_host_with_its_weights_or_its_reason(front: Front) -> None:
    server_id = await booted(front)
    await disable(front, "h3")
    plan = await planned(front, server_id, action="resize", flavor="2")
    assert (plan["found"], plan["chosen"], plan["source"], plan["untold"]) == (True, ["h2"], "h1", 0)
    assert plan["asked"] == {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 2}
    assert (plan["availability_zone"], plan["hosts"]) == ("nova", 3)
    by_host = {one["host"]: one for one in plan["considered"]}
    assert (by_host["h2"]["verdict"], by_host["h2"]["reason"]) == ("in", None)
    assert by_host["h1"]["reason"]["words"] == "it is the host that the server is on"
    assert by_host["h3"]["reason"]["constraint"] == "ComputeFilter"
    assert plan["summary"].startswith("1 of 3 hosts fit; of the others, 1: ")
    assert plan["change"] is None


async def test_a_plan_changes_nothing_and_its_move_does_the_same(front: Front) -> None:
    server_id = await booted(front)
    before = await front.show(server_id, who="admin")
    plan = await planned(front, server_id, action="migrate")
    assert await front.show(server_id, who="admin") == before
    await front.act(server_id, {"migrate": None}, who="admin")
    await front.settle()
    run = await newest_run(front, server_id)
    assert run["target"] == plan["chosen"][0]
    [decision] = await decisions(front, run["id"])
    assert decision["step"] == "choose_target"
    for key in ("summary", "chosen", "considered", "counts", "hosts", "asked"):
        assert decision[key] == plan[key], key


async def test_no_host_says_what_would_help(front: Front) -> None:
    server_id = await booted(front)
    plan = await planned(front, server_id, action="resize", flavor="9")
    assert (plan["found"], plan["chosen"]) == (False, [])
    assert plan["summary"].startswith("No valid host was found. Of 3 hosts considered, ")
    assert plan["change"].endswith(" would fit with a flavor with at most 4 VCPU.")
    assert [miss["host"] for miss in plan["misses"]] == ["h2", "h3"]
    [reason] = plan["misses"][0]["reasons"]
    assert (reason["resource"], reason["asked"], reason["free"]) == ("VCPU", 5, 4)


async def test_an_owner_sees_numbers_and_no_names_of_hosts(front: Front) -> None:
    server_id = await booted(front)
    for flavor, change in (("2", None), ("9", "A flavor with at most 4 VCPU would fit.")):
        plan = await planned(front, server_id, who="member", action="resize", flavor=flavor)
        assert (plan["chosen"], plan["considered"], plan["misses"], plan["source"]) == ([], [], [], None)
        assert (plan["found"], plan["change"], plan["hosts"]) == (change is None, change, 3)
        assert not any(host in str(plan) for host in HOSTS)


async def test_what_one_may_not_do_one_may_not_plan(front: Front) -> None:
    server_id = await booted(front)
    other = f"member@{OTHER_PROJECT}"
    resize = {"server": server_id, "action": "resize", "flavor": "2"}
    assert "could not be found" in await refusal(front, 404, "itemNotFound", other, **resize)
    await refusal(front, 403, "forbidden", "reader", **resize)
    await refusal(front, 403, "forbidden", "member", server=server_id, action="migrate")
    await refusal(front, 403, "forbidden", "manager", server=server_id, action="migrate", host="h2")
    await refusal(front, 403, "forbidden", "manager", server=server_id, action="migrate", availability_zone="nova")
    assert (await planned(front, server_id, "manager", action="migrate"))["found"]
    await front.act(server_id, {"lock": None}, who="admin")
    assert "is locked" in await refusal(front, 409, "conflictingRequest", "member", **resize)
    assert (await planned(front, server_id, action="resize", flavor="2"))["found"]


async def test_what_the_request_would_be_refused_for_the_plan_is_refused_for(front: Front) -> None:
    server_id = await booted(front)
    for requested, said in (
        ({"action": "resize"}, "needs 'flavor'"),
        ({"action": "resize", "flavor": "1"}, "must change flavor"),
        ({"action": "resize", "flavor": "none"}, "Flavor none could not be found"),
        ({"action": "resize", "flavor": "2", "host": "h2"}, "chooses its host itself"),
        ({"action": "migrate", "flavor": "2"}, "keeps the flavor"),
        ({"action": "migrate", "host": "h1"}, "where the server exists"),
        ({"action": "migrate", "host": "h9"}, "h9 could not be found"),
        ({"action": "migrate", "availability_zone": "moon"}, "zone moon is not there"),
        ({"action": "fly"}, "action"),
    ):
        assert said in await refusal(front, 400, "badRequest", server=server_id, **requested), requested
    await front.act(server_id, {"os-stop": None})
    requested = {"server": server_id, "action": "migrate"}
    assert "task_state" in await refusal(front, 409, "conflictingRequest", **requested)


async def test_a_plan_keeps_to_the_quota(front: Front) -> None:
    server_id = await booted(front)
    project = (await front.show(server_id))["tenant_id"]
    await front.ask("PUT", f"/os-quota-sets/{project}", {"quota_set": {"cores": 1, "force": True}}, who="admin")
    requested = {"server": server_id, "action": "resize", "flavor": "2"}
    said = await refusal(front, 403, "forbidden", **requested)
    assert said == fault(await front.act(server_id, {"resize": {"flavorRef": "2"}}), "forbidden", 403)
    assert (await planned(front, server_id, action="migrate"))["found"]


async def test_a_host_and_a_zone_may_be_asked_for(front: Front) -> None:
    server_id = await booted(front)
    await front.world.cloud.zones.ensure(Zone(id="east", name="east", created_at=0.0))
    await put_into_zone(front, "east", "h3")
    assert (await planned(front, server_id, action="migrate", host="h2"))["chosen"] == ["h2"]
    east = await planned(front, server_id, action="migrate", availability_zone="east")
    assert (east["chosen"], east["availability_zone"]) == (["h3"], "east")
    stays = await planned(front, server_id, action="migrate", availability_zone="nova")
    assert stays["chosen"] == ["h2"]


@pytest.mark.cloud(rules=Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, az_on_move="keep"))
async def test_a_word_that_is_no_policy_ends_a_plan_as_it_ends_the_move(front: Front) -> None:
    server_id = await booted(front)
    requested = {"aggregate": {"name": "odd"}}
    number = (await front.ask("POST", "/os-aggregates", requested, who="admin")).json()["aggregate"]["id"]
    await front.world.cloud.aggregates.set_metadata(number, {"az_on_move": "perhaps"}, 0.0)
    await front.ask("POST", f"/os-aggregates/{number}/action", {"add_host": {"host": "h1"}}, who="admin")
    plan = await planned(front, server_id, action="migrate")
    assert (plan["found"], plan["considered"], plan["hosts"]) == (False, [], 0)
    await front.act(server_id, {"migrate": None}, who="admin")
    await front.settle()
    run = await newest_run(front, server_id)
    assert run["message"] == plan["summary"]
    assert await decisions(front, run["id"]) == []


# Afterwards


async def test_the_decision_of_a_create_that_found_no_host(front: Front) -> None:
    await front.world.cloud.flavors.create(HUGE, 0.0)
    server_id = await front.boot(flavorRef="9")
    run = await newest_run(front, server_id)
    [decision] = await decisions(front, run["id"])
    assert decision["change"].endswith("would fit with a flavor with at most 4 VCPU.")
    assert len(decision["considered"]) == 3
    server = await front.show(server_id)
    assert server["status"] == "ERROR"
    assert server["fault"]["message"] == decision["summary"]
    assert (await action(front, server_id, "create", who="admin"))["events"][0]["details"] == decision["summary"]


async def test_an_owner_sees_his_part_of_a_decision(front: Front) -> None:
    server_id = await booted(front)
    run_id = (await newest_run(front, server_id))["id"]
    [decision] = await decisions(front, run_id, who="reader")
    assert (decision["found"], decision["chosen"], decision["considered"]) == (True, [], [])
    assert not any(host in str(decision) for host in HOSTS)
    for path, who in ((run_id, f"member@{OTHER_PROJECT}"), ("unknown", "member"), ("unknown", "admin")):
        fault(await front.ask("GET", f"/whimbrel/moves/{path}/decisions", who=who), "itemNotFound", 404)


async def test_the_event_of_a_move_says_how_many_fitted_and_why_not_the_others(front: Front) -> None:
    server_id = await booted(front)
    await front.act(server_id, {"resize": {"flavorRef": "2"}})
    await front.settle()
    events = {event["event"]: event for event in (await action(front, server_id, "resize", who="admin"))["events"]}
    run = await newest_run(front, server_id)
    summary = "2 of 3 hosts fit; of the others, 1: it is the host that the server is on."
    assert events["cold_migrate"]["details"] == summary
    assert events["compute_finish_resize"]["details"] is None
    move = (await front.get(f"/whimbrel/moves/{run['id']}", who="admin"))["move"]
    assert move["summary"] == summary
