"""Availability zones, as Nova's clients see them."""

from tests.api.front import Front, fault, with_front


async def put_into_zone(front: Front, zone: str, *hosts: str) -> None:
    wish = {"aggregate": {"name": zone, "availability_zone": zone}}
    number = (await front.ask("POST", "/os-aggregates", wish, who="admin")).json()["aggregate"]["id"]
    for host in hosts:
        await front.ask("POST", f"/os-aggregates/{number}/action", {"add_host": {"host": host}}, who="admin")


async def disable(front: Front, host: str) -> None:
    body = {"host": host, "binary": "nova-compute"}
    assert (await front.ask("PUT", "/os-services/disable", body, who="admin", minor=52)).status_code == 200


def zone(name: str, available: bool) -> object:
    return {"zoneName": name, "zoneState": {"available": available}, "hosts": None}


@with_front
async def test_hosts_in_no_zone_are_in_the_default_one(front: Front) -> None:
    assert await front.get("/os-availability-zone", who="nobody") == {"availabilityZoneInfo": [zone("nova", True)]}


@with_front
async def test_a_zone_is_available_while_a_host_of_it_is_enabled(front: Front) -> None:
    await put_into_zone(front, "east", "h1", "h2")
    await put_into_zone(front, "empty")
    await disable(front, "h1")
    await disable(front, "h3")
    zones = (await front.get("/os-availability-zone"))["availabilityZoneInfo"]
    assert zones == [zone("east", True), zone("nova", False)]


@with_front
async def test_details_are_for_administrators(front: Front) -> None:
    fault(await front.ask("GET", "/os-availability-zone/detail", who="manager"), "forbidden", 403)
    await put_into_zone(front, "east", "h1")
    await disable(front, "h1")
    body = {"host": "h3", "binary": "nova-compute", "forced_down": True}
    await front.ask("PUT", "/os-services/force-down", body, who="admin", minor=52)
    east, nova = (await front.get("/os-availability-zone/detail", who="admin"))["availabilityZoneInfo"]
    assert east == zone("east", False)
    hosts = nova["hosts"]
    assert {name: (one["nova-compute"]["active"], one["nova-compute"]["available"]) for name, one in hosts.items()} == {
        "h2": (True, True),
        "h3": (True, False),
    }
    assert hosts["h2"]["nova-compute"]["updated_at"].count(":") == 2
