"""Availability zones, as Nova's clients see them."""

from typing import Any

import pytest

from tests.api.front import Front, fault
from whimbrel.domain.ids import CellName, HostName, ServerId
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.processes import LEASE_S, ProcessRecord
from whimbrel.servers import lookup
from whimbrel.servers.zones import zone_users
from whimbrel.sim.cloud.cloud import IMAGE


async def put_into_zone(front: Front, zone: str, *hosts: str) -> None:
    requested = {"aggregate": {"name": zone, "availability_zone": zone}}
    number = (await front.ask("POST", "/os-aggregates", requested, who="admin")).json()["aggregate"]["id"]
    for host in hosts:
        await front.ask("POST", f"/os-aggregates/{number}/action", {"add_host": {"host": host}}, who="admin")


async def disable(front: Front, host: str) -> None:
    body = {"host": host, "binary": "nova-compute"}
    assert (await front.ask("PUT", "/os-services/disable", body, who="admin", minor=52)).status_code == 200


def zone(name: str, available: bool) -> object:
    return {"zoneName": name, "zoneState": {"available": available}, "hosts": None}


async def test_hosts_in_no_zone_are_in_the_default_one(front: Front) -> None:
    assert await front.get("/os-availability-zone", who="nobody") == {"availabilityZoneInfo": [zone("nova", True)]}


async def test_a_zone_is_available_while_a_host_of_it_is_enabled(front: Front) -> None:
    await put_into_zone(front, "east", "h1", "h2")
    await put_into_zone(front, "empty")
    await disable(front, "h1")
    await disable(front, "h3")
    zones = (await front.get("/os-availability-zone"))["availabilityZoneInfo"]
    assert zones == [zone("east", True), zone("nova", False)]


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


async def test_details_show_conductors_in_the_zone_internal(front: Front) -> None:
    named = {"role": "conductor", "host": "m1", "pid": 1, "directory": "/", "release": "0.2.0"}
    await front.world.cloud.processes.enter(ProcessRecord(id="p", name="c", lock="l", **named), LEASE_S)
    internal, nova = (await front.get("/os-availability-zone/detail", who="admin"))["availabilityZoneInfo"]
    assert (internal["zoneName"], internal["zoneState"], nova["zoneName"]) == ("internal", {"available": True}, "nova")
    services = internal["hosts"]["m1"]
    assert {name: (one["active"], one["available"]) for name, one in services.items()} == {
        "nova-conductor": (True, True),
        "nova-scheduler": (True, True),
    }
    assert await front.get("/os-availability-zone") == {"availabilityZoneInfo": [zone("nova", True)]}
    hosts = await front.get("/os-hosts?zone=internal", who="admin", minor=42)
    assert [(one["host_name"], one["service"]) for one in hosts["hosts"]] == [("m1", "conductor"), ("m1", "scheduler")]


async def ids(front: Front) -> dict[str, str]:
    return {zone["name"]: zone["id"] for zone in (await front.get("/whimbrel/zones", who="admin"))["zones"]}


async def rename(front: Front, zone_id: str, name: Any, who: str = "admin") -> Any:
    return await front.ask("PUT", f"/whimbrel/zones/{zone_id}", {"zone": {"name": name}}, who=who)


async def test_zones_are_listed_with_their_ids_also_those_without_hosts(front: Front) -> None:
    await put_into_zone(front, "east", "h1")
    await put_into_zone(front, "empty")
    known = (await front.get("/whimbrel/zones", who="admin"))["zones"]
    assert [(zone["name"], zone["hosts"], zone["is_default"]) for zone in known] == [
        ("east", ["h1"], False),
        ("empty", [], False),
        ("nova", ["h2", "h3"], True),
    ]
    assert len({zone["id"] for zone in known}) == 3
    fault(await front.ask("GET", "/whimbrel/zones", who="manager"), "forbidden", 403)


async def test_a_zone_is_shown_under_its_new_name_everywhere_and_found_by_it(front: Front) -> None:
    await put_into_zone(front, "east", "h1")
    server_id = await front.boot(availability_zone="east")
    assert (await rename(front, (await ids(front))["east"], "sunrise")).status_code == 200
    assert (await front.get("/os-availability-zone"))["availabilityZoneInfo"][1] == zone("sunrise", True)
    [aggregate] = (await front.get("/os-aggregates", who="admin"))["aggregates"]
    assert (aggregate["name"], aggregate["availability_zone"], aggregate["metadata"]) == (
        *("east", "sunrise"),
        {"availability_zone": "sunrise"},
    )
    services = (await front.get("/os-services", who="admin"))["services"]
    assert [one["zone"] for one in services] == ["sunrise", "nova", "nova"]
    server = await front.show(server_id)
    assert (server["OS-EXT-AZ:availability_zone"], server["pinned_availability_zone"]) == ("sunrise", "sunrise")
    for name, found in (("sunrise", [server_id]), ("east", []), ("nova", [])):
        listed = (await front.get(f"/servers?availability_zone={name}"))["servers"]
        assert [one["id"] for one in listed] == found
    body = {"server": {"name": "two", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}}
    body["server"]["availability_zone"] = "east"
    assert "not available" in fault(await front.ask("POST", "/servers", body), "badRequest", 400)
    await front.boot(availability_zone="sunrise")


@pytest.mark.parametrize("way", ["asc", "desc"])
async def test_servers_are_sorted_by_the_names_of_their_zones(front: Front, way: str) -> None:
    for name, host in (("east", "h1"), ("west", "h2")):
        await put_into_zone(front, name, host)
    await rename(front, (await ids(front))["east"], "zenith")
    for name in ("zenith", "west", "nova"):
        await front.boot(name, availability_zone=name)
    query = f"sort_key=availability_zone&sort_dir={way}"
    listed = [server["name"] for server in (await front.get(f"/servers?{query}"))["servers"]]
    assert listed == sorted(listed, reverse=way == "desc") != []
    last = await front.get(f"/servers?{query}&limit=2")
    marker = last["servers"][-1]["id"]
    assert [one["name"] for one in (await front.get(f"/servers?{query}&marker={marker}"))["servers"]] == listed[2:]


async def test_the_default_zone_is_renamed_as_any_other(front: Front) -> None:
    server_id = await front.boot(availability_zone="nova")
    assert (await rename(front, (await ids(front))["nova"], "main")).status_code == 200
    assert (await front.get("/os-availability-zone"))["availabilityZoneInfo"] == [zone("main", True)]
    assert (await front.show(server_id))["pinned_availability_zone"] == "main"
    await put_into_zone(front, "nova", "h1", "h2", "h3")  # a new zone, of the old name
    known = (await front.get("/whimbrel/zones", who="admin"))["zones"]
    assert {one["name"]: one["is_default"] for one in known} == {"main": True, "nova": False}


async def test_bad_names_of_zones_are_refused(front: Front) -> None:
    await put_into_zone(front, "east", "h1")
    east = (await ids(front))["east"]
    assert "nova" in fault(await rename(front, east, "nova"), "conflictingRequest", 409)
    for name in ("", "a:b", None, "x" * 256):
        fault(await rename(front, east, name), "badRequest", 400)
    fault(await rename(front, "moon", "sun"), "itemNotFound", 404)
    fault(await rename(front, east, "west", who="manager"), "forbidden", 403)
    assert list(await ids(front)) == ["east", "nova"]


@pytest.mark.cloud(Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, default_schedule_zone="east"))
async def test_servers_for_which_nobody_names_a_zone_go_to_that_of_the_rule(front: Front) -> None:
    requested = {"server": {"name": "one", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}}
    assert "not available" in fault(await front.ask("POST", "/servers", requested), "badRequest", 400)
    await put_into_zone(front, "east", "h1")
    assert (await front.show(await front.boot()))["pinned_availability_zone"] == "east"
    assert (await front.show(await front.boot(availability_zone="nova")))["pinned_availability_zone"] == "nova"


# Deleting


async def delete(front: Front, zone_id: str, who: str = "admin") -> Any:
    return await front.ask("DELETE", f"/whimbrel/zones/{zone_id}", who=who)


async def test_a_zone_that_means_nothing_to_anybody_is_deleted(front: Front) -> None:
    await put_into_zone(front, "east")
    zone_id = (await ids(front))["east"]
    fault(await delete(front, zone_id, "manager"), "forbidden", 403)
    message = fault(await delete(front, zone_id), "conflictingRequest", 409)
    assert message == "Availability zone east cannot be deleted: carried by aggregates: east."
    [aggregate] = await front.world.cloud.aggregates.all()
    await front.world.cloud.aggregates.delete(aggregate.id)
    assert (await delete(front, zone_id)).status_code == 204
    assert (await ids(front)).keys() == {"nova"}
    fault(await delete(front, zone_id), "itemNotFound", 404)


async def test_the_default_zone_stays(front: Front) -> None:
    assert "default" in fault(await delete(front, (await ids(front))["nova"]), "conflictingRequest", 409)


async def test_a_zone_stays_while_servers_are_in_it_or_pinned_to_it(front: Front) -> None:
    """Somebody took its hosts away by hand."""
    await put_into_zone(front, "east", "h1")
    zone_id = (await ids(front))["east"]
    server_id = await front.boot(availability_zone="east")
    cloud = front.world.cloud
    [aggregate] = await cloud.aggregates.all()
    await cloud.aggregates.remove_host(aggregate.id, HostName("h1"), 1.0)
    await cloud.aggregates.delete(aggregate.id)
    assert f"servers are in it: {server_id}" in fault(await delete(front, zone_id), "conflictingRequest", 409)
    record = await lookup.find(cloud, ServerId(server_id))
    await cloud.cell(CellName("c1")).servers.change(record, {"zone": "nova"})
    assert f"servers are pinned to it: {server_id}" in fault(await delete(front, zone_id), "conflictingRequest", 409)
    body = {"server": {"pinned_availability_zone": None}}
    assert (await front.ask("PUT", f"/servers/{server_id}", body)).status_code == 200
    assert (await delete(front, zone_id)).status_code == 204


async def test_a_zone_stays_while_moves_go_there(front: Front) -> None:
    await put_into_zone(front, "east", "h1")
    zone_id = (await ids(front))["east"]
    server_id = await front.boot(availability_zone="nova")
    body = {"move": {"availability_zone": "east"}}
    assert (await front.ask("POST", f"/whimbrel/servers/{server_id}/move", body, who="admin")).status_code == 202
    [aggregate] = await front.world.cloud.aggregates.all()
    await front.world.cloud.aggregates.remove_host(aggregate.id, HostName("h1"), 1.0)
    await front.world.cloud.aggregates.delete(aggregate.id)
    words = f"moves concern it, of servers: {server_id}"
    assert words in fault(await delete(front, zone_id), "conflictingRequest", 409)


async def test_many_servers_are_all_looked_at_and_few_are_named(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zone_users, "AT_ONCE", 2)
    await put_into_zone(front, "east", "h1", "h2")
    zone_id = (await ids(front))["east"]
    for number in range(5):
        await front.boot(f"s{number}", availability_zone="east", settle=False)
    await front.settle()
    cloud = front.world.cloud
    [aggregate] = await cloud.aggregates.all()
    for host in ("h1", "h2"):
        await cloud.aggregates.remove_host(aggregate.id, HostName(host), 1.0)
    await cloud.aggregates.delete(aggregate.id)
    assert " and 2 more." in fault(await delete(front, zone_id), "conflictingRequest", 409)
