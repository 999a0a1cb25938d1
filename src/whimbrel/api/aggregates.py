"""Aggregates: sets of hosts; one with the metadata key `availability_zone` is a zone.

Law: no server changes its zone because an operator sorts hosts. What would do that is refused while servers are there.

Source: reference of Nova 34, section 2.4 (aggregates), 3.6 (zones).
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from whimbrel.api import occupancy, places, times
from whimbrel.api.call import Call
from whimbrel.domain.errors import Conflict, Invalid, NotFound, Unavailable
from whimbrel.domain.host import Aggregate, Host
from whimbrel.domain.ids import HostName
from whimbrel.ports.catalog import zone_of

log = structlog.get_logger(__name__)

ZONE = "availability_zone"


async def index(call: Call) -> Any:
    return {"aggregates": [_shown(call, aggregate) for aggregate in await call.cloud.aggregates.all()]}


async def show(call: Call) -> Any:
    return {"aggregate": _shown(call, await call.cloud.aggregates.get(_number(call)))}


async def create(call: Call) -> Any:
    wanted = call.body["aggregate"]
    zone = wanted.get(ZONE)
    metadata = {ZONE: zone} if zone else {}
    made = await call.cloud.aggregates.create(wanted["name"], call.cloud.ids.uuid(), metadata, call.cloud.clock.now())
    shown = _shown(call, made)
    del shown["hosts"], shown["metadata"]
    return {"aggregate": shown}


async def update(call: Call) -> Any:
    wanted, number = call.body["aggregate"], _number(call)
    metadata = {ZONE: wanted[ZONE]} if ZONE in wanted else {}
    aggregate = await call.cloud.aggregates.get(number)
    await _check_zone_may_change(call, aggregate, metadata)
    changed = await call.cloud.aggregates.rename(
        number, wanted.get("name", aggregate.name), call.cloud.clock.now(), metadata
    )
    return {"aggregate": _shown(call, changed)}


async def delete(call: Call) -> Any:
    await call.cloud.aggregates.delete(_number(call))


async def set_metadata(call: Call) -> Any:
    metadata, number = call.body["set_metadata"]["metadata"], _number(call)
    await _check_zone_may_change(call, await call.cloud.aggregates.get(number), metadata)
    changed = await call.cloud.aggregates.set_metadata(number, metadata, call.cloud.clock.now())
    return {"aggregate": _shown(call, changed)}


async def add_host(call: Call) -> Any:
    number, host = _number(call), await _host(call, call.body["add_host"]["host"])
    known = await call.cloud.aggregates.all()
    after = [_with_host(aggregate, host.name) if aggregate.id == number else aggregate for aggregate in known]
    await _check_servers_keep_their_zone(call, "add host to", number, host, known, after)
    changed = await call.cloud.aggregates.add_host(number, host.name, call.cloud.clock.now())
    await _tell_placement(call, host)
    return {"aggregate": _shown(call, changed)}


async def remove_host(call: Call) -> Any:
    number, host = _number(call), await _host(call, call.body["remove_host"]["host"])
    known = await call.cloud.aggregates.all()
    after = [aggregate for aggregate in known if aggregate.id != number]
    await _check_servers_keep_their_zone(call, "remove host from", number, host, known, after)
    changed = await call.cloud.aggregates.remove_host(number, host.name, call.cloud.clock.now())
    await _tell_placement(call, host)
    return {"aggregate": _shown(call, changed)}


def _number(call: Call) -> int:
    text = call.params["aggregate_id"]
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise Invalid("id must be an integer")
    return int(text)


async def _host(call: Call, name: str) -> Host:
    known = await places.hosts(call)
    if name not in known:
        raise NotFound(f"Compute host {name} could not be found.")
    return known[HostName(name)]


def _with_host(aggregate: Aggregate, host: HostName) -> Aggregate:
    return msgspec.structs.replace(aggregate, hosts=[*aggregate.hosts, host])


async def _check_zone_may_change(call: Call, aggregate: Aggregate, metadata: Mapping[str, str | None]) -> None:
    """Raises: Invalid: a zone without a name, or servers are on its hosts and their zone would change."""
    if ZONE not in metadata or metadata[ZONE] == aggregate.zone:
        return
    if not metadata[ZONE]:
        raise Invalid(
            f"Cannot update aggregate {aggregate.id}. Reason: Aggregate {aggregate.name} does not support empty"
            " named availability zone."
        )
    known = await places.hosts(call)
    if await occupancy.is_anything_on(call, [known[name] for name in aggregate.hosts if name in known]):
        raise Invalid(
            f"Cannot update aggregate {aggregate.id}. Reason: One or more hosts contain instances in this zone."
        )


async def _check_servers_keep_their_zone(
    call: Call, verb: str, number: int, host: Host, before: list[Aggregate], after: list[Aggregate]
) -> None:
    """Raises: Conflict: servers are on the host and its zone would be another, the default zone included."""
    default = call.cloud.rules.default_availability_zone
    was, will_be = zone_of(host.name, before) or default, zone_of(host.name, after) or default
    if was != will_be and await occupancy.is_anything_on(call, [host]):
        raise Conflict(
            f"Cannot {verb} aggregate {number}. Reason: One or more hosts contain instances in this zone"
            f" ({host.name} would go from {was} to {will_be})."
        )


async def _tell_placement(call: Call, host: Host) -> None:
    """Mirror the host's memberships. Nobody but clients of placement reads them there, so that a failure only shows."""
    member_of = [aggregate.uuid for aggregate in await call.cloud.aggregates.all() if host.name in aggregate.hosts]
    try:
        await call.cloud.placement.set_aggregates(host.id, member_of)
    except (Unavailable, NotFound) as error:
        log.warning("placement does not know a host's aggregates", host=host.name, reason=error.reason)


def _shown(call: Call, aggregate: Aggregate) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": aggregate.id,
        "name": aggregate.name,
        "availability_zone": aggregate.zone,
        "hosts": aggregate.hosts,
        "metadata": aggregate.metadata,
        "created_at": times.with_fraction(aggregate.created_at),
        "updated_at": times.with_fraction(aggregate.updated_at),
        "deleted": False,
        "deleted_at": None,
    }
    if call.minor >= 41:
        shown["uuid"] = aggregate.uuid
    return shown
