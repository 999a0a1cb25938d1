"""Live migrations for operators: planned, explained, begun with a policy, and followed."""

import json
from typing import Any

import pytest

from tests.api.front import Front, fault
from tests.api.live_moves import SLOW, migrate_live, standing_at
from tests.api.test_plans import decisions, newest_run, planned
from tests.api.test_zones import put_into_zone
from whimbrel.adapters.prometheus.cloud_metrics import Readings


def cpu(*features: str) -> str:
    return json.dumps({"arch": "x86_64", "vendor": "Intel", "model": "Server", "features": features})


NEW, OLD = cpu("aes", "avx", "avx2", "avx512f"), cpu("aes", "avx")
ONE_NEW = pytest.mark.cloud(cpu_infos={"h1": NEW, "h2": OLD, "h3": NEW})
ALL_OLD = pytest.mark.cloud(cpu_infos={"h1": NEW, "h2": OLD, "h3": OLD})
SLOWLY = pytest.mark.cloud(times=SLOW)


async def booted(front: Front) -> str:
    return await front.boot(who="admin", host="h1")


async def refused(front: Front, path: str, body: dict[str, Any], who: str = "admin", code: int = 400) -> str:
    name = {400: "badRequest", 403: "forbidden", 409: "conflictingRequest"}[code]
    return fault(await front.ask("POST", path, body, who=who), name, code)


@ONE_NEW
async def test_a_plan_of_a_live_move_names_what_a_processor_lacks_and_the_move_does_the_same(front: Front) -> None:
    server_id = await booted(front)
    plan = await planned(front, server_id, action="migrate", live=True)
    assert (plan["live"], plan["chosen"]) == (True, ["h3"])
    [lacks] = [one["reason"] for one in plan["considered"] if one["host"] == "h2"]
    assert (lacks["constraint"], lacks["words"]) == ("processor", "its processor lacks avx2 and 1 more")
    assert (lacks["resource"], lacks["asked"], lacks["free"]) == ("CPU features", 4, 2)
    cold = await planned(front, server_id, action="migrate")
    assert (cold["live"], sorted(cold["chosen"])) == (False, ["h2", "h3"])

    assert (await migrate_live(front, server_id)).status_code == 202
    await front.settle()
    run = await newest_run(front, server_id)
    assert (run["saga"], run["state"], run["target"]) == ("live_migrate", "done", "h3")
    [why] = await decisions(front, run["id"])
    for key in ("summary", "chosen", "considered", "counts", "asked"):
        assert why[key] == plan[key], key


@ALL_OLD
async def test_without_a_host_that_has_the_processor_nothing_is_moved(front: Front) -> None:
    server_id = await booted(front)
    plan = await planned(front, server_id, action="migrate", live=True)
    assert not plan["found"]
    assert "2: its processor lacks avx2 and 1 more" in plan["summary"]
    assert "comes nearest, but its processor lacks avx2 and 1 more" in plan["change"]
    owners = await planned(front, server_id, "manager", action="migrate", live=True)
    assert (owners["summary"], owners["change"], owners["considered"]) == (plan["summary"], None, [])
    await migrate_live(front, server_id, host="h2")
    await front.settle()
    run = await newest_run(front, server_id)
    assert (run["state"], run["status"]) == ("undone", "error")
    assert "its processor lacks avx2 and 1 more" in run["message"]
    assert (await planned(front, server_id, action="migrate"))["found"]


async def test_a_plan_of_a_live_move_is_refused_as_the_move_is(front: Front) -> None:
    server_id = await booted(front)
    for requested, said in (
        ({"action": "resize", "flavor": "2"}, "A resize stops the server"),
        ({"action": "migrate", "flavor": "2"}, "keeps the flavor"),
        ({"action": "migrate", "availability_zone": "moon"}, "zone moon is not there"),
        ({"action": "migrate", "host": "h1"}, "where the server exists"),
    ):
        body = {"plan": {"server": server_id, "live": True, **requested}}
        assert said in await refused(front, "/whimbrel/plans", body)
    body = {"plan": {"server": server_id, "live": True, "action": "migrate"}}
    await refused(front, "/whimbrel/plans", body, who="member", code=403)
    body["plan"]["host"] = "h2"
    await refused(front, "/whimbrel/plans", body, who="manager", code=403)
    del body["plan"]["host"]
    await front.act(server_id, {"os-stop": None})
    await front.settle()
    assert "vm_state stopped" in await refused(front, "/whimbrel/plans", body, code=409)


async def test_a_live_move_to_a_zone_is_planned_as_it_goes(front: Front) -> None:
    await put_into_zone(front, "north", "h3")
    server_id = await booted(front)
    plan = await planned(front, server_id, action="migrate", live=True, availability_zone="north")
    assert (plan["live"], plan["chosen"]) == (True, ["h3"])
    assert (plan["availability_zone"], plan["availability_zone_because"]) == ("north", "it is to move to zone north")
    assert (await live_move(front, server_id, availability_zone="north")).status_code == 202
    await front.settle()
    assert (await newest_run(front, server_id))["target"] == "h3"


# Moves


async def live_move(front: Front, server_id: str, **requested: Any) -> Any:
    path = f"/whimbrel/servers/{server_id}/move"
    return await front.ask("POST", path, {"move": {"live": True, **requested}}, who="admin")


async def test_an_operator_begins_a_live_move_with_a_policy(front: Front) -> None:
    server_id = await booted(front)
    policy = {"longest_pause_ms": 50, "deadline_s": 7.5, "ladder": ["post_copy"]}
    answer = await live_move(front, server_id, host="h2", policy=policy)
    assert answer.status_code == 202, answer.text
    move = answer.json()["move"]
    assert (move["saga"], move["state"], move["source"]) == ("live_migrate", "open", "h1")
    assert move["facts"]["live"]["policy"] == policy
    await front.settle()
    move = (await front.get(f"/whimbrel/moves/{move['id']}", who="admin"))["move"]
    assert (move["state"], move["status"], move["target"]) == ("done", "completed", "h2")
    assert (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"] == "h2"


async def test_a_live_move_that_is_impossible_is_refused(front: Front) -> None:
    server_id = await booted(front)
    for requested, said in (
        ({"availability_zone": "moon"}, "zone moon is not there"),
        ({"flavor": "2"}, "keeps the flavor"),
        ({"policy": {"ladder": ["pray"]}}, "attribute 0. Value: pray."),
        ({"policy": {"rung_s": 0}}, "rung_s"),
        ({"policy": {"hurry": True}}, "hurry"),
        ({"live": False, "policy": {"deadline_s": 1}}, "is for live migrations"),
    ):
        path = f"/whimbrel/servers/{server_id}/move"
        assert said in await refused(front, path, {"move": {"live": True, **requested}})
    assert (await front.get("/whimbrel/moves", who="admin"))["moves"] == []


@SLOWLY
async def test_a_live_migration_that_waits_for_its_turn_cannot_be_completed_and_says_so(front: Front) -> None:
    async with standing_at(front, await booted(front), "queued") as migration:
        path = f"/whimbrel/moves/{migration['uuid']}/action"
        answer = await front.ask("POST", path, {"complete": None}, who="admin")
        assert "only one that transfers its guest can be" in fault(answer, "conflictingRequest", 409)


@SLOWLY
async def test_a_move_shows_its_transfer(front: Front) -> None:
    server_id = await booted(front)
    front.world.simulated.dirty_rates[server_id] = 200 << 20  # type: ignore[index]
    async with standing_at(front, server_id, "running") as migration:
        [brief] = (await front.get("/whimbrel/moves?open=true", who="admin"))["moves"]
        assert (brief["id"], brief["saga"], brief["at"]) == (migration["uuid"], "live_migrate", "transfer")
        move = (await front.get(f"/whimbrel/moves/{brief['id']}", who="admin"))["move"]
        transfer = move["transfer"]
        assert (transfer["rate"], transfer["dirty_rate"], transfer["throttle_percent"]) == (100 << 20, 160 << 20, 20)
        assert (transfer["memory_total"], transfer["prediction"]) == (512 << 20, "will not converge at this rate")
        assert (transfer["rung"], transfer["ends_in_s"]) == (None, None)
        path = f"/whimbrel/moves/{brief['id']}/action"
        fault(await front.ask("POST", path, {"complete": None}, who="manager"), "forbidden", 403)
        answer = await front.ask("POST", path, {"complete": None}, who="admin")
        assert (answer.status_code, answer.json()["move"]["verdict"]) == (202, "confirm")
    move = (await front.get(f"/whimbrel/moves/{brief['id']}", who="admin"))["move"]
    assert (move["state"], move["status"]) == ("done", "completed")
    fault(await front.ask("POST", path, {"complete": None}, who="admin"), "conflictingRequest", 409)


@SLOWLY
async def test_a_live_move_is_turned_back_by_an_abort(front: Front) -> None:
    server_id = await booted(front)
    async with standing_at(front, server_id, "running") as migration:
        path = f"/whimbrel/moves/{migration['uuid']}/action"
        answer = await front.ask("POST", path, {"turn_back": None}, who="admin")
        assert answer.status_code == 202, answer.text
    move = (await front.get(f"/whimbrel/moves/{migration['uuid']}", who="admin"))["move"]
    assert (move["state"], move["turned"], move["status"]) == ("undone", "asked", "cancelled")
    assert (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"] == "h1"
    fault(await front.ask("POST", path, {"turn_back": None}, who="admin"), "conflictingRequest", 409)


@SLOWLY
@pytest.mark.parametrize(("dirty_mib_s", "expected"), [(200, "diverging"), (10, "converging")])
async def test_its_transfer_is_counted_by_its_prospect(front: Front, dirty_mib_s: int, expected: str) -> None:
    server_id = await booted(front)
    front.world.simulated.dirty_rates[server_id] = dirty_mib_s << 20  # type: ignore[index]

    async def counted() -> dict[str, float]:
        readings = Readings(front.world.cloud)
        await readings.refresh()
        [family] = [each for each in readings.collect() if each.name == "whimbrel_live_transfers"]
        return {sample.labels["prospect"]: sample.value for sample in family.samples if sample.value}

    assert await counted() == {}
    async with standing_at(front, server_id, "running"):
        assert await counted() == {expected: 1.0}
    assert await counted() == {}
