"""Hosts of all cells with their zones, as the API needs them."""

from whimbrel.api.call import Call
from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.ports.catalog import zone_of


async def hosts(call: Call) -> dict[HostName, Host]:
    """Give every host of the cloud by its name."""
    return {host.name: host for cell in call.cloud.cells.values() for host in await cell.hosts.all()}


async def zones(call: Call) -> dict[HostName, str]:
    """Give the zone of every host whose service is enabled."""
    aggregates = await call.cloud.aggregates.all()
    default = call.cloud.rules.default_availability_zone
    known = await hosts(call)
    return {name: zone_of(name, aggregates) or default for name, host in known.items() if host.enabled}


async def zone_of_host(call: Call, name: HostName) -> str:
    """Give the zone of one host. Raises: NotFound."""
    if name not in await hosts(call):
        raise NotFound(f"Compute host {name} could not be found.")
    return zone_of(name, await call.cloud.aggregates.all()) or call.cloud.rules.default_availability_zone


async def zone_id(call: Call, name: str) -> str:
    """Give the id of the zone of this name. Raises: Invalid: there is none."""
    zone = await call.cloud.zones.by_name(name)
    if zone is None:
        raise Invalid(f"The availability zone {name} is not there.")
    return zone.id
