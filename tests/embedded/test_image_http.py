"""The embedded image service over HTTP: permitted requests, visible images."""

import hashlib
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.embedded.opened import Opened, opened
from whimbrel.ports.services.images import ImageLimits

IMAGES = "/image/v2/images"
ID = "6a09e667-f3bc-4908-b2fb-1366ea957d3e"
PATCH_TYPE = "application/openstack-images-v2.1-json-patch"
OCTETS = {"Content_Type": "application/octet-stream"}


async def create(services: Opened, who: str = "ann", **sent: Any) -> dict[str, Any]:
    body = {"disk_format": "raw", "container_format": "bare", **sent}
    answer = await services.ask(who, "POST", IMAGES, body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def upload(services: Opened, image_id: str, file: bytes, who: str = "ann", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in {**OCTETS, **headers}.items()}
    return await services.client.put(
        f"{IMAGES}/{image_id}/file",
        content=file,
        headers={"X-Auth-Token": f"token of {who}", "Accept": "application/json", **named},
    )


async def patch(services: Opened, who: str, image_id: str, *operations: dict[str, Any]) -> httpx.Response:
    path = f"{IMAGES}/{image_id}"
    return await services.ask(who, "PATCH", path, list(operations), Content_Type=PATCH_TYPE)


async def names(services: Opened, who: str, query: str = "") -> list[str]:
    answer = await services.ask(who, "GET", f"{IMAGES}?{query}")
    assert answer.status_code == 200, answer.text
    return [image["name"] for image in answer.json()["images"]]


async def test_an_image_from_create_to_delete(services: Opened) -> None:
    made = await create(services, name="tick", id=ID, os_distro="tick", min_disk=1, tags=["b", "a", "a"])
    assert made["self"] == f"/v2/images/{ID}"
    assert (made["status"], made["visibility"], made["owner"], made["size"]) == ("queued", "shared", "p1", None)
    assert (made["os_distro"], made["tags"], made["min_disk"]) == ("tick", ["a", "b"], 1)
    assert (await services.ask("ann", "GET", f"{IMAGES}/{ID}/file")).status_code == 204
    assert (await upload(services, ID, b"contents")).status_code == 204
    shown = (await services.ask("ann", "GET", f"{IMAGES}/{ID}")).json()
    assert (shown["status"], shown["size"], shown["os_hash_algo"]) == ("active", 8, "sha512")
    assert shown["os_hash_value"] == hashlib.sha512(b"contents").hexdigest()
    down = await services.ask("ann", "GET", f"{IMAGES}/{ID}/file")
    assert (down.content, down.headers["Content-MD5"]) == (b"contents", shown["checksum"])
    assert (await services.ask("ann", "DELETE", f"{IMAGES}/{ID}")).status_code == 204
    gone = await services.ask("ann", "GET", f"{IMAGES}/{ID}")
    assert (gone.status_code, gone.json()["title"]) == (404, "Not Found")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (None, 400),
        ([], 400),
        ({"id": "no uuid"}, 400),
        ({"name": "x" * 256}, 400),
        ({"name": "a\0b"}, 400),
        ({"disk_format": "floppy"}, 400),
        ({"container_format": "box"}, 400),
        ({"visibility": "secret"}, 400),
        ({"min_disk": -1}, 400),
        ({"min_ram": 2**31}, 400),
        ({"min_ram": "many"}, 400),
        ({"own": 3}, 400),
        ({"own": None}, 400),
        ({"tags": ["x" * 256]}, 400),
        ({"tags": [str(n) for n in range(129)]}, 400),
        ({f"p{n}": "" for n in range(129)}, 400),
        ({"": "nameless"}, 400),
        ({"size": 3}, 403),
        ({"status": "active"}, 403),
        ({"os_glance_thing": "x"}, 403),
        ({"owner": "p2"}, 403),
        ({"visibility": "public"}, 403),
        ({"name": "x" * 2_000_000}, 413),
    ],
)
async def test_bad_images_are_refused(services: Opened, body: Any, status: int) -> None:
    answer = await services.ask("ann", "POST", IMAGES, body)
    assert (answer.status_code, answer.json()["code"][:3]) == (status, str(status))
    assert await names(services, "root") == []


async def test_an_id_is_taken_once(services: Opened) -> None:
    await create(services, id=ID)
    assert (await services.ask("bob", "POST", IMAGES, {"id": ID})).status_code == 409


async def test_an_admin_publishes_and_gives_away(services: Opened) -> None:
    made = await create(services, "root", visibility="public", owner="p2")
    assert (made["visibility"], made["owner"]) == ("public", "p2")


@pytest.mark.parametrize(("who", "status"), [("", 401), ("nobody", 401), ("eve", 403)])
async def test_only_members_make_images(services: Opened, who: str, status: int) -> None:
    answer = await services.ask(who, "POST", IMAGES, {})
    assert (answer.status_code, answer.json()["code"][:3]) == (status, str(status))


async def test_who_sees_what(services: Opened) -> None:
    ids = {}
    for visibility in ("private", "shared", "community"):
        ids[visibility] = (await create(services, name=visibility, visibility=visibility))["id"]
    ids["public"] = (await create(services, "root", name="public", visibility="public"))["id"]
    await services.ask("ann", "POST", f"{IMAGES}/{ids['shared']}/members", {"member": "p2"})

    async def seen(who: str, query: str = "") -> set[str]:
        return set(await names(services, who, query))

    assert await seen("ann") == {"private", "shared", "community", "public"}
    assert await seen("eve") == {"private", "shared", "community", "public"}
    assert await seen("bob") == {"public"}
    assert await seen("bob", "member_status=pending") == {"public", "shared"}
    assert await seen("bob", "visibility=community") == {"community"}
    assert await seen("bob", "visibility=private") == set()
    assert await seen("bob", "visibility=all") == {"public", "community"}
    assert await seen("root") == {"private", "shared", "public"}
    assert await seen("root", "visibility=all") == {"private", "shared", "community", "public"}
    statuses = {v: (await services.ask("bob", "GET", f"{IMAGES}/{i}")).status_code for v, i in ids.items()}
    assert statuses == {"private": 404, "shared": 200, "community": 200, "public": 200}
    for visibility in ("shared", "community", "public"):
        answer = await services.ask("bob", "DELETE", f"{IMAGES}/{ids[visibility]}")
        assert answer.status_code == 403
    assert (await services.ask("bob", "DELETE", f"{IMAGES}/{ids['private']}")).status_code == 404
    assert (await services.ask("root", "DELETE", f"{IMAGES}/{ids['private']}")).status_code == 204


async def test_members_accept_and_reject(services: Opened) -> None:
    image_id = (await create(services, name="lent"))["id"]
    path = f"{IMAGES}/{image_id}/members"
    assert (await services.ask("ann", "POST", path, {"member": "p2"})).json()["status"] == "pending"
    assert (await services.ask("ann", "POST", path, {"member": "p2"})).status_code == 409
    assert (await services.ask("ann", "PUT", f"{path}/p2", {"status": "accepted"})).status_code == 403
    assert (await services.ask("bob", "PUT", f"{path}/p2", {"status": "perhaps"})).status_code == 400
    accepted = await services.ask("bob", "PUT", f"{path}/p2", {"status": "accepted"})
    assert accepted.json()["status"] == "accepted"
    assert await names(services, "bob") == ["lent"]
    assert [each["member_id"] for each in (await services.ask("bob", "GET", path)).json()["members"]] == ["p2"]
    assert (await services.ask("bob", "GET", f"{path}/p2")).status_code == 200
    assert (await services.ask("bob", "POST", path, {"member": "p0"})).status_code == 403
    assert (await services.ask("ann", "DELETE", f"{path}/p2")).status_code == 204
    assert (await services.ask("ann", "DELETE", f"{path}/p2")).status_code == 404
    assert (await services.ask("bob", "GET", f"{IMAGES}/{image_id}")).status_code == 404
    private = (await create(services, visibility="private"))["id"]
    answer = await services.ask("ann", "POST", f"{IMAGES}/{private}/members", {"member": "p2"})
    assert answer.status_code == 403


async def test_lists_can_be_narrowed(services: Opened) -> None:
    one = await create(services, name="one", tags=["x", "y"], os_distro="a")
    await create(services, name="two", tags=["x"], disk_format="qcow2", protected=True)
    await create(services, name="three", os_hidden=True)
    await upload(services, one["id"], b"12345")

    async def found(query: str) -> set[str]:
        return set(await names(services, "ann", query))

    assert await found("") == {"one", "two"}
    assert await found("name=one") == {"one"}
    assert await found("name=in:one,two,three") == {"one", "two"}
    assert await found(f"id={one['id']}") == {"one"}
    assert await found("tag=x") == {"one", "two"}
    assert await found("tag=x&tag=y") == {"one"}
    assert await found("status=active") == {"one"}
    assert await found("status=queued") == {"two"}
    assert await found("status=saving") == set()
    assert await found("owner=p1&disk_format=qcow2") == {"two"}
    assert await found("protected=True") == {"two"}
    assert await found("os_hidden=true") == {"three"}
    assert await found("os_distro=a") == {"one"}
    assert await found("os_distro=b") == set()
    assert await found("size_min=5&size_max=5") == {"one"}
    assert await found("size_min=6") == set()


@pytest.mark.parametrize(
    "query",
    [
        "limit=-1",
        "limit=x",
        "size_min=x",
        f"size_max={2**70}",
        "sort_key=colour",
        "sort_dir=up",
        "sort=name:up",
        "visibility=secret",
        "member_status=none",
        "marker=nothing",
        "created_at=gt:2020",
        "protected=perhaps",
        "sort=name&sort_key=name",
        "sort_key=name&sort_dir=asc&sort_dir=asc",
        "name=%00",
    ],
)
async def test_bad_queries_are_refused(services: Opened, query: str) -> None:
    answer = await services.ask("ann", "GET", f"{IMAGES}?{query}")
    assert (answer.status_code, answer.json()["code"][:3]) == (400, "400")


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("sort=name:asc", "abcd"),
        ("sort=name", "dcba"),
        ("sort_key=name&sort_dir=asc", "abcd"),
        ("sort_key=size&sort_key=name&sort_dir=desc&sort_dir=asc", "dabc"),
        ("sort=size:asc,name:desc", "cbad"),
        ("", "dcba"),
        ("sort_dir=asc", "abcd"),
    ],
)
async def test_pages_join_up(services: Opened, order: str, wanted: str) -> None:
    for name in "abcd":
        made = await create(services, name=name)
        services.clock.advance(1)
    await upload(services, made["id"], b"only d has a file")
    got = []
    path = f"/v2/images?limit=3&{order}"
    while path:
        page = (await services.ask("ann", "GET", f"/image{path}")).json()
        got += [image["name"] for image in page["images"]]
        path = page.get("next")
    assert "".join(got) == wanted


async def test_an_image_is_patched(services: Opened) -> None:
    image_id = (await create(services, old="1", **{"a/b~c": "2"}))["id"]
    answer = await patch(
        services, "ann", image_id,
        {"op": "replace", "path": "/name", "value": "new"},
        {"op": "add", "path": "/tags", "value": ["t"]},
        {"op": "add", "path": "/fresh", "value": "3"},
        {"op": "remove", "path": "/old"},
        {"op": "replace", "path": "/a~1b~0c", "value": "4"},
        {"op": "replace", "path": "/min_ram", "value": 64},
    )  # fmt: skip
    image = answer.json()
    assert (image["name"], image["tags"], image["fresh"], image["min_ram"]) == ("new", ["t"], "3", 64)
    assert image["a/b~c"] == "4"
    assert "old" not in image
    assert (await services.ask("ann", "GET", f"{IMAGES}/{image_id}")).json() == image


@pytest.mark.parametrize(
    ("operation", "status"),
    [
        ({"op": "replace", "path": "/visibility", "value": "public"}, 403),
        ({"op": "replace", "path": "/owner", "value": "p2"}, 403),
        ({"op": "replace", "path": "/status", "value": "active"}, 403),
        ({"op": "replace", "path": "/id", "value": ID}, 403),
        ({"op": "add", "path": "/os_glance_x", "value": "x"}, 403),
        ({"op": "add", "path": "/locations", "value": "x"}, 403),
        ({"op": "remove", "path": "/name"}, 403),
        ({"op": "replace", "path": "/disk_format", "value": "qcow2"}, 403),
        ({"op": "replace", "path": "/missing", "value": "x"}, 409),
        ({"op": "remove", "path": "/missing"}, 409),
        ({"op": "replace", "path": "/min_disk", "value": "x"}, 400),
        ({"op": "add", "path": "/own", "value": {"deep": 1}}, 400),
        ({"op": "add", "path": "own", "value": "x"}, 400),
        ({"op": "add", "path": "/tags/-", "value": "x"}, 400),
        ({"op": "move", "path": "/own", "from": "/name"}, 400),
        ({"path": "/own"}, 400),
    ],
)
async def test_a_bad_patch_changes_nothing(services: Opened, operation: dict[str, Any], status: int) -> None:
    image_id = (await create(services, name="old"))["id"]
    await upload(services, image_id, b"x")
    before = (await services.ask("ann", "GET", f"{IMAGES}/{image_id}")).json()
    answer = await patch(services, "ann", image_id, {"op": "replace", "path": "/name", "value": "new"}, operation)
    assert (answer.status_code, answer.json()["code"][:3]) == (status, str(status))
    assert (await services.ask("ann", "GET", f"{IMAGES}/{image_id}")).json() == before


async def test_a_patch_has_its_own_media_type(services: Opened) -> None:
    image_id = (await create(services))["id"]
    assert (await services.ask("ann", "PATCH", f"{IMAGES}/{image_id}", [])).status_code == 415


async def test_tags_come_and_go(services: Opened) -> None:
    path = f"{IMAGES}/{(await create(services))['id']}"
    for _ in range(2):
        assert (await services.ask("ann", "PUT", f"{path}/tags/blue")).status_code == 204
    assert (await services.ask("ann", "GET", path)).json()["tags"] == ["blue"]
    assert (await services.ask("ann", "DELETE", f"{path}/tags/blue")).status_code == 204
    assert (await services.ask("ann", "DELETE", f"{path}/tags/blue")).status_code == 404
    assert (await services.ask("ann", "PUT", f"{path}/tags/{'x' * 256}")).status_code == 400
    for number in range(128):
        await services.ask("ann", "PUT", f"{path}/tags/{number}")
    assert (await services.ask("ann", "PUT", f"{path}/tags/more")).status_code == 413


async def test_a_protected_image_stays(services: Opened) -> None:
    image_id = (await create(services, protected=True))["id"]
    await upload(services, image_id, b"x")
    assert (await services.ask("ann", "DELETE", f"{IMAGES}/{image_id}")).status_code == 403
    assert (await services.ask("ann", "GET", f"{IMAGES}/{image_id}/file")).content == b"x"
    await patch(services, "ann", image_id, {"op": "replace", "path": "/protected", "value": False})
    assert (await services.ask("ann", "DELETE", f"{IMAGES}/{image_id}")).status_code == 204


async def test_bad_uploads_leave_the_image_queued_and_no_file(services: Opened, tmp_path: Path) -> None:
    image_id = (await create(services))["id"]
    formless = (await services.ask("ann", "POST", IMAGES, {})).json()["id"]
    assert (await upload(services, image_id, b"x", Content_Type="text/plain")).status_code == 415
    assert (await upload(services, image_id, b"x", who="bob")).status_code == 404
    assert (await upload(services, ID, b"x")).status_code == 404
    assert (await upload(services, formless, b"x")).status_code == 400
    short = await upload(services, image_id, b"x", X_OpenStack_Image_Size="200")
    assert (short.status_code, short.json()["message"]) == (400, "The file was said to have 200 bytes; 1 came.")
    assert (await services.ask("ann", "GET", f"{IMAGES}/{image_id}")).json()["status"] == "queued"
    assert os.listdir(tmp_path / "files") == []
    assert (await upload(services, image_id, b"x", X_OpenStack_Image_Size="1")).status_code == 204
    assert (await upload(services, image_id, b"y")).status_code == 409


async def test_a_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, ImageLimits(image_bytes=10)) as services:
        image_id = (await create(services))["id"]
        assert (await upload(services, image_id, b"x" * 11)).status_code == 413
        said = await upload(services, image_id, b"", X_OpenStack_Image_Size="11")
        assert said.status_code == 413
        assert os.listdir(tmp_path) == []
        assert (await upload(services, image_id, b"x" * 10)).status_code == 204


async def test_version_documents_and_schemas(services: Opened) -> None:
    choices = await services.client.get("/image")
    assert choices.status_code == 300
    assert choices.json()["versions"][0]["links"][0]["href"] == "http://cloud/image/v2/"
    listed = await services.client.get("/image/versions")
    assert (listed.status_code, listed.json()) == (200, choices.json())  # glanceclient takes no 300 here
    assert (await services.client.get("/image/v1/images/detail")).status_code == 300
    for name in ("image", "images", "member", "members"):
        schema = (await services.ask("ann", "GET", f"/image/v2/schemas/{name}")).json()
        assert schema["name"] == name
    made = await create(services)
    assert set((await services.ask("ann", "GET", "/image/v2/schemas/image")).json()["properties"]) == set(made)


async def test_an_error_has_the_type_that_is_asked_for(services: Opened) -> None:
    """glanceclient accepts all types, and fails with an AttributeError at an error in JSON."""
    path, said = f"{IMAGES}/a&b", "No image found with ID a&b"
    as_json = await services.ask("ann", "GET", path, accept="application/json")
    assert as_json.json() == {"code": "404 Not Found", "title": "Not Found", "message": said}
    for accepted in ("*/*", "text/html,application/xml"):
        page = await services.ask("ann", "GET", path, accept=accepted)
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "<h1>404 Not Found</h1>\nNo image found with ID a&amp;b\n" in page.text
    plain = await services.ask("ann", "GET", path, accept="text/plain")
    assert (plain.headers["content-type"], plain.text) == ("text/plain; charset=utf-8", f"404 Not Found\n\n{said}\n")
