"""Inventories of a provider: all, and of one class."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.errors import Duplicate
from whimbrel.placement.inventory import capacity
from whimbrel.placement.provider import Node
from whimbrel.placement_api.call import NO_CONTENT, Call, Reply
from whimbrel.placement_api.problems import CONCURRENT_UPDATE, Problem
from whimbrel.ports.placement import Inventory

_AMOUNTS = Inventory.__struct_fields__


def inventory(call: Call, uuid: ProviderId, name: str, sent: Mapping[str, Any]) -> Inventory:
    """Raises: Problem: 400: nothing is left to allocate."""
    found = Inventory(**{field: sent[field] for field in _AMOUNTS if field in sent})
    left = capacity(found)
    if found.reserved > found.total or left < 0 or (left == 0 and call.minor < 26):
        raise Problem(
            400,
            f"Invalid inventory for '{name}' on resource provider '{uuid}':"
            f" the reserved value is {'greater than' if call.minor >= 26 else 'greater than or equal to'} total.",
        )
    return found


def _all(node: Node) -> dict[str, Any]:
    return {
        "resource_provider_generation": node.provider.generation,
        "inventories": {name: asdict(stock.inventory) for name, stock in node.stocks.items()},
    }


def _one(node: Node, name: str) -> dict[str, Any]:
    stock = node.stocks.get(name)
    if stock is None:
        raise NotFound(f"No inventory of class {name} for {node.provider.uuid}.")
    return {"resource_provider_generation": node.provider.generation, **asdict(stock.inventory)}


async def index(call: Call) -> Any:
    return _all(await call.store.node(call.uuid))


async def replace(call: Call) -> Any:
    inventories = {name: inventory(call, call.uuid, name, sent) for name, sent in call.body["inventories"].items()}
    generation = call.body["resource_provider_generation"]
    return _all(await call.store.set_inventories(call.uuid, generation, inventories))


async def create(call: Call) -> Reply:
    name = call.body["resource_class"]
    try:
        node = await call.store.add_inventory(call.uuid, name, inventory(call, call.uuid, name, call.body))
    except Duplicate as error:
        # No name is taken here: somebody was faster.
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
    node = await call.store.change_inventory(call.uuid, generation, name, inventory(call, call.uuid, name, call.body))
    return _one(node, name)


async def delete(call: Call) -> Reply:
    await call.store.delete_inventory(call.uuid, call.params["name"])
    return NO_CONTENT
