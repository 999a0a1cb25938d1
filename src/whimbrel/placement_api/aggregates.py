"""Aggregates of a provider."""

from typing import Any

from whimbrel.placement.provider import Node
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.problems import said_as_placement_does


def _shown(call: Call, node: Node) -> dict[str, Any]:
    view: dict[str, Any] = {"aggregates": sorted(node.aggregates)}
    if call.minor >= 19:
        view["resource_provider_generation"] = node.provider.generation
    return view


async def show(call: Call) -> Any:
    return _shown(call, await call.store.node(call.uuid))


async def replace(call: Call) -> Any:
    if call.minor < 19:
        sent, generation = call.body, None
    else:
        sent, generation = call.body["aggregates"], call.body["resource_provider_generation"]
    with said_as_placement_does():
        node = await call.store.put_aggregates(call.uuid, generation, sent)
    return {**_shown(call, node), "aggregates": sent}  # in the order of the request
