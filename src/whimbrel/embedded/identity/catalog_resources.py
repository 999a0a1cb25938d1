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
from whimbrel.embedded.identity.request import Ask
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import CatalogEndpoint, CatalogRegion, CatalogService, Record

View = dict[str, Any]


async def in_tokens(ask: Ask) -> list[View]:
    """Return the catalog as in a token: enabled services with their enabled endpoints."""
    whole = ask.context.catalog.view()
    added = await ask.store.records(CatalogService, enabled=True)
    endpoints = await ask.store.records(CatalogEndpoint, enabled=True) if added else []
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


async def list_services(ask: Ask) -> Reply:
    return _listed(ask, "services", await _services(ask), ("name", "type"))


async def show_service(ask: Ask) -> Reply:
    return _shown(ask, "service", await _services(ask), ask.path("service_id"))


async def create_service(ask: Ask) -> Reply:
    given = await ask.inside("service", NewService)
    service = CatalogService(
        id=new_id(ask.context.ids),
        type=given.type,
        name=given.name or "",
        description=given.description or "",
        enabled=given.enabled is not False,
    )
    await ask.store.add(service)
    return _made(ask, "service", service)


async def update_service(ask: Ask) -> Reply:
    changes = changes_of(await ask.inside("service", ChangedService))
    return await _changed(ask, CatalogService, "service", changes)


async def delete_service(ask: Ask) -> Reply:
    """Delete a service with its endpoints. As in Keystone, its registered limits stay, of a service that is gone."""
    return await _removed(ask, CatalogService, "service")


async def _services(ask: Ask) -> list[View]:
    return [*ask.context.catalog.service_views(), *await _added(ask, CatalogService)]


# Endpoints


async def list_endpoints(ask: Ask) -> Reply:
    return _listed(ask, "endpoints", await _endpoints(ask), ("interface", "service_id", "region_id"))


async def show_endpoint(ask: Ask) -> Reply:
    return _shown(ask, "endpoint", await _endpoints(ask), ask.path("endpoint_id"))


async def create_endpoint(ask: Ask) -> Reply:
    given = await ask.inside("endpoint", NewEndpoint)
    await _check_service(ask, given.service_id)
    await _ensure_region(ask, given.region)
    await _check_region(ask, given.region_id)
    endpoint = CatalogEndpoint(
        id=new_id(ask.context.ids),
        service_id=given.service_id,
        interface=given.interface,
        url=given.url,
        region_id=given.region_id or given.region,
        enabled=given.enabled is not False,
    )
    await ask.store.add(endpoint)
    return _made(ask, "endpoint", endpoint)


async def update_endpoint(ask: Ask) -> Reply:
    changes = changes_of(await ask.inside("endpoint", ChangedEndpoint))
    if "service_id" in changes:
        await _check_service(ask, changes["service_id"])
    await _check_region(ask, changes.get("region_id"))
    former = changes.pop("region", None)
    if former is not None and "region_id" not in changes:
        await _ensure_region(ask, former)
        changes["region_id"] = former
    return await _changed(ask, CatalogEndpoint, "endpoint", changes)


async def delete_endpoint(ask: Ask) -> Reply:
    return await _removed(ask, CatalogEndpoint, "endpoint")


async def _endpoints(ask: Ask) -> list[View]:
    return [*ask.context.catalog.endpoint_views(), *await _added(ask, CatalogEndpoint)]


async def _check_service(ask: Ask, service_id: str) -> None:
    """Raises: Problem; Refused: the cloud's own services have the endpoints of the settings."""
    if all(service.id != service_id for service in await ask.store.records(CatalogService)):
        _check_added(ask, "service", service_id)
        raise Problem(400, f"Endpoint refers to a service that does not exist: {service_id}.")


async def _check_region(ask: Ask, region_id: str | None) -> None:
    if region_id is not None and all(region["id"] != region_id for region in await _regions(ask)):
        raise Problem(400, f"Could not find region: {region_id}.")


async def _ensure_region(ask: Ask, region_id: str | None) -> None:
    """Create the region that a client names by the former field `region`, as Keystone does."""
    if region_id is None or any(region["id"] == region_id for region in await _regions(ask)):
        return
    with suppress(Conflict):  # another request has just created it
        await ask.store.add(CatalogRegion(id=region_id))


# Regions


async def list_regions(ask: Ask) -> Reply:
    return _listed(ask, "regions", await _regions(ask), ("parent_region_id",))


async def show_region(ask: Ask) -> Reply:
    return _shown(ask, "region", await _regions(ask), ask.path("region_id"))


async def create_region(ask: Ask) -> Reply:
    return await _region_made(ask, await ask.inside("region", NewRegion))


async def create_region_of_id(ask: Ask) -> Reply:
    """Create the region in the path; its body can be without an id."""
    given, region_id = await ask.inside("region", NewRegion), ask.path("region_id")
    if given.id not in (None, region_id):
        raise Problem(400, f"The region's id is {given.id} in the body, but {region_id} in the URL.")
    return await _region_made(ask, msgspec.structs.replace(given, id=region_id))


async def _region_made(ask: Ask, given: NewRegion) -> Reply:
    await _check_region(ask, given.parent_region_id)
    region = CatalogRegion(
        id=given.id or new_id(ask.context.ids),
        description=given.description or "",
        parent_region_id=given.parent_region_id,
    )
    taken = Conflict(f"Conflict occurred attempting to store region - Duplicate ID, {region.id}.")
    if region.id == ask.context.catalog.region:
        raise taken
    try:
        await ask.store.add(region)
    except Conflict as error:
        raise taken from error
    return _made(ask, "region", region)


async def update_region(ask: Ask) -> Reply:
    changes = changes_of(await ask.inside("region", ChangedRegion))
    await _check_region(ask, changes.get("parent_region_id"))
    return await _changed(ask, CatalogRegion, "region", changes)


async def delete_region(ask: Ask) -> Reply:
    """Delete a region with the regions below it. As in Keystone, registered limits of them stay.

    Raises: Refused: one of them has endpoints.
    """
    top = ask.path("region_id")
    _check_added(ask, "region", top)
    children: dict[str | None, list[str]] = {}
    for region in await ask.store.records(CatalogRegion):
        children.setdefault(region.parent_region_id, []).append(region.id)
    regions = [top]
    for region_id in regions:  # it grows; a circle of regions is gone round once
        regions += [each for each in children.get(region_id, []) if each not in regions]
    for region_id in regions:
        if used := [each.id for each in await ask.store.records(CatalogEndpoint, region_id=region_id)]:
            raise Refused(f"Region {region_id} has endpoints: {', '.join(used)}.")
    for region_id in reversed(regions[1:]):
        await ask.store.remove(CatalogRegion, region_id)
    return await _removed(ask, CatalogRegion, "region")


async def _regions(ask: Ask) -> list[View]:
    return [ask.context.catalog.region_view(), *await _added(ask, CatalogRegion)]


# Common to all of them


async def _added(ask: Ask, kind: type[Record]) -> list[View]:
    return [_view(record) for record in await ask.store.records(kind)]


def _view(record: msgspec.Struct) -> View:
    view: View = msgspec.structs.asdict(record)
    return view | {"region": record.region_id} if isinstance(record, CatalogEndpoint) else view


def _made(ask: Ask, word: str, record: msgspec.Struct) -> Reply:
    return Reply({word: _linked(ask, word, _view(record))}, 201)


async def _changed(ask: Ask, kind: type[Record], word: str, changes: dict[str, Any]) -> Reply:
    _check_added(ask, word, ask.path(f"{word}_id"))
    record = await ask.store.change(kind, ask.path(f"{word}_id"), changes)
    return Reply({word: _linked(ask, word, _view(record))})


async def _removed(ask: Ask, kind: type[Record], word: str) -> Reply:
    _check_added(ask, word, ask.path(f"{word}_id"))
    await ask.store.remove(kind, ask.path(f"{word}_id"))
    return NO_CONTENT


def _check_added(ask: Ask, word: str, wanted: str) -> None:
    """Raises: Refused: it is one of the cloud itself."""
    catalog = ask.context.catalog
    own = {"service": catalog.service_views(), "endpoint": catalog.endpoint_views(), "region": [catalog.region_view()]}
    if any(line["id"] == wanted for line in own[word]):
        raise Refused(f"This {word} is one of the cloud itself: it follows from the settings of the cloud.")


def _linked(ask: Ask, word: str, line: View) -> View:
    return {**line, "links": {"self": f"{ask.root_url}/v3/{word}s/{line['id']}"}}


def _listed(ask: Ask, words: str, lines: Sequence[View], filters: Sequence[str]) -> Reply:
    wanted = ask.filters(*filters).items()
    found = [_linked(ask, words[:-1], line) for line in lines if all(line[name] == value for name, value in wanted)]
    return Reply(views.listing(ask.root_url, words, found))


def _shown(ask: Ask, word: str, lines: Sequence[View], wanted: str) -> Reply:
    for line in lines:
        if line["id"] == wanted:
            return Reply({word: _linked(ask, word, line)})
    raise Problem(404, f"Could not find {word}: {wanted}.")
