"""Traits: all, and those of a provider."""

from typing import Any

from whimbrel.domain.errors import NotFound
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.placement.errors import StandardName
from whimbrel.placement.provider import Node
from whimbrel.placement.resource_names import is_custom, standard_traits
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.problems import said_as_placement_does


async def index(call: Call) -> Any:
    names = await call.store.traits(associated=_associated(call))
    name = call.value("name")
    return {"traits": names if name is None else _named(names, name)}


def _named(names: list[str], text: str) -> list[str]:
    """Filter by name. As in Placement an unknown operator matches all."""
    how, colon, value = text.partition(":")
    if not colon:
        form = "Expected name query string parameter in form: ?name=[in|startswith]:[name1,name2|prefix]"
        raise Problem(400, f'Badly formatted name parameter. {form}. Got: "{text[:200]}"')
    if how == "in":
        some = set(value.split(","))
        return [name for name in names if name in some]
    return [name for name in names if name.startswith(value)] if how == "startswith" else names


def _associated(call: Call) -> bool | None:
    text = call.value("associated")
    if text is None:
        return None
    if text.lower() not in ("true", "false"):
        raise Problem(400, 'The query parameter "associated" only accepts "true" or "false"')
    return text.lower() == "true"


async def show(call: Call) -> Reply:
    name = call.params["name"]
    if name not in standard_traits() and name not in await call.store.traits():
        raise NotFound(f"No such trait(s): {name}.")
    return NO_CONTENT


async def put(call: Call) -> Reply:
    name = call.params["name"]
    if not is_custom(name):
        form = 'no longer than 255 characters, start with the prefix "CUSTOM_" and use following characters'
        raise Problem(400, f'The trait is invalid. A valid trait must be {form}: "A"-"Z", "0"-"9" and "_"')
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
    with said_as_placement_does():
        return _shown(await call.store.set_traits(call.uuid, generation, call.body["traits"]))


async def clear_provider(call: Call) -> Reply:
    await call.store.set_traits(call.uuid, None, [])
    return NO_CONTENT
