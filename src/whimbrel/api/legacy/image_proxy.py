"""/images, until 2.35: the images of the image service that a project may use, as Nova showed them to old clients.

Images that are shared with the project by their members' list are shown by the image service only.
"""

from collections.abc import Mapping
from typing import Any

from whimbrel.api.http import paging, times
from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Forbidden, Invalid, NotFound, Refused
from whimbrel.ports.services.images import Image

PAGE = 500
STATUS = {"active": "ACTIVE", "queued": "SAVING", "saving": "SAVING", "deleted": "DELETED", "killed": "ERROR"}
PROGRESS = {"active": 100, "queued": 25, "saving": 50}
SERVER = "instance_uuid"
"""The property of an image that was made of a server."""


async def index(call: Call) -> Any:
    return await _page(call, _brief)


async def detail(call: Call) -> Any:
    return await _page(call, _full)


async def show(call: Call) -> Any:
    return {"image": _full(call, await _one(call))}


async def owner(call: Call) -> Mapping[str, str]:
    """Return the policy target of the image in the path; of one that is not there: the requester's own project."""
    image = await _known(call, call.params["image_id"])
    return call.own if image is None else {"project_id": image.owner or "", "user_id": ""}


async def delete(call: Call) -> None:
    image = await _one(call)
    if image.protected:
        raise Forbidden("You are not allowed to delete the image.")
    await call.cloud.images.delete(image.id)


async def metadata(call: Call) -> Any:
    return {"metadata": (await _one(call)).properties}


async def metadata_item(call: Call) -> Any:
    key, properties = call.params["key"], (await _one(call)).properties
    if key not in properties:
        raise NotFound("Metadata item was not found")
    return {"meta": {key: properties[key]}}


async def merge_metadata(call: Call) -> Any:
    image = await _one(call)
    return {"metadata": await _set(call, image, {**image.properties, **call.body["metadata"]})}


async def replace_metadata(call: Call) -> Any:
    return {"metadata": await _set(call, await _one(call), call.body["metadata"])}


async def put_metadata_item(call: Call) -> Any:
    meta: dict[str, str] = call.body["meta"]
    if list(meta) != [call.params["key"]]:
        raise Invalid("Request body and URI mismatch")
    image = await _one(call)
    await _set(call, image, {**image.properties, **meta})
    return {"meta": meta}


async def delete_metadata_item(call: Call) -> None:
    image, key = await _one(call), call.params["key"]
    if key not in image.properties:
        raise NotFound("Invalid metadata key")
    await _set(call, image, {name: value for name, value in image.properties.items() if name != key})


async def _set(call: Call, image: Image, properties: Mapping[str, str]) -> Mapping[str, str]:
    """Raises: Forbidden: too many, or the image service refuses them."""
    limit = (await call.cloud.quotas.limits(call.principal.project_id)).get("metadata_items", -1)
    if 0 <= limit < len(properties):
        raise Forbidden("Image metadata limit exceeded")
    try:
        await call.cloud.images.set_properties(image.id, properties)
    except Refused as refused:
        raise Forbidden(refused.reason) from refused
    return properties


# Which images


def _is_usable(call: Call, image: Image) -> bool:
    return call.is_admin or image.visibility in ("public", "community") or image.owner == call.principal.project_id


def _is_listed(call: Call, image: Image) -> bool:
    is_foreign = image.visibility == "community" and image.owner != call.principal.project_id
    return _is_usable(call, image) and not is_foreign and _fits(call, image)


def _fits(call: Call, image: Image) -> bool:
    wanted = {key.removeprefix("property-"): call.value(key) for key in call.query if key.startswith("property-")}
    if (server := call.value("server")) is not None:
        wanted[SERVER] = server.rsplit("/", 1)[-1]
    if (kind := call.value("type")) is not None:
        wanted["image_type"] = kind
    since = times.read(call.value("changes-since"))
    return (
        call.value("name") in (None, image.name)
        and (call.value("status") or image.status).lower() in (image.status, STATUS.get(image.status, "").lower())
        and image.min_ram_mib >= int(call.value("minRam") or 0)
        and image.min_disk_gib >= int(call.value("minDisk") or 0)
        and (since is None or image.updated_at >= since)
        and all(image.properties.get(key) == value for key, value in wanted.items())
    )


async def _one(call: Call) -> Image:
    """Raises: NotFound."""
    image = await _known(call, call.params["image_id"])
    if image is None:
        raise NotFound("Image not found.")
    return image


async def _known(call: Call, image_id: str) -> Image | None:
    try:
        image = await call.cloud.images.show(image_id)
    except NotFound:
        return None
    return image if _is_usable(call, image) else None


async def _page(call: Call, shown: Any) -> dict[str, Any]:
    limit, after = paging.limit(call), call.value("marker")
    if after is not None and await _known(call, after) is None:
        raise paging.no_marker(call)
    found: list[Image] = []
    while len(found) < limit:
        page = await call.cloud.images.all_images(after, PAGE)
        found += [image for image in page.items if _is_listed(call, image)]
        after = page.after
        if after is None:
            break
    found = found[:limit]
    links = paging.next_link(call, len(found), found[-1].id if found else None)
    return {"images": [shown(call, image) for image in found]} | ({"images_links": links} if links else {})


# How they are shown


def _brief(call: Call, image: Image) -> dict[str, Any]:
    alternate = f"{call.root_url.removesuffix('/compute')}/image/images/{image.id}"
    kind = "application/vnd.openstack.image"
    links = [*call.links("images", image.id), {"rel": "alternate", "type": kind, "href": alternate}]
    return {"id": image.id, "name": image.name, "links": links}


def _full(call: Call, image: Image) -> dict[str, Any]:
    shown = _brief(call, image) | {
        "minRam": image.min_ram_mib,
        "minDisk": image.min_disk_gib,
        "metadata": image.properties,
        "created": times.with_zone(image.created_at),
        "updated": times.with_zone(image.updated_at),
        "status": STATUS.get(image.status, "UNKNOWN"),
        "progress": PROGRESS.get(image.status, 0),
        "OS-EXT-IMG-SIZE:size": image.size_bytes,
    }
    if server := image.properties.get(SERVER):
        shown["server"] = {"id": server, "links": call.links("servers", server)}
    if disk_config := image.properties.get("auto_disk_config"):
        shown["OS-DCF:diskConfig"] = "AUTO" if disk_config.lower() in ("true", "1", "yes", "on") else "MANUAL"
    return shown
