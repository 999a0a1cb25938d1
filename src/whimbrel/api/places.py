"""Hosts of all cells with their zones, as the API needs them. Inside a zone is its id; callers know its name."""

from collections.abc import Mapping, Sequence

from whimbrel.api.call import Call
from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.domain.host import Aggregate, Host
from whimbrel.domain.ids import HostName
from whimbrel.ports.catalog import zone_of


async def hosts(call: Call) -> dict[HostName, Host]:
    """Give every host of the cloud by its name."""
    return {host.name: host for cell in call.cloud.cells.values() for host in await cell.hosts.all()}


async def zones(call: Call) -> dict[HostName, str]:
    """Give the zone of every host whose service is enabled."""
    aggregates = await call.cloud.aggregates.all()
    return {name: zone_among(call, name, aggregates) for name, host in (await hosts(call)).items() if host.enabled}


async def zone_of_host(call: Call, name: HostName) -> str:
    """Give the zone of one host. Raises: NotFound."""
    if name not in await hosts(call):
        raise NotFound(f"Compute host {name} could not be found.")
    return zone_among(call, name, await call.cloud.aggregates.all())


def zone_among(call: Call, name: HostName, aggregates: Sequence[Aggregate]) -> str:
    """Give the zone of a host, where these are the aggregates."""
    return zone_of(name, aggregates) or call.cloud.rules.default_availability_zone


# Names


async def zone_names(call: Call) -> dict[str, str]:
    """Give the name of every zone by its id."""
    return {zone.id: zone.name for zone in await call.cloud.zones.all()}


def zone_name(names: Mapping[str, str], zone_id: str) -> str:
    """Give what a caller sees of a zone. An id that nobody knows is from before zones had ids: it was the name."""
    return names.get(zone_id, zone_id)


async def zone_named(call: Call, name: str) -> str | None:
    """Give the id of the zone that a caller names, None: there is none."""
    zone = await call.cloud.zones.by_name(name)
    return zone.id if zone else None


async def zone_id(call: Call, name: str) -> str:
    """Give the id of the zone that a caller names. Raises: Invalid: there is none."""
    zone = await zone_named(call, name)
    if zone is None:
        raise Invalid(f"The availability zone {name} is not there.")
    return zone
