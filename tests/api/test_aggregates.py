"""Aggregates, as Nova's clients see them; and no server changes its zone because of one."""

from typing import Any

import httpx
import pytest

from tests.api.front import Front, fault
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.notification_rules import NotificationRules
from whimbrel.ports.cloud import Rules
from whimbrel.reconcilers.rounds import reconcile
from whimbrel.sim.cloud.cloud import IMAGE


async def create(front: Front, name: str = "east", zone: str | None = "east", minor: int = 104) -> Any:
    requested = {"aggregate": {"name": name, "availability_zone": zone}}
    answer = await front.ask("POST", "/os-aggregates", requested, who="admin", minor=minor)
    assert answer.status_code == 200, answer.text
    return answer.json()["aggregate"]


async def act(front: Front, number: int | str, **action: Any) -> httpx.Response:
    return await front.ask("POST", f"/os-aggregates/{number}/action", action, who="admin")


async def add(front: Front, number: int, host: str) -> httpx.Response:
    return await act(front, number, add_host={"host": host})


async def remove(front: Front, number: int, host: str) -> httpx.Response:
    return await act(front, number, remove_host={"host": host})


async def test_what_was_created_is_shown(front: Front) -> None:
    made = await create(front)
    assert "hosts" not in made
    assert "metadata" not in made
    shown = (await front.get(f"/os-aggregates/{made['id']}", who="admin"))["aggregate"]
    assert shown == made | {"hosts": [], "metadata": {"availability_zone": "east"}}
    assert (shown["name"], shown["availability_zone"], shown["deleted"], len(shown["uuid"])) == (
        *("east", "east", False),
        36,
    )
    assert await front.get("/os-aggregates", who="admin") == {"aggregates": [shown]}
    assert "uuid" not in (await front.get("/os-aggregates", who="admin", minor=40))["aggregates"][0]
    assert (await create(front, "plain", None))["availability_zone"] is None


@pytest.mark.parametrize(
    "requested",
    [
        {},
        {"name": ""},
        {"name": "x" * 256},
        {"name": "a", "availability_zone": ""},
        {"name": "a", "availability_zone": "a:b"},
        {"name": "a", "availability_zone": "x" * 256},
        {"name": "a", "colour": "blue"},
    ],
)
async def test_bad_aggregates_are_refused(front: Front, requested: dict[str, Any]) -> None:
    fault(await front.ask("POST", "/os-aggregates", {"aggregate": requested}, who="admin"), "badRequest", 400)


async def test_a_new_name_loses_the_blanks_around_it(front: Front) -> None:
    path = f"/os-aggregates/{(await create(front))['id']}"
    renamed = await front.ask("PUT", path, {"aggregate": {"name": " two "}}, who="admin")
    assert renamed.json()["aggregate"]["name"] == "two"
    fault(await front.ask("PUT", path, {"aggregate": {"name": "  "}}, who="admin"), "badRequest", 400)


async def test_names_are_taken_once(front: Front) -> None:
    await create(front)
    requested = {"aggregate": {"name": "east"}}
    fault(await front.ask("POST", "/os-aggregates", requested, who="admin"), "conflictingRequest", 409)
    two = await create(front, "two", None)
    fault(await front.ask("PUT", f"/os-aggregates/{two['id']}", requested, who="admin"), "conflictingRequest", 409)


async def test_only_administrators_see_them(front: Front) -> None:
    fault(await front.ask("GET", "/os-aggregates", who="manager"), "forbidden", 403)
    fault(await front.ask("POST", "/os-aggregates", {"aggregate": {"name": "a"}}), "forbidden", 403)


async def test_what_is_not_there(front: Front) -> None:
    for number, code, name in (
        ("9" * 20, 404, "itemNotFound"),
        ("99", 404, "itemNotFound"),
        ("east", 400, "badRequest"),
        ("-1", 404, "itemNotFound"),
    ):
        fault(await front.ask("GET", f"/os-aggregates/{number}", who="admin"), name, code)
        fault(await front.ask("DELETE", f"/os-aggregates/{number}", who="admin"), name, code)
        change = {"aggregate": {"name": "x"}}
        fault(await front.ask("PUT", f"/os-aggregates/{number}", change, who="admin"), name, code)
        fault(await act(front, number, set_metadata={"metadata": {}}), name, code)
        fault(await act(front, number, add_host={"host": "h1"}), name, code)
    one = await create(front)
    fault(await add(front, one["id"], "h9"), "itemNotFound", 404)
    fault(await remove(front, one["id"], "h1"), "itemNotFound", 404)
    fault(await act(front, one["id"], paint={}), "badRequest", 400)


async def test_hosts_come_and_go_and_placement_knows(front: Front) -> None:
    east, fast = await create(front), await create(front, "fast", None)
    answer = await add(front, east["id"], "h1")
    assert (answer.status_code, answer.json()["aggregate"]["hosts"]) == (200, ["h1"])
    await add(front, fast["id"], "h1")
    assert await in_placement(front, "h1") == {east["uuid"], fast["uuid"]}
    fault(await add(front, fast["id"], "h1"), "conflictingRequest", 409)
    assert (await remove(front, east["id"], "h1")).json()["aggregate"]["hosts"] == []
    assert await in_placement(front, "h1") == {fast["uuid"]}
    fault(await front.ask("DELETE", f"/os-aggregates/{fast['id']}", who="admin"), "badRequest", 400)
    await remove(front, fast["id"], "h1")
    assert (await front.ask("DELETE", f"/os-aggregates/{fast['id']}", who="admin")).status_code == 200
    fault(await front.ask("GET", f"/os-aggregates/{fast['id']}", who="admin"), "itemNotFound", 404)


async def in_placement(front: Front, name: str) -> frozenset[str]:
    cloud = front.world.cloud
    host = await cloud.cell(CellName("c1")).hosts.get(HostName(name))
    return next(state.aggregates for state in await cloud.placement.providers() if state.id == host.id)


async def test_metadata_is_merged(front: Front) -> None:
    one = await create(front, "one", None)
    await act(front, one["id"], set_metadata={"metadata": {"ssd": "true", "rack": "7"}})
    answer = await act(front, one["id"], set_metadata={"metadata": {"ssd": None}})
    assert answer.json()["aggregate"]["metadata"] == {"rack": "7"}
    fault(await act(front, one["id"], set_metadata={"metadata": {"a": 1}}), "badRequest", 400)
    fault(await act(front, one["id"], set_metadata={"metadata": {"a": "x" * 256}}), "badRequest", 400)


async def test_name_and_zone_are_changed_together(front: Front) -> None:
    one = await create(front, "one", None)
    requested = {"aggregate": {"name": "two", "availability_zone": "west"}}
    changed = (await front.ask("PUT", f"/os-aggregates/{one['id']}", requested, who="admin")).json()["aggregate"]
    assert (changed["name"], changed["availability_zone"]) == ("two", "west")
    assert changed["updated_at"] is not None
    nothing: dict[str, Any] = {"aggregate": {}}
    fault(await front.ask("PUT", f"/os-aggregates/{one['id']}", nothing, who="admin"), "badRequest", 400)
    unzoned = {"aggregate": {"availability_zone": None}}
    fault(await front.ask("PUT", f"/os-aggregates/{one['id']}", unzoned, who="admin"), "badRequest", 400)


async def test_a_host_is_in_one_zone(front: Front) -> None:
    east, west, plain = await create(front), await create(front, "west", "west"), await create(front, "plain", None)
    await add(front, east["id"], "h1")
    await add(front, plain["id"], "h1")
    fault(await add(front, west["id"], "h1"), "conflictingRequest", 409)
    metadata = {"metadata": {"availability_zone": "west"}}
    fault(await act(front, plain["id"], set_metadata=metadata), "badRequest", 400)


async def test_a_host_with_servers_stays_in_its_zone(front: Front) -> None:
    server = await front.show(await front.boot(), who="admin")
    host = server["OS-EXT-SRV-ATTR:host"]
    east, plain, default = await create(front), await create(front, "plain", None), await create(front, "nova", "nova")
    fault(await add(front, east["id"], host), "conflictingRequest", 409)
    assert (await add(front, plain["id"], host)).status_code == 200
    assert (await add(front, default["id"], host)).status_code == 200
    assert (await remove(front, default["id"], host)).status_code == 200
    metadata = {"metadata": {"availability_zone": "east"}}
    fault(await act(front, plain["id"], set_metadata=metadata), "badRequest", 400)
    change = {"aggregate": {"availability_zone": "east"}}
    fault(await front.ask("PUT", f"/os-aggregates/{plain['id']}", change, who="admin"), "badRequest", 400)

    await front.ask("DELETE", f"/servers/{server['id']}")
    await front.settle()
    assert (await add(front, east["id"], host)).status_code == 200
    await front.boot(availability_zone="east")
    fault(await remove(front, east["id"], host), "conflictingRequest", 409)
    assert (await front.get("/os-aggregates", who="admin"))["aggregates"][0]["hosts"] == [host]


async def test_a_host_that_a_server_may_come_back_to_stays_in_its_zone(front: Front) -> None:
    server_id = await front.boot()
    source = (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"]
    assert (await front.act(server_id, {"migrate": None}, who="admin")).status_code == 202
    await front.settle()
    assert (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"] != source
    east = await create(front)
    fault(await add(front, east["id"], source), "conflictingRequest", 409)
    await front.act(server_id, {"confirmResize": None})
    await front.settle()
    assert (await add(front, east["id"], source)).status_code == 200


async def cache(front: Front, number: int | str, *images: str, who: str = "admin", minor: int = 104) -> httpx.Response:
    requested = {"cache": [{"id": image} for image in images]}
    return await front.ask("POST", f"/os-aggregates/{number}/images", requested, who=who, minor=minor)


async def test_hosts_of_an_aggregate_fetch_images_ahead(front: Front) -> None:
    east = await create(front)
    await add(front, east["id"], "h1")
    answer = await cache(front, east["id"], IMAGE)
    assert (answer.status_code, answer.content) == (202, b"")
    fetches, now = front.world.cloud.image_fetches, front.world.cloud.clock.now()
    [due] = await fetches.due(now, 10)
    assert (due.host, due.cell, due.image_id) == ("h1", "c1", IMAGE)
    await reconcile(front.world.cloud, front.engine)
    assert await fetches.due(float("inf"), 10) == []
    assert await fetches.requests() == []  # notifications are off
    await front.world.images.delete(IMAGE)
    fault(await cache(front, east["id"], IMAGE), "badRequest", 400)


@pytest.mark.cloud(Rules(notifications=NotificationRules(enabled=True)))
async def test_how_the_fetches_ended_is_noted_for_notifications(front: Front) -> None:
    east = await create(front)
    await add(front, east["id"], "h1")
    assert (await cache(front, east["id"], IMAGE)).status_code == 202
    await reconcile(front.world.cloud, front.engine)
    [asked] = await front.world.cloud.image_fetches.requests()
    assert (asked.aggregate.name, asked.hosts, list(asked.done())) == ("east", ["h1"], [("h1", {IMAGE: True})])


async def test_images_that_no_host_can_fetch_are_refused(front: Front) -> None:
    number = (await create(front))["id"]
    assert "Duplicate images in request" in fault(await cache(front, number, IMAGE, IMAGE), "badRequest", 400)
    missing = "6a0d1e2c-0000-4000-8000-000000000009"
    assert missing in fault(await cache(front, number, IMAGE, missing), "badRequest", 400)
    for images in ((), ("no-uuid",)):
        fault(await cache(front, number, *images), "badRequest", 400)
    more = {"cache": [{"id": IMAGE, "name": "x"}]}
    fault(await front.ask("POST", f"/os-aggregates/{number}/images", more, who="admin"), "badRequest", 400)
    fault(await cache(front, 99, IMAGE), "itemNotFound", 404)
    fault(await cache(front, number, IMAGE, who="manager"), "forbidden", 403)
    assert (await cache(front, number, IMAGE, minor=80)).status_code == 404
    assert await front.world.cloud.image_fetches.due(float("inf"), 10) == []
