"""Inventories of a provider: all, and of one class."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import ProviderId
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.placement.errors import BadInventory, Duplicate, InventoryInUse, Stale, UnknownName
from whimbrel.placement.inventory import capacity
from whimbrel.placement.provider import Node
from whimbrel.placement_api.call import Call, Undated
from whimbrel.placement_api.problems import CONCURRENT_UPDATE, introducing
from whimbrel.ports.placement.placement import Inventory

_AMOUNTS = Inventory.__struct_fields__


def inventory(call: Call, uuid: ProviderId, name: str, sent: Mapping[str, Any]) -> Inventory:
    """Raises: BadInventory: no capacity is left to allocate."""
    found = Inventory(**{field: sent[field] for field in _AMOUNTS if field in sent})
    left = capacity(found)
    if found.reserved > found.total or left < 0 or (left == 0 and call.minor < 26):
        comparison = "greater than" if call.minor >= 26 else "greater than or equal to"
        reason = f"The reserved value is {comparison} total."
        raise BadInventory(f"Invalid inventory for '{name}' on resource provider '{uuid}'. {reason}")
    return found


async def _sent(call: Call, sent: Mapping[str, Mapping[str, Any]]) -> dict[str, Inventory]:
    """Parse the inventories. Raises: Stale: an outdated generation; it takes precedence over BadInventory."""
    try:
        return {name: inventory(call, call.uuid, name, amounts) for name, amounts in sent.items()}
    except BadInventory:
        node = await call.store.node(call.uuid)
        if node.provider.generation != call.body["resource_provider_generation"]:
            raise Stale("resource provider generation conflict") from None
        raise


def _all(node: Node) -> Reply:
    body = {
        "resource_provider_generation": node.provider.generation,
        "inventories": {name: asdict(stock.inventory) for name, stock in node.stocks.items()},
    }
    return (Reply if node.stocks else Undated)(body)


def _one(node: Node, name: str) -> dict[str, Any]:
    stock = node.stocks.get(name)
    if stock is None:
        raise NotFound(f"No inventory of class {name} for {node.provider.uuid}.")
    return {"resource_provider_generation": node.provider.generation, **asdict(stock.inventory)}


async def index(call: Call) -> Any:
    return _all(await call.store.node(call.uuid))


async def replace(call: Call) -> Any:
    generation = call.body["resource_provider_generation"]
    provider = f"resource provider {call.uuid}: "
    with (
        introducing("update conflict: ", InventoryInUse),
        introducing(f"Unknown resource class in inventory for {provider}", UnknownName),
        introducing(f"Unable to update inventory for {provider}", BadInventory),
    ):
        inventories = await _sent(call, call.body["inventories"])
        return _all(await call.store.set_inventories(call.uuid, generation, inventories))


async def create(call: Call) -> Reply:
    name = call.body["resource_class"]
    opening = f"Unable to create inventory for resource provider {call.uuid}: "
    try:
        with introducing(opening, UnknownName, BadInventory):
            node = await call.store.add_inventory(call.uuid, name, inventory(call, call.uuid, name, call.body))
    except Duplicate as error:
        # Not a duplicate name: a concurrent request added it.
        raise Problem(409, error.reason, CONCURRENT_UPDATE) from None
    headers = call.location("resource_providers", call.uuid, "inventories", name)
    return Reply(status=201, body=_one(node, name), headers=headers)


async def clear(call: Call) -> Reply:
    await call.store.set_inventories(call.uuid, None, {})
    return NO_CONTENT


async def show(call: Call) -> Any:
    return _one(await call.store.node(call.uuid), call.params["name"])


async def update(call: Call) -> Any:
    name = call.params["name"]
    generation = call.body["resource_provider_generation"]
    with introducing(f"Unable to update inventory for resource provider {call.uuid}: ", BadInventory):
        inventories = await _sent(call, {name: call.body})
    return _one(await call.store.change_inventory(call.uuid, generation, name, inventories[name]), name)


async def delete(call: Call) -> Reply:
    name = call.params["name"]
    try:
        await call.store.delete_inventory(call.uuid, name)
    except InventoryInUse as error:
        # Of all refused removals, Placement reports only this one as a concurrent update.
        reason = f"Unable to delete inventory of class {name}: {error.reason}"
        raise Problem(409, reason, CONCURRENT_UPDATE) from None
    return NO_CONTENT
