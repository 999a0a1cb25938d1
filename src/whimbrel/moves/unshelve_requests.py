"""Requests to unshelve a server."""

from msgspec import Struct
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, Refused, WrongState
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.moves import needs, quota_checks
from whimbrel.moves.facts import Home, MoveFacts
from whimbrel.moves.opening import new_action, new_run
from whimbrel.moves.unshelve import UNSHELVE
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.placement.placement import Owner
from whimbrel.ports.stores.directory import Usage
from whimbrel.saga.engine import Engine


class Destination(Struct, frozen=True, kw_only=True):
    """Where a server is to be unshelved. None: as it is pinned, or chosen by the scheduler."""

    zone: str | None = None  # id; becomes its pin when it has arrived
    unpins: bool = False  # whether it loses its pin when it has arrived
    host: HostName | None = None
    leaves_cell: bool = False


async def unshelve(cloud: Cloud, engine: Engine, requester: Requester, server: Server, wanted: Destination) -> None:
    """Begin to build a server that is on no host from its images.

    Raises: Invalid: its flavor or its image has an invalid request, or the host is in a cell where it may not go;
    WrongState; Conflict: its volumes are in another zone, or it is busy; OverQuota; Unavailable.
    """
    facts = facts_of(server, wanted)
    needs.check(facts, cloud)
    await quota_checks.check_resources([facts], cloud)
    if cloud.rules.quota.count_usage_from_placement:  # otherwise it has counted all the time
        added = Usage(cores=server.flavor.vcpus, ram_mib=server.flavor.memory_mib)
        await quota_checks.check_usage(cloud, server.project_id, added)
    if wanted.zone is not None:
        await _check_volumes(cloud, server, facts)
    if wanted.host is not None and not wanted.leaves_cell:
        await _check_cell(cloud, server, wanted.host)
    run = new_run(cloud, engine, requester, server, UNSHELVE, facts)
    run = await engine.accept(run, new_action(cloud, requester, server, "unshelve", run.id))
    await engine.begin(run)


def facts_of(server: Server, wanted: Destination) -> MoveFacts:
    """Raises: WrongState: it is on a host."""
    if server.vm_state != "shelved_offloaded" or server.cell is None:
        raise WrongState(f"Cannot 'unshelve' instance {server.id} while it is in vm_state {server.vm_state}")
    return MoveFacts(
        owner=Owner(server.project_id, server.user_id),
        name=server.name,
        image_id=server.image_id,
        new_flavor=server.flavor,
        home=Home(cell=server.cell, host=server.shelved_host, zone=server.zone),
        shelved_images=server.shelved_images,
        shelved_variables=server.shelved_variables,
        zone_pin=server.spec.zone_pin,
        asked_zone=wanted.zone,
        leaves_zone=wanted.unpins,
        wanted_host=wanted.host,
        leaves_cell=wanted.leaves_cell,
        user_data=server.user_data,
        has_local_root=server.has_local_root,
        image_properties=server.image_properties,
        heeds_hardware=server.heeds_hardware,
        root_bus=server.root_bus,
        hints=server.spec.hints,
        config_drive=server.config_drive,
    )


async def _check_volumes(cloud: Cloud, server: Server, facts: MoveFacts) -> None:
    """Raises: Conflict: the requested zone is not that of the volumes, as far as they must be in one zone."""
    try:
        await needs.zone_request(replace(facts, volumes=server.volumes), cloud)
    except Refused as no:
        raise Conflict(no.reason) from None


async def _check_cell(cloud: Cloud, server: Server, host: HostName) -> None:
    """Raises: Invalid: the host is in another cell than the server."""
    fleet = await cloud.fleets.now()
    if host in fleet.row and fleet.hosts[fleet.row[host]].cell != server.cell:
        raise Invalid(
            f"Compute host {host} is in another cell: servers go there only if the policy rule"
            " compute:servers:resize:cross_cell allows it."
        )
