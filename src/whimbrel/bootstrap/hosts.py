"""Registers the hosts of the settings: their rows, their inventories, and their zones.

Invariant: every start does it, for each cell that is up then, and for others when they come up. Settings may change
between two starts, but servers stay where they are, and changes by operators are kept.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import structlog
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, NotFound, WorldError
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import Capacity
from whimbrel.domain.host import Aggregate, Host, Zone
from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.placement.inventory import TRAITS_OF_HOSTS, besides, of_host
from whimbrel.ports.cloud import Cell, Cloud
from whimbrel.ports.hosts.hypervisor import Hypervisor
from whimbrel.ports.placement.placement import HostOffer
from whimbrel.ports.stores.catalog import zones_by_host
from whimbrel.ports.stores.hosts import SAID_BY_THE_HOST
from whimbrel.servers.zones import zone_changes
from whimbrel.settings import CloudConfig, LibvirtHost, SimulatedHost

log = structlog.get_logger(__name__)

FIRST_FLAVORS = (
    Flavor(flavor_id="1", name="m1.tiny", vcpus=1, memory_mib=512, root_gib=1),
    Flavor(flavor_id="2", name="m1.small", vcpus=1, memory_mib=2048, root_gib=20),
    Flavor(flavor_id="3", name="m1.medium", vcpus=2, memory_mib=4096, root_gib=40),
    Flavor(flavor_id="4", name="m1.large", vcpus=4, memory_mib=8192, root_gib=80),
)
"""The flavors of a new cloud."""


async def check_hosts(cell: Cell, config: CloudConfig, providers: Mapping[str, ProviderId]) -> None:
    """Raises: Invalid: a host of this cell's settings is known in another cell. providers: by their names."""
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
    """Register the hosts of a cell from the settings and the hypervisors; unchanged rows are not written."""
    told = [host for each, host in config.hosts() if each.name == cell]
    found = await asyncio.gather(*(_what_it_is(hypervisors[HostName(host.name)], host) for host in told))
    rows = await _registered(cloud, cell, [_row(cloud, cell, *each) for each in zip(told, found, strict=True)])
    has_devices = (await cloud.cell(cell).devices.counts()).keys()
    for host in told:
        if host.pci or host.name in has_devices:
            await cloud.cell(cell).devices.register(HostName(host.name), host.pci)
    await cloud.placement.register_hosts([_offer(cloud, host, rows[HostName(host.name)]) for host in told])


async def _registered(cloud: Cloud, cell: CellName, said: Sequence[Host]) -> dict[HostName, Host]:
    """Register new and changed hosts, and renew the others' last-seen time; return all hosts as stored."""
    hosts = cloud.cell(cell).hosts
    known = {host.name: host for host in await hosts.all()}
    changed = [host for host in said if host.name not in known or not _is_as_known(host, known[host.name])]
    if changed:
        known |= {host.name: host for host in await hosts.register_all(changed)}
    alive = {host.name for host in said if host.seen_at} - {host.name for host in changed}
    await hosts.seen(sorted(alive), cloud.clock.now())
    return known


def _is_as_known(said: Host, known: Host) -> bool:
    return all(getattr(said, name) == getattr(known, name) for name in SAID_BY_THE_HOST)


async def write_down_flavors(cloud: Cloud) -> None:
    if not await cloud.flavors.all():
        for flavor in FIRST_FLAVORS:
            await cloud.flavors.create(flavor, cloud.clock.now())


async def _what_it_is(hypervisor: Hypervisor, host: SimulatedHost | LibvirtHost) -> tuple[Capacity, bool]:
    """Return a hypervisor's capacity, and whether it answers; if not, the capacity is that of the settings."""
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


def _row(cloud: Cloud, cell: CellName, host: SimulatedHost | LibvirtHost, found: tuple[Capacity, bool]) -> Host:
    capacity, answers = found
    now = cloud.clock.now()
    return Host(
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


def _offer(cloud: Cloud, host: SimulatedHost | LibvirtHost, row: Host) -> HostOffer:
    return HostOffer(
        provider=row.id,
        name=row.name,
        inventories=of_host(row, cloud.rules) | besides(host.dedicated_vcpus, host.resources),
        traits=frozenset((*TRAITS_OF_HOSTS, *host.traits)),
        disabled=not row.enabled,
    )


async def write_down_zones(cloud: Cloud, config: CloudConfig, up: Collection[CellName]) -> None:
    """Ensure that every zone in the settings has an aggregate with its hosts; later changes by operators are kept.

    A host with claims keeps its zone, too. up: the cells whose hosts are known now.
    """
    now, default = cloud.clock.now(), await _default_zone(cloud)
    rows = {host.name: host for cell in up for host in await cloud.cell(cell).hosts.all()}
    known = {aggregate.name: aggregate for aggregate in await cloud.aggregates.all()}
    placed = zones_by_host(known.values())
    wanted: dict[str, list[HostName]] = {}  # zone name -> hosts that are in no zone yet
    for _, host in config.hosts():
        meant = known[host.zone].zone if host.zone in known else default.id
        if (zone := placed.get(HostName(host.name))) not in (None, meant):
            log.warning("a host stays in its zone, which is not that of the settings", host=host.name, zone=zone)
        if host.zone in (default.id, default.name) or host.name in placed:
            continue
        wanted.setdefault(host.zone, []).append(HostName(host.name))
    for name, hosts in wanted.items():
        if name not in known:
            zone = (await cloud.zones.ensure(Zone(id=cloud.ids.uuid(), name=name, created_at=now))).id
            metadata = {"availability_zone": zone}
            known[name] = await cloud.aggregates.create(name, cloud.ids.uuid(), metadata, now)
        await _put_all_into(cloud, known[name], hosts, rows)
    aggregates = await cloud.aggregates.all()
    members: dict[HostName, list[str]] = {name: [] for name in rows}
    for aggregate in aggregates:
        for name in aggregate.hosts:
            members.setdefault(name, []).append(aggregate.uuid)
    await cloud.placement.set_all_aggregates({row.id: members[name] for name, row in rows.items()})


async def _put_all_into(
    cloud: Cloud, aggregate: Aggregate, names: Sequence[HostName], rows: Mapping[HostName, Host]
) -> None:
    """Add hosts without a zone to an aggregate; those that cannot be added are skipped, which is logged."""
    try:
        await _put_into(cloud, aggregate, names, rows)
    except (Conflict, NotFound) as trouble:
        if len(names) == 1:
            log.warning("a host is not in its zone", host=names[0], zone=aggregate.name, reason=trouble.reason)
            return
        for name in names:
            await _put_all_into(cloud, aggregate, [name], rows)


async def _put_into(
    cloud: Cloud, aggregate: Aggregate, names: Sequence[HostName], rows: Mapping[HostName, Host]
) -> None:
    """Add hosts without a zone to an aggregate; Placement is updated first.

    rows: without those whose cell is down; the zone checks update Placement for them later.
    Raises: Conflict: there are claims on a host, or it was added to another zone concurrently.
    """
    now, known = cloud.clock.now(), [rows[name] for name in names if name in rows]
    if away := [name for name in names if name not in rows]:
        await cloud.aggregates.add_hosts(aggregate.id, away, now)
    if known:
        here = [host.name for host in known]
        async with zone_changes.changing(cloud, known, [], [replace(aggregate, hosts=here)]) as zoning:
            await cloud.aggregates.add_hosts(aggregate.id, here, now, zoning)


async def _default_zone(cloud: Cloud) -> Zone:
    """Return the zone of hosts without an aggregate's zone. Raises: Invalid: its name is another zone's."""
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
