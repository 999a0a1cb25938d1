"""Services, as Nova's clients see them: listing, disabling, forcing down, deleting."""

from typing import Any

import httpx
import pytest

from tests.api.front import Front, fault
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.release import Knowledge
from whimbrel.ports.stores.processes import LEASE_S, ProcessRecord


async def services(front: Front, query: str = "", minor: int = 104) -> list[Any]:
    found: list[Any] = (await front.get(f"/os-services{query}", who="admin", minor=minor))["services"]
    return found


async def put(front: Front, path: str, minor: int, **body: Any) -> httpx.Response:
    return await front.ask("PUT", f"/os-services/{path}", body, who="admin", minor=minor)


async def id_of(front: Front, host: str, minor: int = 104) -> str:
    return str((await services(front, f"?host={host}", minor))[0]["id"])


async def is_disabled_in_placement(front: Front, name: str) -> bool:
    cloud = front.world.cloud
    host = await cloud.cell(CellName("c1")).hosts.get(HostName(name))
    state = next(state for state in await cloud.placement.providers() if state.id == host.id)
    return "COMPUTE_STATUS_DISABLED" in state.traits


async def test_listing(front: Front) -> None:
    first = (await services(front))[0]
    assert len(first.pop("id")) == 36
    assert first.pop("updated_at")
    assert first == {
        "binary": "nova-compute",
        "host": "h1",
        "zone": "nova",
        "status": "enabled",
        "state": "up",
        "disabled_reason": None,
        "forced_down": False,
    }
    assert [one["host"] for one in await services(front)] == ["h1", "h2", "h3"]
    assert [one["host"] for one in await services(front, "?host=h2&binary=nova-compute")] == ["h2"]
    assert await services(front, "?binary=nova-scheduler") == []
    old = (await services(front, minor=10))[0]
    assert (old["id"], "forced_down" in old) == (1, False)
    assert "forced_down" in (await services(front, minor=11))[0]
    fault(await front.ask("GET", "/os-services", who="manager"), "forbidden", 403)
    assert len(await services(front, "?colour=blue", 74)) == 3
    fault(await front.ask("GET", "/os-services?colour=blue", who="admin", minor=75), "badRequest", 400)


async def test_a_host_is_disabled_with_a_reason_and_enabled(front: Front) -> None:
    id = await id_of(front, "h1")
    answer = await put(front, id, 53, status="disabled", disabled_reason="new fan")
    shown = answer.json()["service"]
    assert (answer.status_code, shown["status"], shown["disabled_reason"]) == (200, "disabled", "new fan")
    assert await is_disabled_in_placement(front, "h1")
    assert (await services(front, "?host=h1"))[0] == shown | {"updated_at": shown["updated_at"]}
    shown = (await put(front, id, 53, status="enabled")).json()["service"]
    assert (shown["status"], shown["disabled_reason"]) == ("enabled", None)
    assert not await is_disabled_in_placement(front, "h1")


async def test_no_server_goes_to_a_disabled_host(front: Front) -> None:
    for host in ("h1", "h3"):
        await put(front, await id_of(front, host), 53, status="disabled")
    for name in ("a", "b"):
        assert (await front.show(await front.boot(name), who="admin"))["OS-EXT-SRV-ATTR:host"] == "h2"


async def test_a_host_is_forced_down_and_up(front: Front) -> None:
    id = await id_of(front, "h1")
    shown = (await put(front, id, 53, forced_down=True)).json()["service"]
    assert (shown["state"], shown["forced_down"], shown["status"]) == ("down", True, "enabled")
    shown = (await put(front, id, 53, forced_down=False, status="disabled")).json()["service"]
    assert (shown["state"], shown["forced_down"], shown["status"]) == ("up", False, "disabled")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"status": "tired"},
        {"forced_down": "maybe"},
        {"status": "disabled", "disabled_reason": ""},
        {"status": "disabled", "disabled_reason": "x" * 256},
        {"status": "enabled", "disabled_reason": "none"},
        {"disabled_reason": "alone"},
        {"host": "h1", "binary": "nova-compute"},
        {"status": "disabled", "colour": "blue"},
    ],
)
async def test_bad_changes_are_refused(front: Front, body: dict[str, Any]) -> None:
    id = await id_of(front, "h1")
    fault(await put(front, id, 104, **body), "badRequest", 400)
    assert (await services(front, "?host=h1"))[0]["status"] == "enabled"


async def test_ids_are_uuids_from_2_53(front: Front) -> None:
    fault(await put(front, "1", 53, status="disabled"), "badRequest", 400)
    fault(await put(front, "11111111-1111-4111-8111-111111111111", 53, status="disabled"), "itemNotFound", 404)
    fault(await front.ask("DELETE", "/os-services/1", who="admin"), "badRequest", 400)
    fault(await front.ask("DELETE", "/os-services/x", who="admin", minor=52), "badRequest", 400)
    for number in ("77", "7" * 5000):
        fault(await front.ask("DELETE", f"/os-services/{number}", who="admin", minor=52), "itemNotFound", 404)


async def test_the_old_forms(front: Front) -> None:
    who = {"host": "h1", "binary": "nova-compute"}
    assert (await put(front, "disable", 52, **who)).json() == {"service": who | {"status": "disabled"}}
    answer = await put(front, "disable-log-reason", 52, **who, disabled_reason="new fan")
    assert answer.json() == {"service": who | {"status": "disabled", "disabled_reason": "new fan"}}
    assert (await services(front, "?host=h1"))[0]["disabled_reason"] == "new fan"
    assert (await put(front, "enable", 52, **who)).json() == {"service": who | {"status": "enabled"}}
    assert (await put(front, "force-down", 52, **who, forced_down=True)).json() == {
        "service": who | {"forced_down": True}
    }
    assert (await services(front, "?host=h1"))[0]["state"] == "down"


async def test_the_old_forms_of_bad_requests(front: Front) -> None:
    who = {"host": "h1", "binary": "nova-compute"}
    fault(await put(front, "disable-log-reason", 52, **who), "badRequest", 400)
    fault(await put(front, "force-down", 52, **who), "badRequest", 400)
    fault(await put(front, "force-down", 10, **who), "itemNotFound", 404)
    fault(await put(front, "disable", 10, **who, forced_down=True), "badRequest", 400)
    fault(await put(front, "disable", 52, host="h1"), "badRequest", 400)
    fault(await put(front, "disable", 52, host="h9", binary="nova-compute"), "itemNotFound", 404)
    fault(await put(front, "disable", 52, host="h1", binary="nova-scheduler"), "badRequest", 400)
    fault(await put(front, "paint", 52, **who), "itemNotFound", 404)
    fault(await put(front, "disable", 53, **who), "badRequest", 400)


# Deleting


async def test_an_empty_host_is_forgotten(front: Front) -> None:
    requested = {"aggregate": {"name": "a"}}
    number = (await front.ask("POST", "/os-aggregates", requested, who="admin")).json()["aggregate"]["id"]
    await front.ask("POST", f"/os-aggregates/{number}/action", {"add_host": {"host": "h1"}}, who="admin")
    id = await id_of(front, "h1")
    fault(await front.ask("DELETE", f"/os-services/{id}"), "forbidden", 403)
    assert (await front.ask("DELETE", f"/os-services/{id}", who="admin")).status_code == 204
    assert [one["host"] for one in await services(front)] == ["h2", "h3"]
    assert len(await front.world.cloud.placement.providers()) == 2
    assert (await front.get(f"/os-aggregates/{number}", who="admin"))["aggregate"]["hosts"] == []
    fault(await front.ask("DELETE", f"/os-services/{id}", who="admin"), "itemNotFound", 404)
    assert (await front.ask("DELETE", "/os-services/2", who="admin", minor=52)).status_code == 204


async def test_a_host_with_servers_or_moves_is_not_forgotten(front: Front) -> None:
    server_id = await front.boot()
    source = (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"]
    id = await id_of(front, source)
    assert "hosting instances" in fault(
        await front.ask("DELETE", f"/os-services/{id}", who="admin"), "conflictingRequest", 409
    )
    await front.act(server_id, {"migrate": None}, who="admin")
    await front.settle()
    assert "in-progress migrations" in fault(
        await front.ask("DELETE", f"/os-services/{id}", who="admin"), "conflictingRequest", 409
    )
    await front.act(server_id, {"confirmResize": None})
    await front.settle()
    assert (await front.ask("DELETE", f"/os-services/{id}", who="admin")).status_code == 204


# Conductors


ALL = Knowledge()


async def enter(
    front: Front,
    name: str,
    role: str = "conductor",
    host: str = "m1",
    lease_s: float = LEASE_S,
    knows: Knowledge = ALL,
) -> None:
    made = ProcessRecord(
        id=name, role=role, name=name, host=host, pid=1, directory="/", lock=name, release="0.2.0", knows=knows
    )
    await front.world.cloud.processes.enter(made, lease_s)


async def test_conductors_are_services_of_their_machine(front: Front) -> None:
    await enter(front, "c1")
    await enter(front, "c2", lease_s=0)
    await enter(front, "main", "up", "m2", lease_s=0)
    await enter(front, "images", "image", "m3")
    await enter(front, "without", "up", "m4", knows=Knowledge(conducts=False))  # whimbrel up --no-conductor
    shown = (await services(front))[3:]
    assert [(one["host"], one["binary"], one["zone"], one["status"], one["state"]) for one in shown] == [
        ("m1", "nova-conductor", "internal", "enabled", "up"),
        ("m1", "nova-scheduler", "internal", "enabled", "up"),
        ("m2", "nova-conductor", "internal", "enabled", "down"),
        ("m2", "nova-scheduler", "internal", "enabled", "down"),
    ]
    assert shown[0]["updated_at"]
    assert len({one["id"] for one in shown}) == 4
    assert shown[0].keys() == (await services(front))[0].keys()
    assert await services(front, "?binary=nova-scheduler&host=m2") == shown[3:]
    [old] = await services(front, "?binary=nova-conductor&host=m1", minor=10)
    assert (type(old["id"]), "forced_down" in old) == (int, False)


@pytest.mark.parametrize("minor", [52, 104])
async def test_a_conductor_is_deleted_when_it_has_ended(front: Front, minor: int) -> None:
    await enter(front, "c1")
    await enter(front, "c2", host="m2", lease_s=0)
    live, dead = await id_of(front, "m1", minor), await id_of(front, "m2", minor)
    ask = {"who": "admin", "minor": minor}
    fault(await front.ask("DELETE", f"/os-services/{live}", **ask), "conflictingRequest", 409)
    assert (await front.ask("DELETE", f"/os-services/{dead}", **ask)).status_code == 204
    fault(await front.ask("DELETE", f"/os-services/{dead}", **ask), "itemNotFound", 404)
    assert [one["host"] for one in await services(front, "?binary=nova-conductor")] == ["m1"]


async def test_only_services_of_hosts_are_changed(front: Front) -> None:
    await enter(front, "c1")
    said = "Updating a nova-conductor service is not supported. Only nova-compute services can be updated."
    answer = await put(front, await id_of(front, "m1"), 53, status="disabled")
    assert fault(answer, "badRequest", 400) == said
    answer = await put(front, "disable", 52, host="m1", binary="nova-conductor")
    assert fault(answer, "badRequest", 400) == said
