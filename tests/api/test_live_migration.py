"""Live migrations as Nova's clients know them: who may begin one, how it goes on, how it is aborted or completed."""

from typing import Any

import pytest

from tests.api.front import OTHER_PROJECT, Front, fault
from tests.api.live_moves import SLOW, migrate_live, standing_at
from tests.api.test_instance_actions import action

SLOWLY = pytest.mark.cloud(times=SLOW)

FIELDS = {
    *("id", "server_uuid", "status", "source_compute", "source_node", "dest_compute", "dest_node", "dest_host"),
    *("created_at", "updated_at", "memory_total_bytes", "memory_processed_bytes", "memory_remaining_bytes"),
    *("disk_total_bytes", "disk_processed_bytes", "disk_remaining_bytes"),
}


async def booted(front: Front, **more: Any) -> str:
    return await front.boot(who="admin", host="h1", **more)


async def listed(front: Front, query: str = "", **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await front.get(f"/os-migrations{query}", **{"who": "admin", **more}))["migrations"]
    return found


async def in_progress(front: Front, server_id: str, **more: Any) -> list[dict[str, Any]]:
    path = f"/servers/{server_id}/migrations"
    found: list[dict[str, Any]] = (await front.get(path, **{"who": "admin", **more}))["migrations"]
    return found


# Begin


async def test_a_server_is_migrated_live_and_has_no_verdict(front: Front) -> None:
    server_id = await booted(front)
    answer = await migrate_live(front, server_id)
    assert (answer.status_code, answer.content) == (202, b"")
    moving = await front.show(server_id)
    assert (moving["status"], moving["OS-EXT-STS:task_state"], moving["OS-EXT-STS:vm_state"]) == (
        *("MIGRATING", "migrating", "active"),
    )
    await front.settle()
    server = await front.show(server_id, who="admin")
    assert (server["status"], server["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert server["OS-EXT-SRV-ATTR:host"] in ("h2", "h3")
    [migration] = await listed(front)
    assert (migration["status"], migration["migration_type"]) == ("completed", "live-migration")
    assert (migration["source_compute"], migration["dest_compute"]) == ("h1", server["OS-EXT-SRV-ATTR:host"])
    assert (migration["old_instance_type_id"], migration["new_instance_type_id"]) == (1, 1)
    assert "links" not in migration
    assert await in_progress(front, server_id) == []
    assert [one["instance_uuid"] for one in await listed(front, "?migration_type=live-migration")] == [server_id]
    assert await listed(front, "?migration_type=migration") == []


@pytest.mark.parametrize(
    ("minor", "arguments"),
    [
        (1, {"host": None, "block_migration": True, "disk_over_commit": False}),
        (24, {"host": "h3", "block_migration": "True", "disk_over_commit": "no"}),
        (25, {"host": None, "block_migration": "auto"}),
        (30, {"host": "h3", "block_migration": True, "force": False}),
        (30, {"host": "h3", "block_migration": True, "force": True}),
        (67, {"host": "h3", "block_migration": "auto", "force": "False"}),
        (67, {"host": "h3", "block_migration": "auto", "force": "yes"}),
        (68, {"host": "h3", "block_migration": "auto"}),
    ],
)
async def test_its_arguments_come_and_go_with_the_version(front: Front, minor: int, arguments: dict[str, Any]) -> None:
    server_id = await booted(front)
    answer = await front.act(server_id, {"os-migrateLive": arguments}, who="admin", minor=minor)
    assert answer.status_code == 202, answer.text
    await front.settle()
    server = await front.show(server_id, who="admin")
    assert server["status"] == "ACTIVE"
    assert server["OS-EXT-SRV-ATTR:host"] in ([arguments["host"]] if arguments["host"] else ["h2", "h3"])


@pytest.mark.parametrize(
    ("minor", "arguments", "said"),
    [
        (1, {"host": None, "block_migration": True}, "disk_over_commit"),
        (24, {"host": None, "block_migration": "auto", "disk_over_commit": False}, "auto"),
        (25, {"host": None, "block_migration": "auto", "disk_over_commit": False}, "disk_over_commit"),
        (29, {"host": "h2", "block_migration": "auto", "force": False}, "force"),
        (30, {"host": None, "block_migration": "auto", "force": True}, "Can't force to a non-provided destination"),
        (67, {"host": "h1", "block_migration": "auto", "force": "yes"}, "where the server exists"),
        (68, {"host": "h2", "block_migration": "auto", "force": False}, "force"),
        (104, {"block_migration": "auto"}, "host"),
        (104, {"host": None}, "block_migration"),
        (104, {"host": "h 2", "block_migration": "auto"}, "host"),
        (104, {"host": "h9", "block_migration": "auto"}, "Compute host h9 could not be found."),
        (104, {"host": "h1", "block_migration": "auto"}, "where the server exists"),
        (104, {"host": None, "block_migration": False}, "use block migration"),
        (104, None, "null is not of type"),
    ],
)
async def test_a_wrong_request_is_400_and_changes_nothing(front: Front, minor: int, arguments: Any, said: str) -> None:
    server_id = await booted(front)
    before = await front.show(server_id)
    answer = await front.act(server_id, {"os-migrateLive": arguments}, who="admin", minor=minor)
    assert said.lower() in fault(answer, "badRequest", 400).lower()
    assert await front.show(server_id) == before
    assert await listed(front) == []


async def test_who_may_migrate_live(front: Front) -> None:
    server_id = await booted(front)
    fault(await migrate_live(front, server_id, who="member"), "forbidden", 403)
    fault(await migrate_live(front, server_id, who="manager", host="h2"), "forbidden", 403)
    fault(await migrate_live(front, server_id, who=f"manager@{OTHER_PROJECT}"), "itemNotFound", 404)
    await front.act(server_id, {"lock": None}, who="admin")
    assert "is locked" in fault(await migrate_live(front, server_id, who="manager"), "conflictingRequest", 409)
    await front.act(server_id, {"unlock": None}, who="admin")
    assert (await migrate_live(front, server_id, who="manager")).status_code == 202
    await front.settle()


async def test_only_a_running_or_paused_server_is_migrated_live(front: Front) -> None:
    server_id = await booted(front)
    await front.act(server_id, {"os-stop": None})
    await front.settle()
    said = fault(await migrate_live(front, server_id), "conflictingRequest", 409)
    assert said == f"Cannot 'os-migrateLive' instance {server_id} while it is in vm_state stopped"
    await front.act(server_id, {"os-start": None})
    await front.settle()
    await migrate_live(front, server_id)
    said = fault(await migrate_live(front, server_id), "conflictingRequest", 409)
    assert said == f"Cannot 'os-migrateLive' instance {server_id} while it is in task_state migrating"
    await front.settle()


async def test_below_2_34_the_request_itself_is_refused_if_there_is_no_host(front: Front) -> None:
    server_id = await booted(front)
    for host in ("h2", "h3"):
        [service] = (await front.get(f"/os-services?host={host}", who="admin"))["services"]
        body = {"status": "disabled"}
        assert (await front.ask("PUT", f"/os-services/{service['id']}", body, who="admin")).status_code == 200
    arguments = {"host": None, "block_migration": "auto"}
    said = fault(await front.act(server_id, {"os-migrateLive": arguments}, who="admin", minor=33), "badRequest", 400)
    assert said.startswith("No valid host was found. Of 3 hosts considered, ")
    assert await listed(front) == []
    assert (await front.act(server_id, {"os-migrateLive": arguments}, who="admin", minor=34)).status_code == 202
    await front.settle()
    [migration] = await listed(front)
    assert (migration["status"], migration["dest_compute"]) == ("error", None)
    server = await front.show(server_id, who="admin")
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "h1")


# In progress


@SLOWLY
async def test_a_live_migration_shows_its_progress(front: Front) -> None:
    server_id = await booted(front)
    front.world.simulated.dirty_rates[server_id] = 10 << 20  # type: ignore[index]
    async with standing_at(front, server_id, "running") as migration:
        number, uuid = migration["id"], migration["uuid"]
        links = [link["href"] for link in migration["links"]]
        assert links[0].endswith(f"/v2.1/servers/{server_id}/migrations/{number}")
        assert "links" not in (await listed(front, minor=22))[0]
        [one] = await in_progress(front, server_id)
        assert set(one) == FIELDS | {"uuid", "user_id", "project_id"}
        assert set((await in_progress(front, server_id, minor=59))[0]) == FIELDS | {"uuid"}
        assert set((await in_progress(front, server_id, minor=23))[0]) == FIELDS
        assert (one["status"], one["source_compute"], one["server_uuid"]) == ("running", "h1", server_id)
        assert one["memory_total_bytes"] == 512 << 20
        assert one["memory_total_bytes"] == one["memory_processed_bytes"] + one["memory_remaining_bytes"]
        assert one["disk_total_bytes"] == one["disk_processed_bytes"] + one["disk_remaining_bytes"]
        for wanted in (number, uuid):
            path = f"/servers/{server_id}/migrations/{wanted}"
            assert (await front.get(path, who="admin"))["migration"] == one
        [mine] = await in_progress(front, server_id, who="manager")
        assert (mine["source_compute"], mine["dest_compute"], mine["dest_host"]) == (None, None, None)
        server = await front.show(server_id)
        copied = round(100 * one["memory_processed_bytes"] / one["memory_total_bytes"])
        assert (server["status"], server["progress"]) == ("MIGRATING", copied)
        assert [each["id"] for each in (await front.get("/servers?status=MIGRATING"))["servers"]] == [server_id]
        assert (await front.get("/servers/detail"))["servers"][0]["progress"] == copied
    path = f"/servers/{server_id}/migrations/{number}"
    said = fault(await front.ask("GET", path, who="admin"), "itemNotFound", 404)
    assert said == f"Migration {number} for server {server_id} is not in progress."


async def test_only_its_own_live_migrations_are_those_of_a_server(front: Front) -> None:
    one, two = await booted(front), await booted(front, name="two")
    await front.act(two, {"migrate": None}, who="admin")
    await front.settle()
    [cold] = await listed(front)
    said = fault(await front.ask("GET", f"/servers/{one}/migrations/{cold['id']}", who="admin"), "itemNotFound", 404)
    assert said == f"Migration {cold['id']} not found for instance {one}"
    said = fault(await front.ask("GET", f"/servers/{two}/migrations/{cold['id']}", who="admin"), "itemNotFound", 404)
    assert said == f"Migration {cold['id']} for server {two} is not live-migration."
    fault(await front.ask("GET", f"/servers/{two}/migrations/{cold['id']}", who="manager"), "forbidden", 403)
    fault(await front.ask("GET", f"/servers/{two}/migrations", who="member"), "forbidden", 403)
    fault(await front.ask("GET", f"/servers/{two}/migrations", who="admin", minor=22), "itemNotFound", 404)


# Abort


async def abort(front: Front, server_id: str, migration: Any, **more: Any) -> Any:
    return await front.ask("DELETE", f"/servers/{server_id}/migrations/{migration}", **{"who": "manager", **more})


@SLOWLY
@pytest.mark.parametrize(("status", "minor"), [("running", 24), ("queued", 65), ("preparing", 65)])
async def test_a_live_migration_is_aborted(front: Front, status: str, minor: int) -> None:
    server_id = await booted(front)
    async with standing_at(front, server_id, status) as migration:
        fault(await abort(front, server_id, migration["id"], minor=23), "itemNotFound", 404)
        fault(await abort(front, server_id, migration["id"], who="member"), "forbidden", 403)
        if minor == 65:
            said = fault(await abort(front, server_id, migration["id"], minor=64), "badRequest", 400)
            assert said == (
                f"Migration {migration['id']} state of instance {server_id} is {status}. Cannot abort live migration"
                " while the migration is in this state."
            )
        answer = await abort(front, server_id, migration["id"], minor=minor)
        assert (answer.status_code, answer.content) == (202, b"")
    await front.settle()
    server = await front.show(server_id, who="admin")
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "h1")
    [ended] = await listed(front)
    assert ended["status"] == "cancelled"
    names = [one["action"] for one in (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]]
    assert names == ["live_migration_cancel", "live-migration", "create"]


async def test_what_is_not_a_live_migration_under_way_is_not_aborted(front: Front) -> None:
    server_id, other = await booted(front), await booted(front, name="two")
    await migrate_live(front, server_id)
    [migration] = await listed(front)
    said = fault(await abort(front, server_id, migration["id"]), "badRequest", 400)
    assert "is accepted. Cannot abort" in said
    fault(await abort(front, server_id, 99), "itemNotFound", 404)
    await front.settle()
    said = fault(await abort(front, server_id, migration["id"]), "conflictingRequest", 409)
    assert said == f"Instance {server_id} is in an invalid state for 'abort live migration'"
    fault(await abort(front, other, migration["id"]), "conflictingRequest", 409)
    fault(await abort(front, server_id, 99), "conflictingRequest", 409)


# Force complete


async def force(front: Front, server_id: str, migration: Any, **more: Any) -> Any:
    path = f"/servers/{server_id}/migrations/{migration}/action"
    return await front.ask("POST", path, more.pop("body", {"force_complete": None}), **{"who": "manager", **more})


@SLOWLY
async def test_a_live_migration_that_does_not_converge_is_forced_to_complete(front: Front) -> None:
    server_id = await booted(front)
    front.world.simulated.dirty_rates[server_id] = 200 << 20  # type: ignore[index]
    async with standing_at(front, server_id, "running") as migration:
        fault(await force(front, server_id, migration["id"], minor=21), "itemNotFound", 404)
        fault(await force(front, server_id, migration["id"], who="member"), "forbidden", 403)
        for body in ({}, {"force_complete": {}}, {"complete": None}):
            fault(await force(front, server_id, migration["id"], body=body), "badRequest", 400)
        answer = await force(front, server_id, migration["id"], minor=22)
        assert (answer.status_code, answer.content) == (202, b"")
    await front.settle()
    server = await front.show(server_id, who="admin")
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", migration["dest_compute"])
    assert (await listed(front))[0]["status"] == "completed"
    names = [one["action"] for one in (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]]
    assert names == ["live_migration_force_complete", "live-migration", "create"]


@SLOWLY
async def test_only_a_running_live_migration_is_forced_to_complete(front: Front) -> None:
    server_id = await booted(front)
    async with standing_at(front, server_id, "queued") as migration:
        said = fault(await force(front, server_id, migration["id"]), "badRequest", 400)
        assert said == (
            f"Migration {migration['id']} state of instance {server_id} is queued. Cannot force complete while the"
            " migration is in this state."
        )
        assert "not found for instance" in fault(await force(front, server_id, 99), "badRequest", 400)
    said = fault(await force(front, server_id, migration["id"]), "conflictingRequest", 409)
    assert said == f"Instance {server_id} is in an invalid state for 'force_complete'"


# Afterwards


async def test_its_events_are_novas(front: Front) -> None:
    server_id = await booted(front)
    await migrate_live(front, server_id)
    await front.settle()
    target = (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"]
    found = await action(front, server_id, "live-migration", who="admin")
    events = {event["event"]: event["host"] for event in found["events"]}
    assert events == {
        "conductor_live_migrate_instance": "",
        "compute_check_can_live_migrate_source": "h1",
        "compute_check_can_live_migrate_destination": target,
        "compute_pre_live_migration": target,
        "compute_live_migration": "h1",
        "compute_post_live_migration_at_destination": target,
    }
    assert {event["result"] for event in found["events"]} == {"Success"}
