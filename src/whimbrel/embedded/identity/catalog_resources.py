"""The catalog as resources: services, endpoints and regions.

Those of the cloud itself are derived from the settings and read-only; administrators can add others.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from whimbrel.domain.errors import Conflict, Refused
from whimbrel.embedded.identity import views
from whimbrel.embedded.identity.accounts import changes_of
from whimbrel.embedded.identity.bodies import (
    ChangedEndpoint,
    ChangedRegion,
    ChangedService,
    NewEndpoint,
    NewRegion,
    NewService,
)
from whimbrel.embedded.identity.initial_accounts import new_id
from whimbrel.embedded.identity.request import Call
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import CatalogEndpoint, CatalogRegion, CatalogService, Record

View = dict[str, Any]


async def in_tokens(call: Call) -> list[View]:
    """Return the catalog as in a token: enabled services with their enabled endpoints."""
    whole = call.context.catalog.view()
    added = await call.store.records(CatalogService, enabled=True)
    endpoints = await call.store.records(CatalogEndpoint, enabled=True) if added else []
    for service in added:
        places = [
            {"id": each.id, "interface": each.interface, "region_id": each.region_id, "url": each.url}
            | {"region": each.region_id}
            for each in endpoints
            if each.service_id == service.id
        ]
        whole.append({"id": service.id, "type": service.type, "name": service.name, "endpoints": places})
    return whole


# Services


async def list_services(call: Call) -> Reply:
    return _listed(call, "services", await _services(call), ("name", "type"))


async def show_service(call: Call) -> Reply:
    return _shown(call, "service", await _services(call), call.path("service_id"))


async def create_service(call: Call) -> Reply:
    given = await call.inside("service", NewService)
    service = CatalogService(
        id=new_id(call.context.ids),
        type=given.type,
        name=given.name or "",
        description=given.description or "",
        enabled=given.enabled is not False,
    )
    await call.store.add(service)
    return _made(call, "service", service)


async def update_service(call: Call) -> Reply:
    changes = changes_of(await call.inside("service", ChangedService))
    return await _changed(call, CatalogService, "service", changes)


async def delete_service(call: Call) -> Reply:
    """Delete a service with its endpoints. As in Keystone, its registered limits stay, of a service that is gone."""
    return await _removed(call, CatalogService, "service")


async def _services(call: Call) -> list[View]:
    return [*call.context.catalog.service_views(), *await _added(call, CatalogService)]


# Endpoints


async def list_endpoints(call: Call) -> Reply:
    return _listed(call, "endpoints", await _endpoints(call), ("interface", "service_id", "region_id"))


async def show_endpoint(call: Call) -> Reply:
    return _shown(call, "endpoint", await _endpoints(call), call.path("endpoint_id"))


async def create_endpoint(call: Call) -> Reply:
    given = await call.inside("endpoint", NewEndpoint)
    await _check_service(call, given.service_id)
    await _ensure_region(call, given.region)
    await _check_region(call, given.region_id)
    endpoint = CatalogEndpoint(
        id=new_id(call.context.ids),
        service_id=given.service_id,
        interface=given.interface,
        url=given.url,
        region_id=given.region_id or given.region,
        enabled=given.enabled is not False,
    )
    await call.store.add(endpoint)
    return _made(call, "endpoint", endpoint)


async def update_endpoint(call: Call) -> Reply:
    changes = changes_of(await call.inside("endpoint", ChangedEndpoint))
    if "service_id" in changes:
        await _check_service(call, changes["service_id"])
    await _check_region(call, changes.get("region_id"))
    former = changes.pop("region", None)
    if former is not None and "region_id" not in changes:
        await _ensure_region(call, former)
        changes["region_id"] = former
    return await _changed(call, CatalogEndpoint, "endpoint", changes)


async def delete_endpoint(call: Call) -> Reply:
    return await _removed(call, CatalogEndpoint, "endpoint")


async def _endpoints(call: Call) -> list[View]:
    return [*call.context.catalog.endpoint_views(), *await _added(call, CatalogEndpoint)]


async def _check_service(call: Call, service_id: str) -> None:
    """Raises: Problem; Refused: the cloud's own services have the endpoints of the settings."""
    if all(service.id != service_id for service in await call.store.records(CatalogService)):
        _check_added(call, "service", service_id)
        raise Problem(400, f"Endpoint refers to a service that does not exist: {service_id}.")


async def _check_region(call: Call, region_id: str | None) -> None:
    if region_id is not None and all(region["id"] != region_id for region in await _regions(call)):
        raise Problem(400, f"Could not find region: {region_id}.")


async def _ensure_region(call: Call, region_id: str | None) -> None:
    """Create the region that a client names by the former field `region`, as Keystone does."""
    if region_id is None or any(region["id"] == region_id for region in await _regions(call)):
        return
    with suppress(Conflict):  # another request has just created it
        await call.store.add(CatalogRegion(id=region_id))


# Regions


async def list_regions(call: Call) -> Reply:
    return _listed(call, "regions", await _regions(call), ("parent_region_id",))


async def show_region(call: Call) -> Reply:
    return _shown(call, "region", await _regions(call), call.path("region_id"))


async def create_region(call: Call) -> Reply:
    return await _region_made(call, await call.inside("region", NewRegion))


async def create_region_of_id(call: Call) -> Reply:
    """Create the region in the path; its body can be without an id."""
    given, region_id = await call.inside("region", NewRegion), call.path("region_id")
    if given.id not in (None, region_id):
        raise Problem(400, f"The region's id is {given.id} in the body, but {region_id} in the URL.")
    return await _region_made(call, msgspec.structs.replace(given, id=region_id))


async def _region_made(call: Call, given: NewRegion) -> Reply:
    await _check_region(call, given.parent_region_id)
    region = CatalogRegion(
        id=given.id or new_id(call.context.ids),
        description=given.description or "",
        parent_region_id=given.parent_region_id,
    )
    taken = Conflict(f"Conflict occurred attempting to store region - Duplicate ID, {region.id}.")
    if region.id == call.context.catalog.region:
        raise taken
    try:
        await call.store.add(region)
    except Conflict as error:
        raise taken from error
    return _made(call, "region", region)


async def update_region(call: Call) -> Reply:
    changes = changes_of(await call.inside("region", ChangedRegion))
    await _check_region(call, changes.get("parent_region_id"))
    return await _changed(call, CatalogRegion, "region", changes)


async def delete_region(call: Call) -> Reply:
    """Delete a region with the regions below it. As in Keystone, registered limits of them stay.

    Raises: Refused: one of them has endpoints.
    """
    top = call.path("region_id")
    _check_added(call, "region", top)
    children: dict[str | None, list[str]] = {}
    for region in await call.store.records(CatalogRegion):
        children.setdefault(region.parent_region_id, []).append(region.id)
    regions = [top]
    for region_id in regions:  # it grows; a circle of regions is gone round once
        regions += [each for each in children.get(region_id, []) if each not in regions]
    for region_id in regions:
        if used := [each.id for each in await call.store.records(CatalogEndpoint, region_id=region_id)]:
            raise Refused(f"Region {region_id} has endpoints: {', '.join(used)}.")
    for region_id in reversed(regions[1:]):
        await call.store.remove(CatalogRegion, region_id)
    return await _removed(call, CatalogRegion, "region")


async def _regions(call: Call) -> list[View]:
    return [call.context.catalog.region_view(), *await _added(call, CatalogRegion)]


# Common to all of them


async def _added(call: Call, kind: type[Record]) -> list[View]:
    return [_view(record) for record in await call.store.records(kind)]


def _view(record: msgspec.Struct) -> View:
    view: View = msgspec.structs.asdict(record)
    return view | {"region": record.region_id} if isinstance(record, CatalogEndpoint) else view


def _made(call: Call, word: str, record: msgspec.Struct) -> Reply:
    return Reply({word: _linked(call, word, _view(record))}, 201)


async def _changed(call: Call, kind: type[Record], word: str, changes: dict[str, Any]) -> Reply:
    _check_added(call, word, call.path(f"{word}_id"))
    record = await call.store.change(kind, call.path(f"{word}_id"), changes)
    return Reply({word: _linked(call, word, _view(record))})


async def _removed(call: Call, kind: type[Record], word: str) -> Reply:
    _check_added(call, word, call.path(f"{word}_id"))
    await call.store.remove(kind, call.path(f"{word}_id"))
    return NO_CONTENT


def _check_added(call: Call, word: str, wanted: str) -> None:
    """Raises: Refused: it is one of the cloud itself."""
    catalog = call.context.catalog
    own = {"service": catalog.service_views(), "endpoint": catalog.endpoint_views(), "region": [catalog.region_view()]}
    if any(line["id"] == wanted for line in own[word]):
        raise Refused(f"This {word} is one of the cloud itself: it follows from the settings of the cloud.")


def _linked(call: Call, word: str, line: View) -> View:
    return {**line, "links": {"self": f"{call.root_url}/v3/{word}s/{line['id']}"}}


def _listed(call: Call, words: str, lines: Sequence[View], filters: Sequence[str]) -> Reply:
    wanted = call.filters(*filters).items()
    found = [_linked(call, words[:-1], line) for line in lines if all(line[name] == value for name, value in wanted)]
    return Reply(views.listing(call.root_url, words, found))


def _shown(call: Call, word: str, lines: Sequence[View], wanted: str) -> Reply:
    for line in lines:
        if line["id"] == wanted:
            return Reply({word: _linked(call, word, line)})
    raise Problem(404, f"Could not find {word}: {wanted}.")
