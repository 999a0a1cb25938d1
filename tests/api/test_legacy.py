"""Routes for old clients: os-hosts, the audit log, and the proxies to other services."""

from typing import Any

from tests.api.front import OTHER_PROJECT, PROJECT, Front, fault
from whimbrel.ports.services.images import Image


async def test_hosts_are_listed_with_their_zone_while_enabled(front: Front) -> None:
    zones = [(one["host_name"], one["service"], one["zone"]) for one in await hosts(front)]
    assert zones == [(host, "compute", "nova") for host in ("h1", "h2", "h3")]
    answer = await front.ask("PUT", "/os-hosts/h1", {"status": "disable"}, who="admin", minor=42)
    assert (answer.status_code, answer.json()) == (200, {"host": "h1", "status": "disabled"})
    assert [one["host_name"] for one in await hosts(front)] == ["h2", "h3"]
    answer = await front.ask("PUT", "/os-hosts/h1", {"status": "Enable"}, who="admin", minor=42)
    assert answer.json() == {"host": "h1", "status": "enabled"}
    assert await hosts(front, "?zone=nowhere") == []
    fault(await front.ask("GET", "/os-hosts", who="member", minor=42), "forbidden", 403)


async def hosts(front: Front, query: str = "") -> list[Any]:
    found: list[Any] = (await front.get(f"/os-hosts{query}", who="admin", minor=42))["hosts"]
    return found


async def test_a_host_shows_its_use_by_projects(front: Front) -> None:
    mine = await front.boot(flavorRef="2")
    host = (await front.show(mine, who="admin"))["OS-EXT-SRV-ATTR:host"]
    await front.boot(who="admin", host=host, minor=104)
    shown = [one["resource"] for one in (await front.get(f"/os-hosts/{host}", who="admin", minor=42))["host"]]
    assert [one["project"] for one in shown] == ["(total)", "(used_now)", "(used_max)", PROJECT]
    flavors = [(await front.get(f"/flavors/{id}"))["flavor"] for id in ("1", "2")]
    cpus = sum(flavor["vcpus"] for flavor in flavors)
    assert [one["cpu"] for one in shown] == [4, cpus, cpus, cpus]
    assert {one["host"] for one in shown} == {host}


async def test_a_host_is_not_switched_by_this_url(front: Front) -> None:
    for path in ("startup", "shutdown", "reboot"):
        fault(await front.ask("GET", f"/os-hosts/h1/{path}", who="admin", minor=42), "notImplemented", 501)
        fault(await front.ask("GET", f"/os-hosts/h9/{path}", who="admin", minor=42), "itemNotFound", 404)
    change = {"maintenance_mode": "enable"}
    fault(await front.ask("PUT", "/os-hosts/h1", change, who="admin", minor=42), "notImplemented", 501)
    fault(await front.ask("PUT", "/os-hosts/h1", {}, who="admin", minor=42), "badRequest", 400)
    down = {"host": "h1", "binary": "nova-compute", "forced_down": True}
    await front.ask("PUT", "/os-services/force-down", down, who="admin", minor=42)
    fault(await front.ask("PUT", "/os-hosts/h1", {"status": "enable"}, who="admin", minor=42), "badRequest", 400)


async def test_no_host_has_audited_anything(front: Front) -> None:
    log = (await front.get("/os-instance_usage_audit_log/2026-03-15 10:00:00", who="admin"))["instance_usage_audit_log"]
    assert (log["period_beginning"], log["period_ending"]) == ("2026-02-01 00:00:00", "2026-03-01 00:00:00")
    assert (log["num_hosts"], log["num_hosts_not_run"], log["hosts_not_run"], log["log"]) == (0, 0, [], {})
    assert log["overall_status"] == "ALL hosts done. 0 errors."
    assert "instance_usage_audit_logs" in await front.get("/os-instance_usage_audit_log", who="admin")
    for wrong in ("yesterday", "0001-01-01 00:00:00"):
        fault(await front.ask("GET", f"/os-instance_usage_audit_log/{wrong}", who="admin"), "badRequest", 400)
    fault(await front.ask("GET", "/os-instance_usage_audit_log", who=f"member@{OTHER_PROJECT}"), "forbidden", 403)


def image(name: str, owner: str, visibility: str = "private", **properties: str) -> Image:
    return Image(
        id=name,
        name=name,
        status="queued",
        disk_format="raw",
        size_bytes=0,
        checksum=None,
        owner=owner,
        visibility=visibility,
        properties=properties,
        updated_at=1_700_000_000.0,
    )


async def image_names(front: Front, query: str = "", **more: Any) -> list[str]:
    return [one["name"] for one in (await front.get(f"/images/detail{query}", minor=35, **more))["images"]]


async def test_images_are_those_that_a_project_may_use(front: Front) -> None:
    for one in (
        image("mine", PROJECT, kind="a", instance_uuid="s1"),
        image("public", OTHER_PROJECT, "public"),
        image("secret", OTHER_PROJECT),
        image("community", OTHER_PROJECT, "community"),
    ):
        await front.world.images.create(one)
    assert await image_names(front) == ["mine", "public"]
    assert {"mine", "public", "secret"} <= set(await image_names(front, who="admin"))
    for query in ("?name=mine", "?server=s1", "?property-kind=a", "?limit=1", "?status=SAVING&name=mine"):
        assert await image_names(front, query) == ["mine"]
    for query in ("?minRam=1", "?minDisk=1", "?type=snapshot", "?status=ACTIVE", "?changes-since=2030-01-01T00:00:00Z"):
        assert await image_names(front, query) == []
    page = await front.get("/images?limit=1", minor=35)
    assert set(page["images"][0]) == {"id", "name", "links"}
    assert "marker=mine" in page["images_links"][0]["href"]
    assert await image_names(front, "?marker=mine") == ["public"]
    for query in ("marker=secret", "page_size=x", "offset=x"):
        fault(await front.ask("GET", f"/images?{query}", minor=35), "badRequest", 400)
    shown = (await front.get("/images/mine", minor=35))["image"]
    assert (shown["status"], shown["progress"], shown["server"]["id"]) == ("SAVING", 25, "s1")
    assert (await front.get("/images/community", minor=35))["image"]["updated"] == "2023-11-14T22:13:20Z"
    fault(await front.ask("GET", "/images/secret", minor=35), "itemNotFound", 404)
    fault(await front.ask("GET", "/images", minor=36), "itemNotFound", 404)


async def test_the_metadata_of_an_image_is_changed_by_its_project(front: Front) -> None:
    await front.world.images.create(image("mine", PROJECT, kind="a"))
    await front.world.images.create(image("public", OTHER_PROJECT, "public"))

    async def asked(method: str, path: str, body: Any = None) -> Any:
        answer = await front.ask(method, "/images/mine/metadata" + path, body, minor=38)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else answer.status_code

    assert await asked("POST", "", {"metadata": {"size": "1"}}) == {"metadata": {"kind": "a", "size": "1"}}
    assert await asked("PUT", "/kind", {"meta": {"kind": "b"}}) == {"meta": {"kind": "b"}}
    assert await asked("GET", "") == {"metadata": {"kind": "b", "size": "1"}}
    assert await asked("DELETE", "/size") == 204
    assert await asked("PUT", "", {"metadata": {"only": "this"}}) == {"metadata": {"only": "this"}}
    assert await asked("GET", "") == {"metadata": {"only": "this"}}
    path, body = "/images/mine/metadata", {"metadata": {"a": "b"}}
    fault(await front.ask("PUT", f"{path}/x", {"meta": {"y": "z"}}, minor=38), "badRequest", 400)
    fault(await front.ask("DELETE", f"{path}/none", minor=38), "itemNotFound", 404)
    fault(await front.ask("POST", path, {"metadata": {"a": 1}}, minor=38), "badRequest", 400)
    fault(await front.ask("POST", path, body, minor=38, who="reader"), "forbidden", 403)
    fault(await front.ask("POST", path, body, minor=39), "itemNotFound", 404)
    fault(await front.ask("POST", "/images/public/metadata", body, minor=38), "forbidden", 403)
    many = {"metadata": {f"n{number}": "" for number in range(129)}}
    fault(await front.ask("POST", path, many, minor=38), "forbidden", 403)


async def test_volumes_are_those_of_the_project(front: Front) -> None:
    wanted = {"size": "2", "display_name": "mine", "metadata": {"a": "b"}}
    answer = await front.ask("POST", "/os-volumes", {"volume": wanted}, minor=35)
    made = answer.json()["volume"]
    assert answer.headers["Location"].endswith(f"/os-volumes/{made['id']}")
    assert (made["displayName"], made["size"], made["status"]) == ("mine", 2, "available")
    assert (made["attachments"], made["metadata"], made["availabilityZone"]) == ([{}], {"a": "b"}, "nova")
    for path in ("/os-volumes", "/os-volumes/detail"):
        assert (await front.get(path, minor=35))["volumes"] == [made]
        assert (await front.get(path, minor=35, who=f"member@{OTHER_PROJECT}"))["volumes"] == []
    assert (await front.get(f"/os-volumes/{made['id']}", minor=35))["volume"] == made
    server_id = await front.boot()
    await front.ask(
        "POST", f"/servers/{server_id}/os-volume_attachments", {"volumeAttachment": {"volumeId": made["id"]}}
    )
    await front.settle()
    shown = (await front.get(f"/os-volumes/{made['id']}", minor=35))["volume"]
    assert shown["attachments"] == [{"id": made["id"], "volumeId": made["id"], "serverId": server_id}]
    path = f"/os-volumes/{made['id']}"
    fault(await front.ask("DELETE", path, minor=35), "badRequest", 400)
    fault(await front.ask("GET", path, minor=35, who=f"member@{OTHER_PROJECT}"), "itemNotFound", 404)
    fault(await front.ask("DELETE", path, minor=35, who="reader"), "forbidden", 403)
    fault(await front.ask("GET", path, minor=36), "itemNotFound", 404)
    fault(await front.ask("POST", "/os-volumes", {"volume": {"size": 0}}, minor=35), "badRequest", 400)
    fault(await front.ask("POST", "/os-volumes", {"volume": {"size": 1, "name": "x"}}, minor=35), "badRequest", 400)
    unknown = {"size": 1, "snapshot_id": server_id}
    fault(await front.ask("POST", "/os-volumes", {"volume": unknown}, minor=35), "badRequest", 400)
    front.world.remains.volumes.private_types["private"] = set()
    private = {"size": 1, "volume_type": "private"}
    fault(await front.ask("POST", "/os-volumes", {"volume": private}, minor=35), "badRequest", 400)
    assert (await front.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await front.settle()
    assert (await front.ask("DELETE", path, minor=35)).status_code == 202
    fault(await front.ask("GET", path, minor=35), "itemNotFound", 404)


async def test_snapshots_are_those_of_the_project(front: Front) -> None:
    volume = (await front.ask("POST", "/os-volumes", {"volume": {"size": 1}}, minor=35)).json()["volume"]["id"]
    body = {"snapshot": {"volume_id": volume, "force": "true"}}
    made = (await front.ask("POST", "/os-snapshots", body, minor=35)).json()["snapshot"]
    assert (made["volumeId"], made["size"], made["status"]) == (volume, 1, "available")
    for path in ("/os-snapshots", "/os-snapshots/detail"):
        assert (await front.get(path, minor=35))["snapshots"] == [made]
        assert (await front.get(f"{path}?offset=1", minor=35))["snapshots"] == []
    path = f"/os-snapshots/{made['id']}"
    assert (await front.get(path, minor=35))["snapshot"] == made
    fault(await front.ask("DELETE", f"/os-volumes/{volume}", minor=35), "badRequest", 400)
    fault(await front.ask("GET", path, minor=35, who=f"member@{OTHER_PROJECT}"), "itemNotFound", 404)
    fault(await front.ask("POST", "/os-snapshots", body, minor=35, who=f"member@{OTHER_PROJECT}"), "itemNotFound", 404)
    copy = {"volume": {"size": 1, "snapshot_id": made["id"]}}
    fault(await front.ask("POST", "/os-volumes", copy, minor=35, who=f"member@{OTHER_PROJECT}"), "badRequest", 400)
    assert (await front.ask("POST", "/os-volumes", copy, minor=35)).status_code == 200
    assert (await front.ask("DELETE", path, minor=35)).status_code == 202
    fault(await front.ask("DELETE", path, minor=35), "itemNotFound", 404)


async def test_an_image_is_deleted_by_its_project(front: Front) -> None:
    await front.world.images.create(image("mine", PROJECT, kind="a"))
    await front.world.images.create(image("public", OTHER_PROJECT, "public"))
    assert await front.get("/images/mine/metadata", minor=38) == {"metadata": {"kind": "a"}}
    assert await front.get("/images/mine/metadata/kind", minor=38) == {"meta": {"kind": "a"}}
    fault(await front.ask("GET", "/images/mine/metadata/none", minor=38), "itemNotFound", 404)
    fault(await front.ask("DELETE", "/images/mine", minor=35, who="reader"), "forbidden", 403)
    fault(await front.ask("DELETE", "/images/public", minor=35), "forbidden", 403)
    front.world.images.protect("public")
    fault(await front.ask("DELETE", "/images/public", minor=35, who="admin"), "forbidden", 403)
    assert (await front.ask("DELETE", "/images/mine", minor=35)).status_code == 204
    fault(await front.ask("DELETE", "/images/mine", minor=35), "itemNotFound", 404)
