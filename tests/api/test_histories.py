"""The history of a server: what happened to it, who asked and why, and how it stood at a time."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from tests.api.front import OTHER_PROJECT, Front, fault
from tests.api.test_down_cells import take_away
from whimbrel.adapters.sql.tables.global_ import directory
from whimbrel.domain.ids import CellName
from whimbrel.sim.cloud.cloud import PROJECT, USER

HOSTS = ["h1", "h2", "h3"]


async def told(front: Front, server_id: str, at: float | None = None, who: str = "admin") -> Any:
    when = "" if at is None else "?at=" + quote(datetime.fromtimestamp(at, UTC).isoformat())
    return (await front.get(f"/whimbrel/servers/{server_id}/history{when}", who=who))["history"]


def kinds(history: Any) -> list[tuple[str, str]]:
    return [(entry["kind"], entry["what"]) for entry in history["entries"]]


async def do(front: Front, server_id: str, requested: dict[str, Any], who: str = "member") -> float:
    """Do something one second later; return when it ended."""
    await front.world.cloud.clock.sleep(1)
    answer = await front.act(server_id, requested, who=who)
    assert answer.status_code in (202, 204), answer.text
    await front.settle()
    return front.world.cloud.clock.now()


async def delete(front: Front, server_id: str) -> float:
    await front.world.cloud.clock.sleep(1)
    assert (await front.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await front.settle()
    return front.world.cloud.clock.now()


async def test_a_history_reaches_from_the_first_request_to_the_last(front: Front) -> None:
    server_id = await front.boot()
    await do(front, server_id, {"resize": {"flavorRef": "2"}})
    await do(front, server_id, {"revertResize": None})
    await delete(front, server_id)
    history = await told(front, server_id)
    seen = kinds(history)
    wanted = [
        *[("asked", "create"), ("step", "choose_target"), ("choice", "choose_target"), ("step", "activate")],
        *[("ended", "done"), ("asked", "resize"), ("choice", "choose_target"), ("step", "switch_home")],
        *[("verdict", "revert"), ("step", "switch_home"), ("step", "lock"), ("ended", "undone")],
        *[("asked", "delete"), ("step", "destroy_guest"), ("ended", "done")],
    ]
    left = iter(seen)
    assert all(one in left for one in wanted), seen
    assert history["deleted_at"] is not None
    assert [entry["at"] for entry in history["entries"]] == sorted(entry["at"] for entry in history["entries"])


async def test_the_requester_and_the_reason_for_the_host_are_shown(front: Front) -> None:
    server_id = await front.boot()
    await do(front, server_id, {"migrate": None}, who="admin")
    history = await told(front, server_id)
    asked = [entry for entry in history["entries"] if entry["kind"] == "asked"]
    assert [(entry["what"], entry["user_id"], entry["project_id"]) for entry in asked] == [
        ("create", USER, PROJECT),
        ("migrate", "admin", PROJECT),
    ]
    [_, choice] = [entry for entry in history["entries"] if entry["kind"] == "choice"]
    assert choice["summary"].startswith("2 of 3 hosts fit")
    assert choice["chosen"][0] == (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"]
    steps = [entry for entry in history["entries"] if entry["kind"] == "step" and entry["move_id"] == choice["move_id"]]
    assert {entry["request_id"] for entry in steps} == {asked[1]["request_id"]}


async def test_a_move_that_found_no_host_says_so(front: Front) -> None:
    server_id = await front.boot()
    for cell in front.world.cloud.cells.values():
        for host in await cell.hosts.all():
            await cell.hosts.set_service(host.name, enabled=False, disabled_reason=None, forced_down=False)
    await do(front, server_id, {"migrate": None}, who="admin")
    history = await told(front, server_id)
    last = history["entries"][-1]
    assert (last["kind"], last["what"], last["outcome"]) == ("ended", "undone", "refused")
    assert last["detail"].startswith("No valid host")


async def test_an_owner_sees_all_of_it_but_no_hosts(front: Front) -> None:
    server_id = await front.boot()
    now = await do(front, server_id, {"resize": {"flavorRef": "2"}})
    history = await told(front, server_id, who="reader")
    assert kinds(history) == kinds(await told(front, server_id))
    assert any(entry["summary"] for entry in history["entries"])
    state = (await told(front, server_id, now, who="reader"))["state"]
    assert (state["vm_state"], state["flavor"]) == ("resized", "large")
    assert state["hostId"] == (await front.show(server_id))["hostId"]
    assert not any(f"'{host}'" in str([history, state]) for host in HOSTS)


async def test_others_see_nothing(front: Front) -> None:
    server_id = await front.boot()
    for who in (f"reader@{OTHER_PROJECT}", f"member@{OTHER_PROJECT}"):
        answer = await front.ask("GET", f"/whimbrel/servers/{server_id}/history", who=who)
        assert "could not be found" in fault(answer, "itemNotFound", 404)
    nowhere = await front.ask("GET", f"/whimbrel/servers/{OTHER_PROJECT}/history", who="admin")
    fault(nowhere, "itemNotFound", 404)
    fault(await front.ask("GET", f"/whimbrel/servers/{server_id}/history", who="nobody"), "forbidden", 403)
    fault(await front.ask("GET", f"/whimbrel/servers/{server_id}/history?at=noon"), "badRequest", 400)


async def test_how_it_stood_at_each_time(front: Front) -> None:
    before = front.world.cloud.clock.now() - 1
    server_id = await front.boot(availability_zone="nova:h1", who="admin")
    stood = {}
    for name, requested in (
        ("stopped", {"os-stop": None}),
        ("started", {"os-start": None}),
        ("resized", {"resize": {"flavorRef": "2"}}),
        ("reverted", {"revertResize": None}),
        ("resized again", {"resize": {"flavorRef": "2"}}),
        ("confirmed", {"confirmResize": None}),
        ("in error", {"os-resetState": {"state": "error"}}),
        ("reset", {"os-resetState": {"state": "active"}}),
        ("broken", {"os-resetState": {"state": "error"}}),
        ("mended", {"reboot": {"type": "HARD"}}),
        ("broken again", {"os-resetState": {"state": "error"}}),
    ):
        stood[name] = (await do(front, server_id, requested, who="admin"), await front.show(server_id, who="admin"))
    for name, (at, shown) in stood.items():
        state = (await told(front, server_id, at))["state"]
        seen = (shown["OS-EXT-STS:vm_state"], shown["OS-EXT-SRV-ATTR:host"], shown["flavor"]["original_name"])
        if name in ("in error", "reset"):
            seen = (None, *seen[1:])  # nobody looked before it was set again
        assert (state["vm_state"], state["host"], state["flavor"]) == seen, name
        assert (state["cell"], state["availability_zone"]) == ("c1", "nova"), name
    gone = await delete(front, server_id)
    assert (await told(front, server_id, before))["state"] is None
    assert (await told(front, server_id, before))["entries"] == []
    assert (await told(front, server_id, gone))["state"]["vm_state"] == "deleted"
    at, shown = stood["resized"]
    assert (await told(front, server_id, at))["state"]["host"] == shown["OS-EXT-SRV-ATTR:host"] != "h1"


async def test_what_was_in_progress_is_shown(front: Front) -> None:
    server_id = await front.boot()
    at = await do(front, server_id, {"resize": {"flavorRef": "2"}})
    await do(front, server_id, {"confirmResize": None})
    [one] = (await told(front, server_id, at))["state"]["under_way"]
    assert (one["move_kind"], one["after_step"], one["way"]) == ("resize", "switch_home", "do")
    assert (await told(front, server_id, front.world.cloud.clock.now()))["state"]["under_way"] == []


async def test_a_take_over_is_shown_to_an_owner_without_names(front: Front) -> None:
    server_id, clock = await front.boot(), front.world.cloud.clock
    await front.act(server_id, {"resize": {"flavorRef": "2"}})  # nobody drives it
    for name in ("one", "two"):
        assert await front.world.cloud.journal.take(name, clock.now(), 3.0, 1)
        await clock.sleep(5)
    [seen] = [each for each in (await told(front, server_id))["entries"] if each["kind"] == "takeover"]
    assert (seen["from"], seen["to"], seen["move_kind"]) == ("one", "two", "resize")
    [seen] = [each for each in (await told(front, server_id, who="reader"))["entries"] if each["kind"] == "takeover"]
    assert (seen["from"], seen["to"], seen["epoch"]) == (None, None, None)


async def test_what_an_operator_says_of_a_move_is_shown(front: Front) -> None:
    server_id = await front.boot()
    await do(front, server_id, {"resize": {"flavorRef": "2"}})
    [run] = (await front.get(f"/whimbrel/moves?server={server_id}", who="admin"))["moves"]
    await front.world.cloud.clock.sleep(1)
    answer = await front.ask("POST", f"/whimbrel/moves/{run['id']}/action", {"turn_back": None}, who="admin")
    assert answer.status_code == 202, answer.text
    await front.settle()
    entries = (await told(front, server_id))["entries"]
    [said] = [place for place, entry in enumerate(entries) if entry["what"] == "turn_back"]
    assert (entries[said]["kind"], entries[said]["user_id"]) == ("asked", "admin")
    assert entries[said]["move_id"] == run["id"]
    assert {entry["way"] for entry in entries[said + 1 :] if entry["kind"] == "step"} == {"undo"}
    assert (entries[-1]["kind"], entries[-1]["outcome"]) == ("ended", "asked")


async def test_a_cell_that_is_away_keeps_nobody_from_what_the_journal_tells(front: Front) -> None:
    server_id = await front.boot()
    at = await do(front, server_id, {"os-stop": None})
    away = await told(front, server_id, at)
    take_away(front, CellName("c1"))
    assert (await told(front, server_id, at))["state"] == away["state"]


async def test_a_server_that_the_directory_lost_is_reported_to_administrators_and_its_project(front: Front) -> None:
    server_id = await front.boot()
    before = await told(front, server_id)
    async with front.world.remains.databases["global"].write() as tx:
        await tx.run(sa.delete(directory).where(directory.c.server_id == server_id))
    assert (await told(front, server_id))["entries"] == before["entries"]
    assert (await told(front, server_id, who="member"))["project_id"] == PROJECT
    path = f"/whimbrel/servers/{server_id}/history"
    assert (await front.ask("GET", path, who=f"member@{OTHER_PROJECT}")).status_code == 404


async def test_there_is_no_state_of_a_time_to_come(front: Front) -> None:
    server_id = await front.boot()
    later = datetime.fromtimestamp(front.world.cloud.clock.now() + 3600, UTC).isoformat()
    answer = await front.ask("GET", f"/whimbrel/servers/{server_id}/history?at={quote(later)}", who="admin")
    assert "has not come yet" in fault(answer, "badRequest", 400)
