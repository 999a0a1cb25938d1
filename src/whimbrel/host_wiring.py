"""Writes down what the settings say of hosts: their rows, what they offer, the zones that they are in.

Law: every start does it, for each cell that is up then, and for others when they come. Settings may change between two
starts, but servers stay where they are, and so does what operators changed.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress

import structlog
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, NotFound, WorldError
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import Capacity
from whimbrel.domain.host import Aggregate, Host, Zone
from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.placement.inventory import TRAITS_OF_HOSTS, besides, of_host
from whimbrel.ports.catalog import zones_by_host
from whimbrel.ports.cloud import Cell, Cloud
from whimbrel.ports.hypervisor import Hypervisor
from whimbrel.servers import host_zones
from whimbrel.settings import CloudConfig, LibvirtHost, SimulatedHost

log = structlog.get_logger(__name__)

FIRST_FLAVORS = (
    Flavor(flavor_id="1", name="m1.tiny", vcpus=1, memory_mib=512, root_gib=1),
    Flavor(flavor_id="2", name="m1.small", vcpus=1, memory_mib=2048, root_gib=20),
    Flavor(flavor_id="3", name="m1.medium", vcpus=2, memory_mib=4096, root_gib=40),
    Flavor(flavor_id="4", name="m1.large", vcpus=4, memory_mib=8192, root_gib=80),
)
"""What a new cloud starts with, so that its first server can be booted at once."""


async def check_hosts(cell: Cell, config: CloudConfig, providers: Mapping[str, ProviderId]) -> None:
    """Raises: Invalid: the settings have a host in this cell that is known elsewhere. providers: by their names."""
    known = {host.name: host.id for host in await cell.hosts.all()}
    for host in (host for each, host in config.hosts() if each.name == cell.name):
        if providers.get(host.name) not in (None, known.get(HostName(host.name))):
            raise Invalid(
                f"host '{host.name}' of cell '{cell.name}' is known to this cloud already, outside of that cell: put it"
                " back where it was, or give one of them another name; if it always was in this cell, have the cell's"
                " own database back, for this is another one"
            )


async def write_down_hosts(
    cloud: Cloud, cell: CellName, config: CloudConfig, hypervisors: Mapping[HostName, Hypervisor]
) -> None:
    """Have the hosts of a cell there as the settings and the hosts themselves say."""
    for each, host in config.hosts():
        if each.name == cell:
            hypervisor = hypervisors[HostName(host.name)]
            await _register_host(cloud, cell, host, await _what_it_is(hypervisor, host))


async def write_down_flavors(cloud: Cloud) -> None:
    if not await cloud.flavors.all():
        for flavor in FIRST_FLAVORS:
            await cloud.flavors.create(flavor, cloud.clock.now())


async def _what_it_is(hypervisor: Hypervisor, host: SimulatedHost | LibvirtHost) -> tuple[Capacity, bool]:
    """Ask a hypervisor what it is; one that does not answer now is what the settings say."""
    try:
        return await hypervisor.capacity(), True
    except WorldError as trouble:
        log.warning("a host does not answer", host=host.name, reason=trouble.reason)
        unknown = Capacity(
            vcpus=host.vcpus,
            memory_mib=host.memory_mib,
            disk_gib=host.disk_gib,
            hypervisor_type="QEMU",
            hypervisor_version=1,
        )
        return unknown, False


async def _register_host(
    cloud: Cloud, cell: CellName, host: SimulatedHost | LibvirtHost, found: tuple[Capacity, bool]
) -> None:
    capacity, answers = found
    now = cloud.clock.now()
    row = await cloud.cell(cell).hosts.register(
        Host(
            name=HostName(host.name),
            cell=cell,
            id=ProviderId(cloud.ids.uuid()),
            service_id=cloud.ids.uuid(),
            driver="simulated" if isinstance(host, SimulatedHost) else "libvirt",
            vcpus=host.vcpus,
            memory_mib=host.memory_mib,
            disk_gib=host.disk_gib,
            seen_at=now if answers else 0.0,
            created_at=now,
            hypervisor_type=capacity.hypervisor_type,
            hypervisor_version=capacity.hypervisor_version,
            cpu_info=capacity.cpu_info,
            numa=capacity.numa,
        )
    )
    await cloud.cell(cell).devices.register(row.name, host.pci)
    offered = of_host(row, cloud.rules) | besides(host.dedicated_vcpus, host.resources)
    await cloud.placement.register_host(row.id, row.name, offered)
    await cloud.placement.offer_traits(row.id, [*TRAITS_OF_HOSTS, *host.traits])
    await cloud.placement.set_disabled(row.id, not row.enabled)


async def write_down_zones(cloud: Cloud, config: CloudConfig, up: Collection[CellName]) -> None:
    """Have an aggregate for every zone that the settings name, with its hosts; what operators changed later stays.

    So does the zone of a host on which somebody holds something. up: the cells whose hosts are known now.
    """
    now, default = cloud.clock.now(), await _default_zone(cloud)
    rows = {host.name: host for cell in up for host in await cloud.cell(cell).hosts.all()}
    known = {aggregate.name: aggregate for aggregate in await cloud.aggregates.all()}
    placed = zones_by_host(known.values())
    for _, host in config.hosts():
        meant = known[host.zone].zone if host.zone in known else default.id
        if (zone := placed.get(HostName(host.name))) not in (None, meant):
            log.warning("a host stays in its zone, which is not that of the settings", host=host.name, zone=zone)
        if host.zone in (default.id, default.name) or host.name in placed:
            continue
        if host.zone not in known:
            zone = (await cloud.zones.ensure(Zone(id=cloud.ids.uuid(), name=host.zone, created_at=now))).id
            metadata = {"availability_zone": zone}
            known[host.zone] = await cloud.aggregates.create(host.zone, cloud.ids.uuid(), metadata, now)
        try:
            await _put_into(cloud, known[host.zone], HostName(host.name), rows.get(HostName(host.name)))
        except (Conflict, NotFound) as trouble:
            log.warning("a host is not in its zone", host=host.name, zone=host.zone, reason=trouble.reason)
    aggregates = await cloud.aggregates.all()
    for name, row in rows.items():
        await cloud.placement.set_aggregates(row.id, [a.uuid for a in aggregates if name in a.hosts])


async def _put_into(cloud: Cloud, aggregate: Aggregate, name: HostName, row: Host | None) -> None:
    """Have a host that is in no zone in that of an aggregate, of which Placement hears first.

    row: None: its cell is down; then whoever looks after zones tells Placement later.
    Raises: Conflict: somebody holds something on it, or put it into another zone just now.
    """
    now = cloud.clock.now()
    if row is None:
        await cloud.aggregates.add_host(aggregate.id, name, now)
        return
    async with host_zones.changing(cloud, [row], [], [replace(aggregate, hosts=[name])]) as zoning:
        await cloud.aggregates.add_host(aggregate.id, name, now, zoning)


async def _default_zone(cloud: Cloud) -> Zone:
    """Give the zone of hosts that no aggregate puts into one. Raises: Invalid: its name is another zone's."""
    rule = cloud.rules.default_availability_zone
    with suppress(NotFound):
        return await cloud.zones.get(rule)
    found = await cloud.zones.ensure(Zone(id=rule, name=rule, created_at=cloud.clock.now()))
    if found.id != rule:
        raise Invalid(
            f"[rules]: 'default_availability_zone' is '{rule}', the name of a zone that is there already; to make that"
            f" one the default zone give its id, '{found.id}'"
        )
    return found
