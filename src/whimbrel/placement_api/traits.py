"""Traits: all that there are, and those of a provider."""

from typing import Any

from whimbrel.domain.errors import NotFound
from whimbrel.placement.errors import StandardName
from whimbrel.placement.names import is_custom, standard_traits
from whimbrel.placement.provider import Node
from whimbrel.placement_api.call import NO_CONTENT, Call, Reply
from whimbrel.placement_api.problems import Problem


async def index(call: Call) -> Any:
    names = await call.store.traits(associated=_associated(call))
    name = call.value("name")
    if name is not None:
        how, colon, value = name.partition(":")
        if not colon or how not in ("in", "startswith"):
            form = "?name=[in|startswith]:[name1,name2|prefix]"
            raise Problem(400, f"Badly formatted name parameter. Expected {form}. Got: {name[:200]!r}")
        some = set(value.split(","))
        names = [name for name in names if (name.startswith(value) if how == "startswith" else name in some)]
    return {"traits": names}


def _associated(call: Call) -> bool | None:
    text = call.value("associated")
    if text is None:
        return None
    if text.lower() not in ("true", "false"):
        raise Problem(400, "The query parameter 'associated' only accepts 'true' or 'false'.")
    return text.lower() == "true"


async def show(call: Call) -> Reply:
    name = call.params["name"]
    if name not in standard_traits() and name not in await call.store.traits():
        raise NotFound(f"No such trait {name}.")
    return NO_CONTENT


async def put(call: Call) -> Reply:
    name = call.params["name"]
    if not is_custom(name):
        reason = "no longer than 255 characters, starts with CUSTOM_, and has only A-Z, 0-9 and _"
        raise Problem(400, f"The trait is invalid. A valid one is {reason}.")
    created = await call.store.create_trait(name)
    return Reply(status=201 if created else 204, headers=call.location("traits", name))


async def delete(call: Call) -> Reply:
    name = call.params["name"]
    if name in standard_traits():
        raise StandardName(f"Cannot delete standard trait {name}.")
    await call.store.delete_trait(name)
    return NO_CONTENT


# Of a provider


def _shown(node: Node) -> dict[str, Any]:
    return {"traits": sorted(node.traits), "resource_provider_generation": node.provider.generation}


async def show_provider(call: Call) -> Any:
    return _shown(await call.store.node(call.uuid))


async def replace_provider(call: Call) -> Any:
    generation = call.body["resource_provider_generation"]
    return _shown(await call.store.set_traits(call.uuid, generation, call.body["traits"]))


async def clear_provider(call: Call) -> Reply:
    await call.store.set_traits(call.uuid, None, [])
    return NO_CONTENT
