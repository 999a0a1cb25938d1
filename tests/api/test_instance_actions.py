"""The history of a server: actions and their events."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.api.front import OTHER_PROJECT, Front, fault
from whimbrel.api.http.policy import DEFAULTS, READER
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import CellName, HostName, ServerId
from whimbrel.http.policy import Policy
from whimbrel.ports.cloud import Rules
from whimbrel.servers import lookup

ACTION = {"action", "instance_uuid", "request_id", "user_id", "project_id", "start_time", "message"}


async def actions(front: Front, server_id: str, query: str = "", **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await front.get(f"/servers/{server_id}/os-instance-actions{query}", **more))[
        "instanceActions"
    ]
    return found


async def action(front: Front, server_id: str, name: str, **more: Any) -> dict[str, Any]:
    [request_id] = [a["request_id"] for a in await actions(front, server_id) if a["action"] == name]
    path = f"/servers/{server_id}/os-instance-actions/{request_id}"
    found: dict[str, Any] = (await front.get(path, **more))["instanceAction"]
    return found


async def moved(front: Front) -> str:
    """A server that was booted, resized and confirmed."""
    server_id = await front.boot(who="admin", host="h1")
    for requested in ({"resize": {"flavorRef": "2"}}, {"confirmResize": None}):
        await front.world.cloud.clock.sleep(1)
        await front.act(server_id, requested)
        await front.settle()
    return server_id


async def test_every_request_is_an_action_under_its_id(front: Front) -> None:
    server_id = await front.boot()
    answer = await front.act(server_id, {"lock": None})
    await front.act(server_id, {"unlock": None})
    await front.act(server_id, {"os-stop": None})
    await front.settle()
    found = await actions(front, server_id)
    assert sorted(a["action"] for a in found) == ["create", "lock", "stop", "unlock"]
    [lock] = [a for a in found if a["action"] == "lock"]
    assert lock["request_id"] == answer.headers["X-OpenStack-Request-ID"]
    assert set(lock) == ACTION | {"updated_at"}
    assert set((await actions(front, server_id, minor=57))[0]) == ACTION


async def test_events_follow_the_steps_of_a_resize(front: Front) -> None:
    server_id = await moved(front)
    resize = await action(front, server_id, "resize", who="admin")
    assert [event["event"] for event in resize["events"]] == [
        *("conductor_migrate_server", "cold_migrate", "compute_prep_resize", "compute_resize_instance"),
        "compute_finish_resize",
    ]
    assert {event["result"] for event in resize["events"]} == {"Success"}
    assert resize["events"][2]["host"] in ("h2", "h3")
    assert resize["events"][3]["host"] == "h1"
    confirm = await action(front, server_id, "confirmResize", who="admin")
    assert [event["event"] for event in confirm["events"]] == ["compute_confirm_resize"]


async def test_who_sees_what_of_an_event(front: Front) -> None:
    server_id = await moved(front)
    basic = {"event", "start_time", "finish_time", "result"}
    for who, minor, wanted in (
        ("member", 51, basic),
        ("member", 62, basic | {"hostId"}),
        ("member", 84, basic | {"hostId"}),
        ("admin", 1, basic | {"traceback"}),
        ("admin", 62, basic | {"traceback", "host", "hostId"}),
        ("admin", 104, basic | {"traceback", "host", "hostId", "details"}),
    ):
        resize = await action(front, server_id, "resize", who=who, minor=minor)
        assert set(resize["events"][0]) == wanted, (who, minor)
    assert "events" not in await action(front, server_id, "resize", who="member", minor=50)


@pytest.mark.cloud(policy=Policy.load({**DEFAULTS, "os_compute_api:os-instance-actions:events:details": READER}))
async def test_the_policy_may_give_details_to_owners(front: Front) -> None:
    server_id = await moved(front)
    for who in ("member", "admin"):
        assert "details" in (await action(front, server_id, "resize", who=who))["events"][0]


async def test_an_event_under_way_has_no_end(front: Front) -> None:
    server_id = await front.boot()
    await front.act(server_id, {"os-stop": None})
    [event] = (await action(front, server_id, "stop"))["events"]
    assert (event["event"], event["finish_time"], event["result"]) == ("compute_stop_instance", None, None)


async def test_a_refused_resize_says_so_and_why(front: Front) -> None:
    huge = Flavor(flavor_id="9", name="huge", vcpus=20, memory_mib=512, root_gib=1)
    await front.world.cloud.flavors.create(huge, 0.0)
    server_id = await front.boot()
    await front.act(server_id, {"resize": {"flavorRef": "9"}})
    await front.settle()
    resize = await action(front, server_id, "resize", who="admin")
    assert resize["events"][-1]["result"] == "Error"
    summary = resize["events"][-1]["details"]
    assert "No valid host" in summary
    for minor in (21, 104):
        assert (await action(front, server_id, "resize", minor=minor))["message"] == f"Error: {summary}"
    assert [each["message"] for each in await actions(front, server_id)] == ["Error", None]


async def test_the_owner_sees_how_many_hosts_fitted_and_of_no_host(front: Front) -> None:
    server_id = await moved(front)
    resize = await action(front, server_id, "resize")
    assert resize["message"] == "2 of 3 hosts fit; of the others, 1: it is the host that the server is on."
    assert (await action(front, server_id, "confirmResize"))["message"] is None


async def test_what_else_fails_is_for_administrators(front: Front) -> None:
    """The agent of the host that was chosen says no, and of each alternate too."""
    server_id = await front.boot(who="admin", host="h1")
    for host in ("h2", "h3"):
        front.world.hypervisors[HostName(host)].refusing.add("start")
    await front.act(server_id, {"resize": {"flavorRef": "2"}})
    await front.settle()
    assert (await action(front, server_id, "resize"))["message"] == "Error"


@pytest.mark.cloud(Rules(cross_az_attach=False))
async def test_the_owner_sees_what_left_no_choice_of_hosts(front: Front) -> None:
    server_id = await front.boot()
    cloud = front.world.cloud
    record = await lookup.find(cloud, ServerId(server_id))
    spec = replace(record.spec, zone_pin="gone")
    await cloud.cell(CellName("c1")).servers.change(record, {"spec": spec})
    await front.act(server_id, {"resize": {"flavorRef": "2"}})
    await front.settle()
    said = "Error: No valid host was found: it is pinned to zone gone, where there is no host any more."
    assert (await action(front, server_id, "resize"))["message"] == said


async def test_actions_go_on_page_by_page(front: Front) -> None:
    server_id = await moved(front)
    path = f"/servers/{server_id}/os-instance-actions"
    page = await front.get(f"{path}?limit=2")
    assert [a["action"] for a in page["instanceActions"]] == ["confirmResize", "resize"]
    rest = page["links"][0]["href"].removeprefix("http://cloud:8774/compute/v2.1")
    assert [a["action"] for a in (await front.get(rest))["instanceActions"]] == ["create"]
    assert await actions(front, server_id, "?changes-since=2100-01-01T00:00:00") == []
    assert len(await actions(front, server_id, "?changes-before=2100-01-01T00:00:00")) == 3
    for query in ("?marker=nothing", "?limit=x", "?unknown=1", "?changes-since=soon"):
        fault(await front.ask("GET", path + query), "badRequest", 400)
    assert len(await actions(front, server_id, "?limit=1", minor=57)) == 3


async def test_the_history_of_a_deleted_server_is_kept(front: Front) -> None:
    server_id = await moved(front)
    await front.ask("DELETE", f"/servers/{server_id}")
    await front.settle()
    assert {a["action"] for a in await actions(front, server_id, minor=21)} == {
        *("create", "resize", "confirmResize", "delete"),
    }
    path = f"/servers/{server_id}/os-instance-actions"
    fault(await front.ask("GET", path, minor=20), "itemNotFound", 404)
    fault(await front.ask("GET", path, who=f"member@{OTHER_PROJECT}"), "itemNotFound", 404)
    fault(await front.ask("GET", f"{path}/req-nothing"), "itemNotFound", 404)
