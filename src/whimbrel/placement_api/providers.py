"""Resource providers: list, create, show, update, delete; and their usage."""

from typing import Any
from uuid import UUID

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import ProviderId
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.placement.errors import BadParent, ProviderNotFound
from whimbrel.placement.provider import Provider
from whimbrel.placement.search import matching
from whimbrel.placement_api import queries
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.problems import introducing

_LINKS = {"inventories": 0, "usages": 0, "aggregates": 1, "traits": 6, "allocations": 11}
"""Links of a provider -> their first version."""


def shown(call: Call, provider: Provider) -> dict[str, Any]:
    """Return the representation of a provider."""
    here = call.path("resource_providers", provider.uuid)
    links = [{"rel": "self", "href": here}]
    links += [{"rel": rel, "href": f"{here}/{rel}"} for rel, since in _LINKS.items() if since <= call.minor]
    view: dict[str, Any] = {"uuid": provider.uuid, "name": provider.name, "generation": provider.generation}
    view["links"] = links
    if call.minor >= 14:
        view["parent_provider_uuid"] = provider.parent
        view["root_provider_uuid"] = provider.root
    return view


async def index(call: Call) -> Any:
    wanted = queries.group(call)
    opening = 'Invalid trait(s) in "required" parameter: '
    await queries.check_names(call.store, wanted.resources, queries.trait_names(wanted), opening)
    name, uuid = call.value("name") or None, call.value("uuid")
    if uuid is not None and wanted.in_tree is None:
        wanted = replace(wanted, in_tree=ProviderId(uuid))  # its only possible location
    index = await call.store.provider_index()
    found = [
        node.provider
        for node in matching(index, wanted)
        if name in (None, node.provider.name) and uuid in (None, node.provider.uuid)
    ]
    return {"resource_providers": [shown(call, provider) for provider in found]}


async def create(call: Call) -> Reply:
    uuid = str(UUID(call.body["uuid"])) if "uuid" in call.body else call.ids.uuid()
    name = call.body["name"]
    with introducing(f'Unable to create resource provider "{name}", {uuid}: ', Refused):
        if not name:
            raise Refused("name is required")
        provider = await call.store.create_provider(ProviderId(uuid), name, _parent(call))
    headers = call.location("resource_providers", uuid)
    if call.minor < 20:
        return Reply(status=201, headers=headers)
    return Reply(status=200, body=shown(call, provider), headers=headers)


async def show(call: Call) -> Any:
    return shown(call, (await call.store.node(call.uuid)).provider)


async def update(call: Call) -> Any:
    name = call.body["name"]
    if "parent_provider_uuid" in call.body:
        freely = call.minor >= 37
        with introducing(f"Unable to save resource provider {call.uuid}: ", BadParent):
            provider = await call.store.move_provider(call.uuid, name, _parent(call), freely=freely)
    else:
        provider = await call.store.rename_provider(call.uuid, name)
    return shown(call, provider)


async def delete(call: Call) -> Reply:
    try:
        await call.store.delete_provider(call.uuid)
    except ProviderNotFound:
        raise NotFound(f"No resource provider with uuid {call.uuid} found for delete") from None
    return NO_CONTENT


async def usages(call: Call) -> Any:
    node = await call.store.node(call.uuid)
    return {
        "resource_provider_generation": node.provider.generation,
        "usages": {name: stock.used for name, stock in node.stocks.items()},
    }


def _parent(call: Call) -> ProviderId | None:
    parent = call.body.get("parent_provider_uuid")
    return None if parent is None else ProviderId(parent)
