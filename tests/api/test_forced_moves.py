"""`force` of live migrations (2.30 to 2.67) and evacuations (2.29 to 2.67): what it overrides, and what never."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.api import test_server_groups as groups
from tests.api.front import IMAGE, Front
from tests.api.test_evacuations import born, die
from tests.api.test_filters import gather, home
from tests.api.test_plans import decisions, newest_run
from tests.api.test_zones import disable, put_into_zone
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.cloud import Rules

FILTERS = (
    *("ComputeFilter", "AggregateMultiTenancyIsolation", "NumInstancesFilter"),
    *("ServerGroupAntiAffinityFilter", "DifferentHostFilter"),
)
RULES = Rules(cpu_allocation_ratio=1.0, scheduler=SchedulerRules(enabled_filters=FILTERS, max_instances_per_host=2))
SPARING = pytest.mark.cloud(rules=RULES)
OVERRIDDEN = ["its service is disabled", "it is for other projects", "it has the maximum number of servers"]
MOVES = ["os-migrateLive", "evacuate"]


async def spare(front: Front, host: str) -> None:
    """Make a host one that the operator reserves and spares in every way."""
    for _ in range(2):
        await born(front, host)
    await gather(front, "theirs", host, filter_tenant_id="another project")
    await disable(front, host)


async def hinted(front: Front, host: str, hints: dict[str, Any]) -> str:
    server = {"name": "s", "flavorRef": "2", "imageRef": IMAGE, "networks": "none", "availability_zone": f"nova:{host}"}
    answer = await front.ask("POST", "/servers", {"server": server, "os:scheduler_hints": hints}, who="admin")
    await front.settle()
    server_id: str = answer.json()["server"]["id"]
    assert await home(front, server_id) == host
    return server_id


async def request(front: Front, move: str, server_id: str, host: str, minor: int, *, force: bool = True) -> int:
    more = {"block_migration": "auto"} if move == "os-migrateLive" else {}
    asked = {"host": host, "force": force, **more}
    return (await front.act(server_id, {move: asked}, who="admin", minor=minor)).status_code


async def end(front: Front, server_id: str) -> dict[str, Any]:
    """Settle; return the newest run of a server, with its decision and the host where the server is."""
    await front.settle()
    run = await newest_run(front, server_id)
    [decision] = await decisions(front, run["id"])
    return {"state": run["state"], "decision": decision, "home": await home(front, server_id)}


@SPARING
@pytest.mark.parametrize("minor", [30, 33, 34, 67])
async def test_a_live_migration_to_a_host_that_the_operator_spares(front: Front, minor: int) -> None:
    server_id = await born(front)
    await spare(front, "h2")
    unforced = await request(front, "os-migrateLive", server_id, "h2", minor, force=False)
    assert unforced == (400 if minor < 34 else 202)
    await front.settle()
    assert await home(front, server_id) == "h1"
    assert await request(front, "os-migrateLive", server_id, "h2", minor) == 202
    found = await end(front, server_id)
    assert (found["state"], found["home"], found["decision"]["chosen"]) == ("done", "h2", ["h2"])
    assert [one["words"] for one in found["decision"]["overridden"]] == OVERRIDDEN


@SPARING
@pytest.mark.parametrize("minor", [29, 67])
async def test_an_evacuation_to_a_host_that_the_operator_spares(front: Front, minor: int) -> None:
    server_id = await born(front)
    await spare(front, "h2")
    await die(front, "h1")
    assert await request(front, "evacuate", server_id, "h2", minor, force=False) == 200
    assert (await end(front, server_id))["state"] == "undone"
    assert await request(front, "evacuate", server_id, "h2", minor) == 200
    found = await end(front, server_id)
    assert (found["state"], found["home"]) == ("done", "h2")
    assert [one["words"] for one in found["decision"]["overridden"]] == OVERRIDDEN


@SPARING
@pytest.mark.parametrize("move", MOVES)
async def test_what_the_operator_has_nothing_against_is_not_called_overridden(front: Front, move: str) -> None:
    server_id = await born(front)
    if move == "evacuate":
        await die(front, "h1")
    await request(front, move, server_id, "h3", 67)
    found = await end(front, server_id)
    assert (found["state"], found["home"], found["decision"]["overridden"]) == ("done", "h3", [])


@SPARING
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("against", ["room", "group", "hint", "down"])
async def test_a_forced_move_is_never_without_room_nor_against_the_owner(front: Front, move: str, against: str) -> None:
    group = await groups.make(front, who="admin")
    there = await hinted(front, "h2", {"group": group} if against == "group" else {})  # two of its four processors
    hints = {"group": {"group": group}, "hint": {"different_host": [there]}}
    server_id = await hinted(front, "h1", hints.get(against, {}))
    if against == "room":
        await born(front, "h2")
    if against == "down":
        await die(front, "h2")
    if move == "evacuate":
        await die(front, "h1")
    status = await request(front, move, server_id, "h2", 67)
    found = await end(front, server_id)
    assert (status, found["state"], found["home"]) == (202 if move == "os-migrateLive" else 200, "undone", "h1")
    assert found["decision"]["considered"]


@SPARING
@pytest.mark.parametrize("move", MOVES)
async def test_a_forced_move_stays_in_the_zone_of_its_server(front: Front, move: str) -> None:
    server_id = await born(front)
    await put_into_zone(front, "east", "h2")
    if move == "evacuate":
        await die(front, "h1")
    assert await request(front, move, server_id, "h2", 67) == 400


@pytest.mark.parametrize("move", MOVES)
async def test_a_move_is_not_forced_while_a_process_would_not_heed_that(front: Front, move: str) -> None:
    server_id = await born(front)
    if move == "evacuate":
        await die(front, "h1")
    front.engine.parts = replace(front.engine.parts, heeded_by_all=lambda fact: fact != "forced")
    assert await request(front, move, server_id, "h2", 67) == 409
    assert await request(front, move, server_id, "h2", 67, force=False) < 300
