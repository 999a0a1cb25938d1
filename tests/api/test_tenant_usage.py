"""os-simple-tenant-usage: what projects have used, of servers that run, were resized or are deleted."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.api.front import OTHER_PROJECT, PROJECT, Front, fault
from whimbrel.sim.world.clock import JumpingClock

HOUR = 3600.0


async def wait(front: Front, hours: float) -> None:
    clock = front.world.cloud.clock
    assert isinstance(clock, JumpingClock)
    clock.advance(hours * HOUR)


def at(front: Front, hours: float = 0.0) -> str:
    when = datetime.fromtimestamp(front.world.cloud.clock.now() + hours * HOUR, UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%f")


async def usage(front: Front, path: str = "", **more: Any) -> Any:
    return await front.get(f"/os-simple-tenant-usage{path}", who="admin", **more)


async def test_hours_count_from_launch_to_end_within_the_period(front: Front) -> None:
    runs, ends = [await front.boot(name, flavorRef="2") for name in ("runs", "ends")]
    resized = await front.boot("resized")
    launched = (await front.show(runs))["OS-SRV-USG:launched_at"]
    await wait(front, 2)
    await front.ask("DELETE", f"/servers/{ends}")
    await front.act(resized, {"resize": {"flavorRef": "2"}})
    await front.settle()
    await front.act(resized, {"confirmResize": None})
    await front.settle()
    await wait(front, 3)
    whole = (await usage(front, f"/{PROJECT}?start={at(front, -24)}&end={at(front)}"))["tenant_usage"]
    by_name = {each["name"]: each for each in whole["server_usages"]}
    assert by_name["runs"]["hours"] == pytest.approx(5, abs=0.1)
    assert by_name["ends"]["hours"] == pytest.approx(2, abs=0.1)
    assert (by_name["ends"]["state"], by_name["runs"]["state"]) == ("terminated", "active")
    assert by_name["ends"]["ended_at"]
    assert by_name["runs"]["ended_at"] is None
    flavor = (await front.get("/flavors/2"))["flavor"]
    assert (by_name["resized"]["flavor"], by_name["resized"]["vcpus"]) == (flavor["name"], flavor["vcpus"])
    assert by_name["runs"]["started_at"] == launched
    for name, key in (("vcpus", "vcpus"), ("memory_mb", "memory_mb"), ("local_gb", "local_gb")):
        total = sum(each[key] * each["hours"] for each in by_name.values())
        assert whole[f"total_{name}_usage"] == pytest.approx(total)
    assert whole["total_hours"] == pytest.approx(sum(each["hours"] for each in by_name.values()))
    later = (await usage(front, f"/{PROJECT}?start={at(front, -1)}"))["tenant_usage"]
    assert {each["name"] for each in later["server_usages"]} == {"runs", "resized"}
    assert later["total_hours"] == pytest.approx(1 + later["server_usages"][1]["hours"], abs=0.1)


async def test_an_administrator_sees_all_projects_and_others_their_own(front: Front) -> None:
    await front.boot()
    await front.boot(who=f"member@{OTHER_PROJECT}")
    await wait(front, 1)
    period = f"?start={at(front, -5)}&end={at(front, 5)}"
    found = (await usage(front, period))["tenant_usages"]
    assert [each["tenant_id"] for each in found] == sorted([PROJECT, OTHER_PROJECT])
    assert "server_usages" not in found[0]
    assert found[0]["stop"] == at(front)  # not in the future
    assert "server_usages" in (await usage(front, f"{period}&detailed=1"))["tenant_usages"][0]
    assert (await front.get(f"/os-simple-tenant-usage/{PROJECT}{period}"))["tenant_usage"]["tenant_id"] == PROJECT
    fault(await front.ask("GET", "/os-simple-tenant-usage"), "forbidden", 403)
    fault(await front.ask("GET", f"/os-simple-tenant-usage/{OTHER_PROJECT}"), "forbidden", 403)
    assert await usage(front, "/nobody") == {"tenant_usage": {}}


async def test_pages_have_so_many_servers_from_2_40_on(front: Front) -> None:
    ids = sorted([await front.boot(name) for name in ("a", "b", "c")])
    await wait(front, 1)
    path, seen = f"?detailed=1&limit=2&start={at(front, -5)}", []
    while path:
        page = await usage(front, path)
        seen.append([each["instance_id"] for one in page["tenant_usages"] for each in one["server_usages"]])
        links = page.get("tenant_usages_links")
        path = links[0]["href"].partition("os-simple-tenant-usage")[2] if links else ""
    assert seen == [ids[:2], ids[2:]]
    page = await usage(front, f"/{PROJECT}?limit=1&start={at(front, -5)}")
    assert page["tenant_usage_links"][0]["rel"] == "next"
    assert "tenant_usages_links" not in await usage(front, f"?limit=1&start={at(front, -5)}", minor=39)
    fault(await front.ask("GET", "/os-simple-tenant-usage?marker=x", who="admin"), "badRequest", 400)


@pytest.mark.parametrize(
    "query", ["start=yesterday", "end=2020-01-01", "start=2020-02-01T00:00:00&end=2020-01-01T00:00:00"]
)
async def test_a_period_must_be_one(front: Front, query: str) -> None:
    fault(await front.ask("GET", f"/os-simple-tenant-usage?{query}", who="admin"), "badRequest", 400)


async def test_unknown_keys_are_refused_from_2_75_on(front: Front) -> None:
    assert (await usage(front, "?colour=red", minor=74))["tenant_usages"] == []
    fault(await front.ask("GET", "/os-simple-tenant-usage?colour=red", who="admin", minor=75), "badRequest", 400)
