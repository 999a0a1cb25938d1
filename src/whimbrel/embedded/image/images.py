"""Images: create, list, show, change, delete and tag."""

from typing import Any

import msgspec

from whimbrel.domain.errors import Refused
from whimbrel.embedded.image import image_fields, imports, queries, views
from whimbrel.embedded.image.request import Ask, checked
from whimbrel.http.paging import next_query
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.images import ImageRecord

DEACTIVATED = "deactivated"
PATCH_TYPE = "application/openstack-images-v2.1-json-patch"
OLD_PATCH_TYPE = "application/openstack-images-v2.0-json-patch"


async def create(ask: Ask) -> Reply:
    record = image_fields.new_record(ask, await ask.body(dict[str, Any]))
    await ask.service.add(record)
    location = f"/v2/images/{record.id}"
    return Reply(views.image(record), 201, {"Location": location, "OpenStack-image-import-methods": imports.DIRECT})


async def show(ask: Ask) -> Reply:
    return Reply(views.image(await ask.seen()))


async def search(ask: Ask) -> Reply:
    query = await queries.of_request(ask)
    found = await ask.store.search(query) if query.limit else []
    asked = str(ask.request.query_params)
    page: dict[str, Any] = {
        "images": [views.image(record) for record in found],
        "first": "/v2/images" + (f"?{asked}" if asked else ""),
        "schema": "/v2/schemas/images",
    }
    if found and len(found) == query.limit:
        page["next"] = f"/v2/images?{next_query(ask.request, found[-1].id)}"
    return Reply(page)


async def update(ask: Ask) -> Reply:
    media_type = ask.request.headers.get("content-type", "").split(";")[0]
    if media_type == OLD_PATCH_TYPE:
        operations = [image_fields.of_old_form(each) for each in await ask.body(list[dict[str, Any]])]
    elif media_type == PATCH_TYPE:
        operations = await ask.body(list[image_fields.Operation])
    else:
        raise Problem(415, f"A change of an image has the media type {PATCH_TYPE} or {OLD_PATCH_TYPE}.")
    record = await ask.owned()
    flat = image_fields.patched(image_fields.of_record(record), operations)
    return Reply(views.image(await ask.store.change(image_fields.applied(ask, record, flat))))


async def deactivate(ask: Ask) -> Reply:
    return await _hold(ask, "deactivate", DEACTIVATED)


async def reactivate(ask: Ask) -> Reply:
    return await _hold(ask, "reactivate", None)


async def _hold(ask: Ask, word: str, held: str | None) -> Reply:
    record = await ask.owned()
    if record.status not in ("active", DEACTIVATED):
        raise Refused(f"Not allowed to {word} image in status '{record.status}'")
    if record.held != held:
        await ask.store.change(msgspec.structs.replace(record, held=held, updated_at=ask.service.clock.now()))
    return NO_CONTENT


async def delete(ask: Ask) -> Reply:
    record = await ask.owned()
    await ask.service.remove(record.id)
    return NO_CONTENT


async def add_tag(ask: Ask) -> Reply:
    record = await ask.owned()
    tag = checked(ask.path("tag"), image_fields.Tag)
    await _retag(ask, record, [*record.tags, tag])
    return NO_CONTENT


async def delete_tag(ask: Ask) -> Reply:
    record = await ask.owned()
    tag = ask.path("tag")
    if tag not in record.tags:
        raise Problem(404, f"Image {record.id} has no tag {tag}.")
    await _retag(ask, record, [each for each in record.tags if each != tag])
    return NO_CONTENT


async def _retag(ask: Ask, record: ImageRecord, tags: list[str]) -> None:
    whole = sorted(set(tags))
    if len(whole) > image_fields.MOST_TAGS:
        raise Problem(413, f"An image has at most {image_fields.MOST_TAGS} tags.")
    now = ask.service.clock.now()
    await ask.store.change(msgspec.structs.replace(record, tags=whole, updated_at=now))
