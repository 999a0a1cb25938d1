"""Resource classes: the standard ones, and clients' custom ones."""

from typing import Any

from whimbrel.domain.errors import NotFound
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.placement.errors import Duplicate, NameInUse, StandardName
from whimbrel.placement.resource_names import STANDARD_CLASSES, is_custom
from whimbrel.placement_api.bodies import RESOURCE_CLASS
from whimbrel.placement_api.call import Call


def _shown(call: Call, name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": call.path("resource_classes", name)}]}


async def _all(call: Call) -> list[str]:
    """Return all names without duplicates: a standard class in use has a row too."""
    custom = [name for name in await call.store.resource_classes() if name not in STANDARD_CLASSES]
    return [*STANDARD_CLASSES, *custom]


async def index(call: Call) -> Any:
    return {"resource_classes": [_shown(call, name) for name in await _all(call)]}


async def create(call: Call) -> Reply:
    name = call.body["name"]
    if not await call.store.create_resource_class(name):
        raise Problem(409, f"Conflicting resource class already exists: {name}.")
    return Reply(status=201, headers=call.location("resource_classes", name))


async def show(call: Call) -> Any:
    name = call.params["name"]
    if name not in await _all(call):
        raise NotFound(f"No such resource class {name}.")
    return _shown(call, name)


async def rename(call: Call) -> Any:
    """Rename a class; below 1.7."""
    name = call.params["name"]
    if name in STANDARD_CLASSES:
        raise StandardName(f"Cannot update standard resource class {name}.")
    try:
        await call.store.rename_resource_class(name, call.body["name"])
    except Duplicate:
        raise Problem(409, f"Resource class already exists: {call.body['name']}") from None
    return _shown(call, call.body["name"])


async def put(call: Call) -> Reply:
    """Create a class; from 1.7 on."""
    name = call.params["name"]
    if not is_custom(name):
        RESOURCE_CLASS.check(call.minor, {"name": name})
    created = await call.store.create_resource_class(name)
    return Reply(status=201 if created else 204, headers=call.location("resource_classes", name))


async def delete(call: Call) -> Reply:
    name = call.params["name"]
    if name in STANDARD_CLASSES:
        raise StandardName(f"Error in delete resource class: Cannot delete standard resource class {name}.")
    try:
        await call.store.delete_resource_class(name)
    except NameInUse:
        reason = f"Cannot delete resource class {name}. Class is in use in inventory."
        raise Problem(409, f"Error in delete resource class: {reason}") from None
    return NO_CONTENT
