"""Import of images in two steps: the file is staged, then imported (glance-direct). Nothing is fetched."""

from typing import Any

import msgspec

from whimbrel.domain.errors import Conflict
from whimbrel.embedded.image.request import Call
from whimbrel.embedded.image.transfer import UPLOADING
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply

DIRECT = "glance-direct"


class Method(msgspec.Struct):
    name: str


class ImportBody(msgspec.Struct):
    method: Method
    stores: list[str] | None = None


async def start(call: Call) -> Reply:
    """Make a staged image active."""
    body = await call.body(ImportBody)
    if body.method.name != DIRECT:
        raise Problem(400, f"Unknown import method name '{body.method.name}': {DIRECT} is the only one here.")
    if body.stores:
        raise Problem(400, "There is one store of images here: 'stores' cannot be chosen.")
    record = await call.owned()
    if record.status != UPLOADING:
        raise Conflict(f"Image needs to be staged before '{DIRECT}' method can be used; it is {record.status}.")
    await call.store.change(msgspec.structs.replace(record, held=None, updated_at=call.service.clock.now()))
    return Reply(status=202)


async def list_image_tasks(call: Call) -> Reply:
    """List the tasks of an image that the user may see: none, because an import ends with its request."""
    await call.seen()
    return Reply({"tasks": []})


async def list_tasks(call: Call) -> Reply:
    """List the tasks of all images, for administrators: none."""
    if not call.is_admin:
        raise Problem(403, "Tasks are for administrators.")
    return Reply({"tasks": [], "first": "/v2/tasks", "schema": "/v2/schemas/tasks"})


async def show_methods(call: Call) -> Reply:
    methods: dict[str, Any] = {"description": "Import methods available.", "type": "array", "value": [DIRECT]}
    return Reply({"import-methods": methods})


async def show_stores(call: Call) -> Reply:
    raise Problem(404, "Multi backend is not supported at this site.")
