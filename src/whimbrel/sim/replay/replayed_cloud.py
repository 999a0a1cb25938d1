"""The cloud of a replay: hosts and cells, the server, its ports and volumes.

Invariant: they are those of the move, without the requests of flavors and ports to hosts: these were decided then.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace as with_

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.host import Zone
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import RequestedNic, RequestedVolume
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.journal_export import Export, locations_of
from whimbrel.ports.cloud import Rules
from whimbrel.ports.services.network import Port
from whimbrel.ports.services.volumes import Volume
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create, pausing, power
from whimbrel.sim.cloud.cloud import IMAGE, PROJECT, World
from whimbrel.sim.world import equipment

STAND_IN = "another-host"
"""A host of the requested zone, if the move names none: it was refused for lack of room."""


async def set_scene(export: Export) -> tuple[World, Server]:
    """Return a cloud in which the move can begin, and its server."""
    facts, hosts = export.facts, _hosts(export)
    assert facts.source
    assert facts.old_flavor
    rules = Rules(
        allow_resize_to_same_host=facts.same_host,
        max_attempts=len(hosts) + 1,
        cpu_allocation_ratio=100.0,
        step_timeout_s=60.0,
    )
    cells: dict[str, list[str]] = {}
    for name, cell in hosts.items():
        cells.setdefault(cell, []).append(name)
    size = max(facts.old_flavor.memory_mib, facts.new_flavor.memory_mib) * 8
    disk = max(facts.old_flavor.root_gib, facts.new_flavor.root_gib, 1) * 8
    world = await World.build(
        cells={cell: tuple(names) for cell, names in cells.items()},
        rules=rules,
        vcpus=64,
        memory_mib=size,
        disk_gib=disk,
        equipped=True,
    )
    for cell in world.cloud.cells:  # live guests may be transferred between all of them
        await world.cloud.cell_infos.ensure(CellInfo(name=cell, migration_network="m", created_at=0.0))
    if facts.asked_zone is not None:
        await _add_zones(world, _zones(facts, hosts))
    _add_devices(world, facts)
    return world, await _create_server(world, facts)


def _hosts(export: Export) -> dict[str, str]:
    """Return all hosts of the move, each with its cell."""
    known = {str(host.name): str(host.cell) for host in export.hosts}
    known |= {str(place.host): str(place.cell) for place in locations_of(export.facts)}
    source = export.facts.source
    assert source
    known |= {str(name): known.get(str(name), str(source.cell)) for name in export.facts.tried}
    if export.facts.asked_zone not in (None, *(place.zone for place in locations_of(export.facts))):
        known |= {STAND_IN: str(source.cell)}
    return known


def _zones(facts: MoveFacts, hosts: Iterable[str]) -> dict[str, str]:
    """Return the zone of each host: of those that were tried only it is known that they are in the requested one."""
    known = {str(place.host): place.zone for place in locations_of(facts)}
    assert facts.asked_zone
    return {name: known.get(name, facts.asked_zone) for name in hosts}


async def _add_zones(world: World, zones: Mapping[str, str]) -> None:
    """Put the hosts into their zones, by aggregates, but those of the default zone. zones: host -> id of its zone."""
    cloud, now = world.cloud, world.cloud.clock.now()
    for zone in sorted({*zones.values()} - {cloud.rules.default_availability_zone}):
        await cloud.zones.ensure(Zone(id=zone, name=f"zone {zone}", created_at=now))
        aggregate = await cloud.aggregates.create(zone, cloud.ids.uuid(), {"availability_zone": zone}, now)
        for host in sorted(name for name, own in zones.items() if own == zone):
            await cloud.aggregates.add_host(aggregate.id, HostName(host), now)


def _add_devices(world: World, facts: MoveFacts) -> None:
    for port in facts.ports:
        world.remains.network.add_port(
            Port(id=port.nic.port_id, network_id=equipment.NETWORK, project_id=PROJECT, mac=port.nic.mac)
        )
    for volume in facts.volumes:
        made = Volume(id=volume.volume_id, project_id=PROJECT, name="", status="available", size_gib=1, zone="nova")
        world.remains.volumes.add_volume(with_(made, is_bootable=volume.boot_index == 0))


async def _create_server(world: World, facts: MoveFacts) -> Server:
    assert facts.source
    assert facts.old_flavor
    made = with_(
        world.new_server(facts.name, plain(facts.old_flavor)),
        requested_nics=tuple(
            RequestedNic(port_id=port.nic.port_id, network_id=equipment.NETWORK) for port in facts.ports
        ),
        requested_volumes=tuple(
            RequestedVolume(volume_id=volume.volume_id, boot_index=volume.boot_index, device=volume.device)
            for volume in facts.volumes
        ),
        image_id=IMAGE if facts.image_id else None,
    )
    engine = world.engine("scene")
    await create.accept(world.cloud, engine, world.requester(), [made], facts.source.host)
    await world.settle(engine)
    if order := {"stopped": power.stop, "paused": pausing.pause}.get(facts.was):
        await order(world.cloud, engine, world.requester(), await lookup.find(world.cloud, made.id))
        await world.settle(engine)
    return await lookup.find(world.cloud, made.id)


def plain(flavor: Flavor) -> Flavor:
    """Return the flavor without its requests to hosts: these were decided then."""
    name = f"{flavor.name} {flavor.vcpus}x{flavor.memory_mib}x{flavor.root_gib}"
    return with_(flavor, extra_specs={}, flavor_id=f"replayed-{flavor.flavor_id}", name=name)
