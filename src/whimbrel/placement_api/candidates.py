"""Allocation candidates: where a request fits, and the resources of the providers there."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.candidates import Search
from whimbrel.placement.index import Index
from whimbrel.placement.provider import Node
from whimbrel.placement.search import ProviderIndex, Request
from whimbrel.placement.tree_search import Candidate
from whimbrel.placement_api import candidates_query
from whimbrel.placement_api.call import Call

WHOLE = 29
"""From this version on a summary is complete, independent of the request."""


async def index(call: Call) -> Any:
    """List candidates. During a long search other requests are answered between its parts."""
    request = _capped(await candidates_query.request(call), call.most_candidates)
    index = await call.store.provider_index()
    search = Search(index, request)
    requests: list[bytes] = []
    summaries: dict[ProviderId, Any] = {}
    while True:
        found = search.piece()
        if found:
            requests.append(msgspec.json.encode([_request(call, candidate) for candidate in found])[1:-1])
            summaries |= _summaries(call, index, request, found)
        if search.is_done:
            return {
                "allocation_requests": msgspec.Raw(b"[" + b",".join(requests) + b"]"),
                "provider_summaries": summaries,
            }
        await asyncio.sleep(0)


def _capped(request: Request, most: int | None) -> Request:
    """Return the request with a limit that is at most the server's."""
    if most is None or (request.limit is not None and request.limit <= most):
        return request
    return msgspec.structs.replace(request, limit=most)


def _summaries(call: Call, index: Index, request: Request, found: Sequence[Candidate]) -> dict[ProviderId, Any]:
    involved = _involved(index, request, found)
    if call.minor >= WHOLE:
        return index.derived(involved, _whole_summary)
    asked = frozenset[str]().union(*(wanted.resources for wanted in request.groups.values()))
    return {node.provider.uuid: _summary(call.minor, node, asked) for node in involved}


def _involved(index: ProviderIndex, request: Request, found: Iterable[Candidate]) -> Iterable[Node]:
    """Return the providers that contribute; in versions with trees, with the rest of their trees."""
    givers = [index.nodes[uuid] for uuid in {uuid: None for candidate in found for uuid in candidate.parts}]
    if not request.nested:
        return givers
    return [node for root in {node.provider.root: None for node in givers} for node in index.tree(root)]


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
        view["mappings"] = candidate.mappings
    return view


def _whole_summary(node: Node) -> msgspec.Raw:
    """Return a provider's summary as JSON text: it is the same in every answer until the provider changes."""
    return msgspec.Raw(msgspec.json.encode(_summary(WHOLE, node, frozenset())))


def _summary(minor: int, node: Node, asked: frozenset[str]) -> dict[str, Any]:
    view: dict[str, Any] = {
        "resources": {
            name: {"capacity": stock.capacity, "used": stock.used}
            for name, stock in node.stocks.items()
            if minor >= 27 or name in asked
        }
    }
    if minor >= 17:
        view["traits"] = _traits(node.traits)
    if minor >= 29:
        view["parent_provider_uuid"] = node.provider.parent
        view["root_provider_uuid"] = node.provider.root
    return view


@lru_cache(maxsize=4096)
def _traits(traits: frozenset[str]) -> msgspec.Raw:
    """Return a list of traits as JSON text; cached, because most hosts have the same traits."""
    in_order = sorted(traits, key=lambda name: (name.startswith("CUSTOM_"), name))  # standard traits first
    return msgspec.Raw(msgspec.json.encode(in_order))
