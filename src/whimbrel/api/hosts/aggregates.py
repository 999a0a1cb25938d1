"""Aggregates: sets of hosts; one with the metadata key `availability_zone` assigns them to that zone.

Requests and answers contain a zone's name, the stores its id. A request that names an unknown zone creates it.

Invariant: no change of an aggregate changes the zone of a server. Such a change is refused while servers are on the
host, and placement refuses claims that arrive meanwhile.

Source: reference of Nova 34, section 2.4 (aggregates), 3.6 (zones).
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import structlog

from whimbrel.api.hosts import occupancy
from whimbrel.api.http import times
from whimbrel.api.http.call import Call
from whimbrel.api.views import locations
from whimbrel.domain.errors import Conflict, Invalid, NotFound, Unavailable
from whimbrel.domain.host import Aggregate, Host, Zone
from whimbrel.domain.ids import HostName
from whimbrel.moves.needs import METADATA_KEY, is_policy
from whimbrel.placement.errors import HostInUse
from whimbrel.ports.stores.catalog import Zoning
from whimbrel.ports.stores.image_fetches import ImageFetch, ImageRequest
from whimbrel.servers.zones import zone_changes

log = structlog.get_logger(__name__)

ZONE = "availability_zone"


async def index(call: Call) -> Any:
    names = await locations.zone_names(call)
    return {"aggregates": [_shown(call, aggregate, names) for aggregate in await call.cloud.aggregates.all()]}


async def show(call: Call) -> Any:
    return await _answer(call, await call.cloud.aggregates.get(_number(call)))


async def create(call: Call) -> Any:
    wanted = call.body["aggregate"]
    zone = await _zone(call, name) if (name := wanted.get(ZONE)) else None
    metadata, now = {ZONE: zone.id} if zone else {}, call.cloud.clock.now()
    made = await call.cloud.aggregates.create(wanted["name"], call.cloud.ids.uuid(), metadata, now)
    if zone:
        await call.cloud.zones.ensure(zone)  # it may have been deleted before the aggregate referred to it
    shown = _shown(call, made, await locations.zone_names(call))
    del shown["hosts"], shown["metadata"]
    return {"aggregate": shown}


async def update(call: Call) -> Any:
    wanted = call.body["aggregate"]
    known, aggregate = await _known(call)
    metadata = await _with_zone_id(call, aggregate, {ZONE: wanted[ZONE]} if ZONE in wanted else {})
    name, now = wanted.get("name", aggregate.name).strip(), call.cloud.clock.now()
    async with _changing(call, known, _with_metadata(aggregate, metadata), aggregate.hosts) as zoning:
        changed = await call.cloud.aggregates.rename(aggregate.id, name, now, metadata, zoning)
    return await _answer(call, changed)


async def delete(call: Call) -> Any:
    await call.cloud.aggregates.delete(_number(call))


async def set_metadata(call: Call) -> Any:
    said = call.body["set_metadata"]["metadata"]
    known, aggregate = await _known(call)
    _check_policy(aggregate.id, said)
    metadata, now = await _with_zone_id(call, aggregate, said), call.cloud.clock.now()
    async with _changing(call, known, _with_metadata(aggregate, metadata), aggregate.hosts) as zoning:
        changed = await call.cloud.aggregates.set_metadata(aggregate.id, metadata, now, zoning)
    return await _answer(call, changed)


async def add_host(call: Call) -> Any:
    host = await _host(call, call.body["add_host"]["host"])
    known, aggregate = await _known(call)
    after = msgspec.structs.replace(aggregate, hosts=[*aggregate.hosts, host.name])
    await _check_servers_keep_their_zone(call, "add host to", host, known, after)
    async with _changing(call, known, after, [host.name]) as zoning:
        changed = await call.cloud.aggregates.add_host(aggregate.id, host.name, call.cloud.clock.now(), zoning)
    await _mirror_in_placement(call, host)
    return await _answer(call, changed)


async def remove_host(call: Call) -> Any:
    host = await _host(call, call.body["remove_host"]["host"])
    known, aggregate = await _known(call)
    after = msgspec.structs.replace(aggregate, hosts=[name for name in aggregate.hosts if name != host.name])
    await _check_servers_keep_their_zone(call, "remove host from", host, known, after)
    async with _changing(call, known, after, [host.name]) as zoning:
        changed = await call.cloud.aggregates.remove_host(aggregate.id, host.name, call.cloud.clock.now(), zoning)
    await _mirror_in_placement(call, host)
    return await _answer(call, changed)


async def cache_images(call: Call) -> Any:
    """Request that the aggregate's hosts fetch images ahead; conductors ask the hosts."""
    requested = [each["id"] for each in call.body["cache"]]
    if len(set(requested)) < len(requested):
        raise Invalid("Duplicate images in request")
    aggregate = await call.cloud.aggregates.get(_number(call))
    for image_id in requested:
        await _check_image(call, image_id)
    known, now = (await locations.known_hosts(call)).by_name, call.cloud.clock.now()
    there, rules = [known[name] for name in aggregate.hosts if name in known], call.cloud.rules.notifications
    fetches = [
        ImageFetch(host=host.name, cell=host.cell, image_id=image_id, requested_at=now, due_at=now)
        for host in there
        for image_id in requested
    ]
    announced = ImageRequest(
        id=call.cloud.ids.uuid(),
        aggregate=aggregate,
        hosts=[host.name for host in there],
        images=requested,
        requested_at=now,
    )
    await call.cloud.image_fetches.add(fetches, announced if rules.enabled else None, rules.backlog_s)


async def _check_image(call: Call, image_id: str) -> None:
    """Raises: Invalid: there is no such image."""
    try:
        await (call.own_images or call.cloud.images).show(image_id)
    except NotFound:
        raise Invalid(f"Image {image_id} could not be found.") from None


async def _known(call: Call) -> tuple[list[Aggregate], Aggregate]:
    """Return all aggregates, and the requested one. Raises: NotFound."""
    number, known = _number(call), await call.cloud.aggregates.all()
    for aggregate in known:
        if aggregate.id == number:
            return known, aggregate
    raise NotFound(f"Aggregate {number} could not be found.")


@asynccontextmanager
async def _changing(
    call: Call, known: Sequence[Aggregate], after: Aggregate, hosts: Sequence[HostName]
) -> AsyncIterator[Zoning]:
    """Change an aggregate; only the zones of these hosts of it change. Raises: Conflict."""
    rows = await locations.hosts(call)
    there = [rows[name] for name in hosts if name in rows]
    try:
        async with zone_changes.changing(call.cloud, there, known, _instead(known, after)) as zoning:
            yield zoning
    except HostInUse as error:
        raise Conflict(f"Cannot update aggregate {after.id}. Reason: {error.reason}") from error


def _instead(known: Sequence[Aggregate], after: Aggregate) -> list[Aggregate]:
    return [after if aggregate.id == after.id else aggregate for aggregate in known]


def _number(call: Call) -> int:
    text = call.params["aggregate_id"]
    if not re.fullmatch("-?[0-9]+", text, re.ASCII):
        raise Invalid("id must be an integer")
    if len(text) > 9:
        raise NotFound(f"Aggregate {text[:100]} could not be found.")
    return int(text)


async def _host(call: Call, name: str) -> Host:
    known = await locations.hosts(call)
    if name not in known:
        raise NotFound(f"Compute host {name} could not be found.")
    return known[HostName(name)]


def _with_metadata(aggregate: Aggregate, metadata: Mapping[str, str | None]) -> Aggregate:
    merged = {**aggregate.metadata, **metadata}
    kept = {key: value for key, value in merged.items() if value is not None}
    return msgspec.structs.replace(aggregate, metadata=kept)


async def _with_zone_id(
    call: Call, aggregate: Aggregate, metadata: Mapping[str, str | None]
) -> Mapping[str, str | None]:
    """Replace the zone's name in the metadata by its id.

    Raises: Invalid: a zone without a name, or servers are on the aggregate's hosts and their zone would change.
    """
    if ZONE not in metadata:
        return metadata
    name = metadata[ZONE]
    if not name:
        raise Invalid(
            f"Cannot update aggregate {aggregate.id}. Reason: Aggregate {aggregate.name} does not support empty"
            " named availability zone."
        )
    if await locations.zone_named(call, name) != (aggregate.zone or ""):
        await _check_zone_may_change(call, aggregate)
    return {**metadata, ZONE: (await _zone(call, name)).id}


async def _check_zone_may_change(call: Call, aggregate: Aggregate) -> None:
    known = await locations.hosts(call)
    if await occupancy.is_anything_on(call, [known[host] for host in aggregate.hosts if host in known]):
        raise Invalid(
            f"Cannot update aggregate {aggregate.id}. Reason: One or more hosts contain instances in this zone."
        )


async def _zone(call: Call, name: str) -> Zone:
    """Return the zone of this name; create it if it does not exist."""
    return await call.cloud.zones.ensure(Zone(id=call.cloud.ids.uuid(), name=name, created_at=call.cloud.clock.now()))


def _check_policy(number: int, metadata: Mapping[str, str | None]) -> None:
    """Raises: Invalid: moves would be refused because of it."""
    said = metadata.get(METADATA_KEY)
    if said is not None and not is_policy(said):
        raise Invalid(f"Cannot update aggregate {number}. Reason: {METADATA_KEY} must be keep, prefer or free.")


async def _check_servers_keep_their_zone(
    call: Call, verb: str, host: Host, known: Sequence[Aggregate], after: Aggregate
) -> None:
    """Raises: Conflict: servers are on the host and its zone would change, the default zone included."""
    was, will_be = (locations.zone_among(call, host.name, each) for each in (known, _instead(known, after)))
    if was != will_be and await occupancy.is_anything_on(call, [host]):
        names = await locations.zone_names(call)
        raise Conflict(
            f"Cannot {verb} aggregate {after.id}. Reason: One or more hosts contain instances in this zone"
            f" ({host.name} would go from {locations.zone_name(names, was)} to {locations.zone_name(names, will_be)})."
        )


async def _mirror_in_placement(call: Call, host: Host) -> None:
    """Mirror the host's memberships to placement. Only placement's clients read them, so a failure is only logged."""
    member_of = [aggregate.uuid for aggregate in await call.cloud.aggregates.all() if host.name in aggregate.hosts]
    try:
        await call.cloud.placement.set_aggregates(host.id, member_of)
    except (Unavailable, NotFound) as error:
        log.warning("the aggregates of a host were not written to Placement", host=host.name, reason=error.reason)


async def _answer(call: Call, aggregate: Aggregate) -> Any:
    return {"aggregate": _shown(call, aggregate, await locations.zone_names(call))}


def _shown(call: Call, aggregate: Aggregate, names: Mapping[str, str]) -> dict[str, Any]:
    zone = None if aggregate.zone is None else locations.zone_name(names, aggregate.zone)
    shown: dict[str, Any] = {
        "id": aggregate.id,
        "name": aggregate.name,
        "availability_zone": zone,
        "hosts": aggregate.hosts,
        "metadata": aggregate.metadata if zone is None else {**aggregate.metadata, ZONE: zone},
        "created_at": times.with_fraction(aggregate.created_at),
        "updated_at": times.with_fraction(aggregate.updated_at),
        "deleted": False,
        "deleted_at": None,
    }
    if call.minor >= 41:
        shown["uuid"] = aggregate.uuid
    return shown
