"""Hosts of all cells with their zones, as the API needs them. Internally a zone is its id; users see its name.

Invariant: code that guards a change requests all hosts, and gets an error if a cell does not answer; code that shows
or searches continues with the known hosts.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.domain.host import Aggregate, Host
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.resources import VCPU
from whimbrel.ports.stores.catalog import zone_of
from whimbrel.servers.listing import cell_fanout


class KnownHosts(Struct, frozen=True):
    """The hosts of the cells that answered, by their names."""

    by_name: dict[HostName, Host]
    unreachable: frozenset[CellName]

    def not_found(self, sentence: str) -> NotFound:
        """Return the error that an object is on none of them. Raises: Unavailable: it may be in an unreachable cell."""
        cell_fanout.check(self.unreachable)
        return NotFound(sentence)


async def hosts(call: Call) -> dict[HostName, Host]:
    """Return every host of the cloud by its name. Raises: Unavailable: a cell does not answer."""
    known = await known_hosts(call)
    cell_fanout.check(known.unreachable)
    return known.by_name


async def known_hosts(call: Call) -> KnownHosts:
    answers = await cell_fanout.ask_all(call.cloud, lambda cell: cell.hosts.all())
    cells = [answers.of[name] for name in call.cloud.cells if name in answers.of]
    return KnownHosts({host.name: host for found in cells for host in found}, answers.unreachable)


async def absent_hosts(call: Call, known: KnownHosts) -> list[HostName]:
    """Return the names of hosts in unreachable cells: those that placement has and no reachable cell."""
    if not known.unreachable:
        return []
    ids = {host.id for host in known.by_name.values()}
    providers = await call.cloud.placement.providers()
    roots = (one for one in providers if one.parent is None and one.id not in ids and VCPU in one.capacity)
    return sorted(HostName(one.name) for one in roots)


async def zones(call: Call) -> dict[HostName, str]:
    """Return the zone of every known host with an enabled service."""
    return _zones(call, await known_hosts(call), await call.cloud.aggregates.all())


async def has_hosts(call: Call, zone: str) -> bool:
    """Check whether a zone has a host with an enabled service. Raises: Unavailable: only an unreachable cell may
    have one.
    """
    known = await known_hosts(call)
    if zone in _zones(call, known, await call.cloud.aggregates.all()).values():
        return True
    cell_fanout.check(known.unreachable)
    return False


def _zones(call: Call, known: KnownHosts, aggregates: Sequence[Aggregate]) -> dict[HostName, str]:
    return {name: zone_among(call, name, aggregates) for name, host in known.by_name.items() if host.enabled}


async def zone_of_host(call: Call, name: HostName) -> str:
    """Return the zone of one host. Raises: NotFound; Unavailable: it may be in a cell that does not answer."""
    known = await known_hosts(call)
    if name not in known.by_name:
        raise known.not_found(f"Compute host {name} could not be found.")
    return zone_among(call, name, await call.cloud.aggregates.all())


def zone_among(call: Call, name: HostName, aggregates: Sequence[Aggregate]) -> str:
    """Return the zone of a host, given the aggregates."""
    return zone_of(name, aggregates) or call.cloud.rules.default_availability_zone


# Names


async def zone_names(call: Call) -> dict[str, str]:
    """Return the name of every zone by its id."""
    return {zone.id: zone.name for zone in await call.cloud.zones.all()}


def zone_name(names: Mapping[str, str], zone_id: str) -> str:
    """Return the name of a zone. An unknown id is from before zones had ids, and is the name itself."""
    return names.get(zone_id, zone_id)


async def zone_named(call: Call, name: str) -> str | None:
    """Return the id of the zone of this name, or None."""
    zone = await call.cloud.zones.by_name(name)
    return zone.id if zone else None


async def zone_id(call: Call, name: str) -> str:
    """Return the id of the zone of this name. Raises: Invalid: there is none."""
    zone = await zone_named(call, name)
    if zone is None:
        raise Invalid(f"The availability zone {name} is not there.")
    return zone
