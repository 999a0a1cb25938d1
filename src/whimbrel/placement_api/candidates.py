"""Allocation candidates: where a request could be placed, and what the providers there have."""

from collections.abc import Iterable
from typing import Any

from whimbrel.placement.provider import Node
from whimbrel.placement.search import Candidate, Forest, Wanted, candidates
from whimbrel.placement_api import queries
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.problems import BAD_VALUE, Problem


async def index(call: Call) -> Any:
    wanted = await queries.wanted(call)
    limit = _limit(call)
    forest = Forest(await call.store.nodes())
    found = candidates(forest, wanted, nested=call.minor >= 29, limit=limit)
    return {
        "allocation_requests": [_request(call, candidate) for candidate in found],
        "provider_summaries": {
            node.provider.uuid: _summary(call, node, wanted) for node in _involved(call, forest, found)
        },
    }


def _limit(call: Call) -> int | None:
    text = call.value("limit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= 1):
        raise Problem(400, f"Invalid query string parameters: limit must be 1 or more. Got: {text[:40]!r}", BAD_VALUE)
    return int(text)


def _involved(call: Call, forest: Forest, found: Iterable[Candidate]) -> Iterable[Node]:
    """List the providers of the candidates; from 1.29 on with the rest of their trees."""
    uuids = {uuid: None for candidate in found for uuid in candidate.parts}
    if call.minor < 29:
        return [forest.nodes[uuid] for uuid in uuids]
    roots = {forest.nodes[uuid].provider.root: None for uuid in uuids}
    return [node for root in roots for node in forest.trees[root]]


def _request(call: Call, candidate: Candidate) -> dict[str, Any]:
    if call.minor < 12:
        return {
            "allocations": [
                {"resource_provider": {"uuid": uuid}, "resources": resources}
                for uuid, resources in candidate.parts.items()
            ]
        }
    view: dict[str, Any] = {
        "allocations": {uuid: {"resources": resources} for uuid, resources in candidate.parts.items()}
    }
    if call.minor >= 34:
        view["mappings"] = {"": sorted(candidate.parts)}
    return view


def _summary(call: Call, node: Node, wanted: Wanted) -> dict[str, Any]:
    view: dict[str, Any] = {
        "resources": {
            name: {"capacity": stock.capacity, "used": stock.used}
            for name, stock in node.stocks.items()
            if call.minor >= 27 or name in wanted.resources
        }
    }
    if call.minor >= 17:
        view["traits"] = sorted(node.traits)
    if call.minor >= 29:
        view["parent_provider_uuid"] = node.provider.parent
        view["root_provider_uuid"] = node.provider.root
    return view
