"""Images: create, list, show, change, delete and tag."""

from typing import Any

import msgspec

from whimbrel.domain.errors import Refused
from whimbrel.embedded.image import image_fields, imports, queries, views
from whimbrel.embedded.image.request import Call, checked
from whimbrel.http.paging import next_query
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.images import ImageRecord

DEACTIVATED = "deactivated"
PATCH_TYPE = "application/openstack-images-v2.1-json-patch"
OLD_PATCH_TYPE = "application/openstack-images-v2.0-json-patch"


async def create(call: Call) -> Reply:
    record = image_fields.new_record(call, await call.body(dict[str, Any]))
    await call.service.add(record)
    location = f"/v2/images/{record.id}"
    return Reply(views.image(record), 201, {"Location": location, "OpenStack-image-import-methods": imports.DIRECT})


async def show(call: Call) -> Reply:
    return Reply(views.image(await call.seen()))


async def search(call: Call) -> Reply:
    query = await queries.of_request(call)
    found = await call.store.search(query) if query.limit else []
    asked = str(call.request.query_params)
    page: dict[str, Any] = {
        "images": [views.image(record) for record in found],
        "first": "/v2/images" + (f"?{asked}" if asked else ""),
        "schema": "/v2/schemas/images",
    }
    if found and len(found) == query.limit:
        page["next"] = f"/v2/images?{next_query(call.request, found[-1].id)}"
    return Reply(page)


async def update(call: Call) -> Reply:
    media_type = call.request.headers.get("content-type", "").split(";")[0]
    if media_type == OLD_PATCH_TYPE:
        operations = [image_fields.of_old_form(each) for each in await call.body(list[dict[str, Any]])]
    elif media_type == PATCH_TYPE:
        operations = await call.body(list[image_fields.Operation])
    else:
        raise Problem(415, f"A change of an image has the media type {PATCH_TYPE} or {OLD_PATCH_TYPE}.")
    record = await call.owned()
    flat = image_fields.patched(image_fields.of_record(record), operations)
    return Reply(views.image(await call.store.change(image_fields.applied(call, record, flat))))


async def deactivate(call: Call) -> Reply:
    return await _hold(call, "deactivate", DEACTIVATED)


async def reactivate(call: Call) -> Reply:
    return await _hold(call, "reactivate", None)


async def _hold(call: Call, word: str, held: str | None) -> Reply:
    record = await call.owned()
    if record.status not in ("active", DEACTIVATED):
        raise Refused(f"Not allowed to {word} image in status '{record.status}'")
    if record.held != held:
        await call.store.change(msgspec.structs.replace(record, held=held, updated_at=call.service.clock.now()))
    return NO_CONTENT


async def delete(call: Call) -> Reply:
    record = await call.owned()
    await call.service.remove(record.id)
    return NO_CONTENT


async def add_tag(call: Call) -> Reply:
    record = await call.owned()
    tag = checked(call.path("tag"), image_fields.Tag)
    await _retag(call, record, [*record.tags, tag])
    return NO_CONTENT


async def delete_tag(call: Call) -> Reply:
    record = await call.owned()
    tag = call.path("tag")
    if tag not in record.tags:
        raise Problem(404, f"Image {record.id} has no tag {tag}.")
    await _retag(call, record, [each for each in record.tags if each != tag])
    return NO_CONTENT


async def _retag(call: Call, record: ImageRecord, tags: list[str]) -> None:
    whole = sorted(set(tags))
    if len(whole) > image_fields.MOST_TAGS:
        raise Problem(413, f"An image has at most {image_fields.MOST_TAGS} tags.")
    now = call.service.clock.now()
    await call.store.change(msgspec.structs.replace(record, tags=whole, updated_at=now))
