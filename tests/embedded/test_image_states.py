"""Images that are deactivated or staged, and changes in the former form, over HTTP."""

import httpx

from tests.embedded.opened import Opened
from tests.embedded.test_image_http import IMAGES, OCTETS, create, upload

OLD_PATCH_TYPE = "application/openstack-images-v2.0-json-patch"


async def status(services: Opened, image_id: str) -> str:
    answer = await services.ask("ann", "GET", f"{IMAGES}/{image_id}")
    found: str = answer.json()["status"]
    return found


async def stage(services: Opened, image_id: str, file: bytes) -> httpx.Response:
    headers = {"X-Auth-Token": "token of ann", "Content-Type": OCTETS["Content_Type"]}
    return await services.client.put(f"{IMAGES}/{image_id}/stage", content=file, headers=headers)


async def test_a_deactivated_image_is_not_handed_out(services: Opened) -> None:
    image = (await create(services, visibility="community"))["id"]
    path = f"{IMAGES}/{image}"
    assert (await services.ask("ann", "POST", f"{path}/actions/deactivate")).status_code == 403  # it has no file
    await upload(services, image, b"contents")
    assert (await services.ask("bob", "POST", f"{path}/actions/deactivate")).status_code == 403
    for _ in range(2):
        assert (await services.ask("ann", "POST", f"{path}/actions/deactivate")).status_code == 204
    assert await status(services, image) == "deactivated"
    listed = (await services.ask("ann", "GET", f"{IMAGES}?status=deactivated")).json()["images"]
    assert [each["id"] for each in listed] == [image]
    assert (await services.ask("ann", "GET", f"{path}/file")).status_code == 403
    assert (await services.ask("root", "GET", f"{path}/file")).content == b"contents"
    assert (await services.ask("ann", "POST", f"{path}/actions/reactivate")).status_code == 204
    assert (await services.ask("bob", "GET", f"{path}/file")).content == b"contents"


async def test_a_staged_file_becomes_the_image_when_it_is_imported(services: Opened) -> None:
    image = (await create(services))["id"]
    path, direct = f"{IMAGES}/{image}", {"method": {"name": "glance-direct"}}
    assert (await services.ask("ann", "POST", f"{path}/import", direct)).status_code == 409
    assert (await stage(services, image, b"contents")).status_code == 204
    assert await status(services, image) == "uploading"
    assert (await services.ask("ann", "GET", f"{path}/file")).status_code == 204
    assert (await stage(services, image, b"others")).status_code == 409
    web = {"method": {"name": "web-download", "uri": "http://elsewhere/image"}}
    refused = await services.ask("ann", "POST", f"{path}/import", web)
    assert (refused.status_code, "glance-direct is the only one" in refused.text) == (400, True)
    assert (await services.ask("ann", "POST", f"{path}/import", direct)).status_code == 202
    assert await status(services, image) == "active"
    assert (await services.ask("ann", "GET", f"{path}/file")).content == b"contents"
    assert (await services.ask("ann", "GET", f"{path}/tasks")).json() == {"tasks": []}
    assert (await services.ask("bob", "GET", f"{path}/tasks")).status_code == 404
    assert (await services.ask("root", "GET", "/image/v2/tasks")).json()["tasks"] == []
    assert (await services.ask("ann", "GET", "/image/v2/tasks")).status_code == 403
    methods = (await services.ask("ann", "GET", "/image/v2/info/import")).json()["import-methods"]["value"]
    assert methods == ["glance-direct"]
    made = await services.ask("ann", "POST", IMAGES, {"name": "another"})
    assert made.headers["OpenStack-image-import-methods"] == "glance-direct"


async def test_a_change_in_the_former_form(services: Opened) -> None:
    image = (await create(services, name="before"))["id"]
    changes = [{"replace": "/name", "value": "after"}, {"add": "/os_distro", "value": "tick"}]
    path = f"{IMAGES}/{image}"
    changed = await services.ask("ann", "PATCH", path, changes, Content_Type=OLD_PATCH_TYPE)
    assert (changed.json()["name"], changed.json()["os_distro"]) == ("after", "tick")
    for wrong in ({"name": "x"}, {"add": "/a", "remove": "/b"}, {"add": 1, "value": "x"}):
        assert (await services.ask("ann", "PATCH", path, [wrong], Content_Type=OLD_PATCH_TYPE)).status_code == 400
