"""Migrations, and moves as they are."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.api.front import OTHER_PROJECT, PROJECT, Front, fault
from tests.api.live_moves import StopsAt
from whimbrel.sim.world.phases import Times

SINCE = {
    **dict.fromkeys(("id", "instance_uuid", "status", "source_compute", "source_node", "dest_compute"), 1),
    **dict.fromkeys(("dest_node", "dest_host", "old_instance_type_id", "new_instance_type_id"), 1),
    **dict.fromkeys(("created_at", "updated_at"), 1),
    "migration_type": 23,
    "uuid": 59,
    "user_id": 80,
    "project_id": 80,
}


async def resized(front: Front, name: str = "one") -> str:
    server_id = await front.boot(name, who="admin", host="h1")
    assert (await front.act(server_id, {"resize": {"flavorRef": "2"}})).status_code == 202
    await front.settle()
    return server_id


async def listed(front: Front, query: str = "", **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await front.get(f"/os-migrations{query}", **{"who": "admin", **more}))["migrations"]
    return found


async def test_fields_come_with_their_version(front: Front) -> None:
    server_id = await resized(front)
    for minor in (1, 22, 23, 58, 59, 79, 80, 104):
        [migration] = await listed(front, minor=minor)
        assert set(migration) == {key for key, since in SINCE.items() if minor >= since}
    assert migration["instance_uuid"] == server_id
    assert (migration["status"], migration["migration_type"]) == ("finished", "resize")
    assert (migration["old_instance_type_id"], migration["new_instance_type_id"]) == (1, 2)
    assert migration["source_compute"] == "h1"
    assert migration["dest_compute"] in ("h2", "h3")


async def test_a_migration_tells_how_it_ended(front: Front) -> None:
    one, two = await resized(front, "one"), await resized(front, "two")
    await front.act(one, {"confirmResize": None})
    await front.act(two, {"revertResize": None})
    await front.settle()
    await front.act(one, {"migrate": None}, who="admin")
    await front.settle()
    shown = [(m["instance_uuid"], m["migration_type"], m["status"]) for m in await listed(front)]
    assert shown == [(one, "migration", "finished"), (two, "resize", "reverted"), (one, "resize", "confirmed")]
    assert [m["status"] for m in await listed(front, minor=58)] == ["confirmed", "reverted", "finished"]


async def test_migrations_are_filtered(front: Front) -> None:
    one, two = await resized(front, "one"), await resized(front, "two")
    await front.act(one, {"confirmResize": None})
    await front.settle()
    target = (await front.show(two, who="admin"))["OS-EXT-SRV-ATTR:host"]
    for query, wanted in {
        f"?instance_uuid={one}": [one],
        "?status=finished": [two],
        "?status=running": [],
        "?migration_type=resize": [two, one],
        "?migration_type=migration": [],
        "?migration_type=live-migration": [],
        "?source_compute=h1": [two, one],
        "?source_compute=h2": [],
        "?source_compute=h2&source_compute=h1": [two, one],
        "?instance_uuid=no-uuid": [],
        "?host=h1&limit=1": [two],
        f"?host={target}&status=finished": [two],
        "?hidden=1": [],
        "?user_id=nobody": [],
        f"?project_id={PROJECT}": [two, one],
        "?changes-since=2100-01-01T00:00:00": [],
        "?changes-before=2100-01-01T00:00:00": [two, one],
    }.items():
        assert [m["instance_uuid"] for m in await listed(front, query)] == wanted, query


async def test_migrations_go_on_page_by_page(front: Front) -> None:
    ids = [await resized(front, name) for name in ("one", "two", "three")]
    page = await front.get("/os-migrations?limit=2", who="admin")
    assert [m["instance_uuid"] for m in page["migrations"]] == ids[:0:-1]
    path = page["migrations_links"][0]["href"].removeprefix("http://cloud:8774/compute/v2.1")
    page = await front.get(path, who="admin")
    assert [m["instance_uuid"] for m in page["migrations"]] == ids[:1]
    assert "migrations_links" not in page
    for query in ("?marker=33333333-3333-4333-8333-333333333333", "?marker=x", "?limit=x", "?unknown=1"):
        fault(await front.ask("GET", f"/os-migrations{query}", who="admin"), "badRequest", 400)
    await listed(front, "?unknown=1&limit=x", minor=58)


async def test_managers_see_their_projects_moves_without_hosts(front: Front) -> None:
    await resized(front)
    fault(await front.ask("GET", "/os-migrations", who="member"), "forbidden", 403)
    [migration] = await listed(front, who="manager")
    assert (migration["source_compute"], migration["dest_compute"], migration["dest_host"]) == (None, None, None)
    assert await listed(front, who=f"manager@{OTHER_PROJECT}") == []
    fault(await front.ask("GET", "/os-migrations?host=h1", who="manager"), "forbidden", 403)
    fault(await front.ask("GET", f"/os-migrations?project_id={OTHER_PROJECT}", who="manager"), "forbidden", 403)


async def test_a_server_has_no_live_migrations(front: Front) -> None:
    server_id = await resized(front)
    assert await front.get(f"/servers/{server_id}/migrations", who="manager") == {"migrations": []}
    fault(await front.ask("GET", f"/servers/{server_id}/migrations/1", who="admin"), "itemNotFound", 404)
    fault(await front.ask("GET", f"/servers/{server_id}/migrations", who="admin", minor=22), "itemNotFound", 404)


# Moves as they are


async def test_a_move_is_shown_step_by_step(front: Front) -> None:
    server_id = await resized(front)
    [brief] = (await front.get("/whimbrel/moves?open=true", who="admin"))["moves"]
    assert (brief["server_id"], brief["saga"], brief["state"], brief["at"]) == (
        *(server_id, "resize", "parked", "await_verdict"),
    )
    move = (await front.get(f"/whimbrel/moves/{brief['id']}", who="admin"))["move"]
    steps = [step["step"] for step in move["steps"]]
    assert "lock" in steps
    assert steps.index("hold_source") < steps.index("claim_target") < steps.index("switch_home")
    assert move["ahead"][0] == "await_verdict"
    assert {one["host"] for one in move["considered"]} == {"h1", "h2", "h3"}
    assert move["facts"]["source"]["host"] == "h1"
    await front.act(server_id, {"confirmResize": None})
    await front.settle()
    assert (await front.get("/whimbrel/moves?open=true", who="admin"))["moves"] == []
    move = (await front.get(f"/whimbrel/moves/{brief['id']}", who="admin"))["move"]
    assert (move["state"], move["ahead"]) == ("done", [])
    assert len((await front.get(f"/whimbrel/moves?server={server_id}", who="admin"))["moves"]) == 1
    assert (await front.get("/whimbrel/moves?server=nobody", who="admin"))["moves"] == []
    assert len((await front.get("/whimbrel/moves?kind=any", who="admin"))["moves"]) == 2
    for begin, found in ((brief["id"], 1), (brief["id"][:5], 1), ("fffffffff", 0)):
        assert len((await front.get(f"/whimbrel/moves?id_prefix={begin}", who="admin"))["moves"]) == found
    fault(await front.ask("GET", "/whimbrel/moves?id_prefix=a%25", who="admin"), "badRequest", 400)


async def test_moves_are_found_by_state_host_and_time(front: Front) -> None:
    parked = await resized(front)
    server_id = await resized(front)
    await front.act(server_id, {"revertResize": None})
    await front.settle()

    async def found(query: str) -> list[str]:
        return [each["server_id"] for each in (await front.get(f"/whimbrel/moves?{query}", who="admin"))["moves"]]

    assert await found("state=parked") == [parked]
    assert await found("state=parked&state=undone") == [server_id, parked]
    assert await found("state=done") == []
    assert await found("changes-since=2000-01-01") == [server_id, parked]
    assert await found("changes-since=2100-01-01T00:00:00") == []
    [move] = (await front.get("/whimbrel/moves?state=parked", who="admin"))["moves"]
    assert parked in await found(f"host={move['source']}")
    assert parked in await found(f"host={move['target']}")
    assert await found("host=none") == []
    assert await found(f"host={move['source']}&state=parked&limit=1") == [parked]
    assert move["doing"] == "waits to be confirmed or reverted"
    for query in ("state=moving", "changes-since=yesterday"):
        fault(await front.ask("GET", f"/whimbrel/moves?{query}", who="admin"), "badRequest", 400)


async def test_steps_have_sentences(front: Front) -> None:
    await resized(front)
    [brief] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
    move = (await front.get(f"/whimbrel/moves/{brief['id']}", who="admin"))["move"]
    assert {step["step"]: step["sentence"] for step in move["steps"]}["lock"] == "locks the server"
    assert len(move["ahead_sentences"]) == len(move["ahead"])
    assert move["ahead_sentences"][0] == move["doing"]


@pytest.mark.cloud(times=Times(copy_disk_s=20.0))
async def test_a_cold_move_shows_how_much_of_a_disk_is_copied(front: Front) -> None:
    server_id = await front.boot()
    assert (await front.act(server_id, {"migrate": None}, who="admin")).status_code == 202
    world = front.world
    journal = StopsAt(world.cloud.journal, "running")
    driving = asyncio.create_task(world.settle(world.engine("c1", replace(world.cloud, journal=journal))))

    async def copied() -> dict[str, Any]:
        await journal.stands.wait()
        [brief] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
        found: dict[str, Any] = (await front.get(f"/whimbrel/moves/{brief['id']}", who="admin"))["move"]["disk_copy"]
        return found

    first = await copied()
    assert (first["disk"], first["size_bytes"], first["rate"]) == ("root", 1 << 30, None)
    journal.stands.clear()
    journal.go_on.set()
    journal.go_on.clear()
    second = await copied()
    assert 0 < first["percent"] < second["percent"] < 100
    assert (1 << 30) / 40 < second["rate"] < (1 << 30) / 10  # it takes 20 s, and shows each twentieth
    journal.go_on.set()
    await driving
    [brief] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
    move = (await front.get(f"/whimbrel/moves/{brief['id']}", who="admin"))["move"]
    assert (move["state"], move["disk_copy"]) == ("parked", None)


async def test_an_operator_turns_a_move_back(front: Front) -> None:
    server_id = await front.boot(who="admin", host="h1")
    before = await front.show(server_id, who="admin")
    await front.act(server_id, {"resize": {"flavorRef": "2"}})
    [move] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
    path = f"/whimbrel/moves/{move['id']}/action"
    answer = await front.ask("POST", path, {"retry": None}, who="admin")
    assert (answer.status_code, answer.json()["move"]["state"]) == (202, "open")
    answer = await front.ask("POST", path, {"turn_back": None}, who="admin")
    assert (answer.status_code, answer.json()["move"]["way"]) == (202, "back")
    await front.settle()
    for action in ({"retry": None}, {"turn_back": None}, {"give_up_source": None}):
        fault(await front.ask("POST", path, action, who="admin"), "conflictingRequest", 409)
    assert {**await front.show(server_id, who="admin"), "updated": ""} == {**before, "updated": ""}


@pytest.mark.parametrize("body", [{}, {"stop": None}, {"retry": 1}, {"retry": None, "turn_back": None}])
async def test_a_move_refuses_what_it_does_not_know(front: Front, body: dict[str, Any]) -> None:
    await resized(front)
    [move] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
    fault(await front.ask("POST", f"/whimbrel/moves/{move['id']}/action", body, who="admin"), "badRequest", 400)


async def test_moves_are_for_administrators(front: Front) -> None:
    await resized(front)
    [move] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
    path = f"/whimbrel/moves/{move['id']}"
    for who in ("member", "manager"):
        fault(await front.ask("GET", "/whimbrel/moves", who=who), "forbidden", 403)
        fault(await front.ask("GET", path, who=who), "forbidden", 403)
        fault(await front.ask("POST", f"{path}/action", {"turn_back": None}, who=who), "forbidden", 403)
        fault(await front.ask("POST", f"{path}/action", {"give_up_source": None}, who=who), "forbidden", 403)
        fault(await front.ask("POST", f"{path}/action", {"retry": None}, who=who), "forbidden", 403)
    fault(await front.ask("GET", "/whimbrel/moves/nothing", who="admin"), "itemNotFound", 404)
    fault(await front.ask("GET", "/whimbrel/moves?open=perhaps", who="admin"), "badRequest", 400)
