"""Requests of operators: plan, start, pause, resume and abort a maintenance. Each returns when it is saved."""

from collections.abc import Callable, Sequence

import structlog
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, NotFound, Refused, Superseded, WorldError
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.maintenance_plan import (
    AFTER_OTHERS,
    HOLDING,
    NEXT,
    HostInMaintenance,
    Maintenance,
    MaintenanceItem,
    MaintenanceOptions,
    MaintenanceState,
)
from whimbrel.hosts.switching import set_trait, switch
from whimbrel.maintenance import goal_planning, intermediate_moves
from whimbrel.ports.cloud import Cloud, Requester

log = structlog.get_logger(__name__)

_TRIES = 5


async def plan(
    cloud: Cloud, requester: Requester, name: str, target: str, hosts: Sequence[Host], options: MaintenanceOptions
) -> Maintenance:
    """Plan a maintenance and save it. target: what the hosts are, in words.

    Raises: Invalid: no hosts, or a window; Unavailable: a cell of the hosts does not answer.
    """
    if not hosts:
        raise Invalid(f"There are no hosts: {target}.")
    options.windows.check()
    disabled = [HostInMaintenance(name=host.name, cell=host.cell) for host in hosts]
    if options.goal:
        items, goal = await goal_planning.plan(cloud, hosts, options.goal, options)
        options, disabled = replace(options, goal=goal), []
    else:
        items = await intermediate_moves.plan(cloud, hosts, options)
    now = cloud.clock.now()
    made = Maintenance(
        id=cloud.ids.uuid(),
        name=name,
        target=target,
        hosts=tuple(disabled),
        options=options,
        user_id=requester.user_id,
        project_id=requester.project_id,
        created_at=now,
        updated_at=now,
    )
    await cloud.maintenances.add(made, items)
    return made


async def start(cloud: Cloud, maintenance_id: str) -> Maintenance:
    """Start a planned maintenance. Hosts that it empties as a whole take no new servers from now on.

    Raises: NotFound; Conflict: it was started before, or a host is in another maintenance; Unavailable.
    """
    found = await cloud.maintenances.get(maintenance_id)
    if found.state != "planned":
        raise Conflict(f"Maintenance {found.name} is {found.state}: only a planned one is started.")
    await _check_free(cloud, found)
    hosts = [await _before(cloud, host) for host in found.hosts]
    now = cloud.clock.now()
    changes = {"state": "running", "hosts": tuple(hosts), "started_at": now, "updated_at": now}
    try:
        started = await cloud.maintenances.save(replace(found, **changes), takes_hosts=True)
    except Conflict:
        await _check_free(cloud, found)  # one that has started meanwhile is named
        raise
    try:
        return await disable_hosts(cloud, started)
    except WorldError as trouble:
        log.warning("a conductor disables the hosts of a maintenance", id=started.id, reason=trouble.reason)
        return started


async def pause(cloud: Cloud, maintenance_id: str, message: str | None = None) -> Maintenance:
    """Start no more moves; those under way go on. Raises: NotFound; Conflict: it does not run."""
    return await _change(cloud, maintenance_id, "paused", lambda found: replace(found, message=message))


async def resume(cloud: Cloud, maintenance_id: str, *, retries_failed: bool = False) -> Maintenance:
    """Go on with a paused maintenance. Moves that failed before do not count any more.

    retries_failed: the servers whose moves failed, and those that stay, are planned anew.
    Raises: NotFound; Conflict: it is not paused.
    """
    found = await cloud.maintenances.get(maintenance_id)
    if found.state != "paused":
        raise Conflict(f"Maintenance {found.name} is {found.state}: only a paused one is resumed.")
    items = await cloud.maintenances.items(maintenance_id)
    again = [_again(item) for item in items if retries_failed and item.state in ("failed", "stays")]
    failed = 0 if retries_failed else sum(item.state == "failed" for item in items)
    changes = {"state": "running", "message": None, "failed_before": failed, "updated_at": cloud.clock.now()}
    return await cloud.maintenances.save(replace(found, **changes), again)


async def abort(cloud: Cloud, maintenance_id: str) -> Maintenance:
    """Start no more moves and return the hosts to their former state; moves under way go on to their end.

    Raises: NotFound; Conflict: it is over.
    """
    found = await cloud.maintenances.get(maintenance_id)
    if found.state == "aborting":
        return found
    state: MaintenanceState = "aborted" if found.state == "planned" else "aborting"
    aborted = await _change(cloud, maintenance_id, state, lambda now: replace(now, message=None))
    try:
        await return_hosts(cloud, aborted)
    except WorldError as trouble:
        log.warning("a conductor returns the hosts of a maintenance", id=aborted.id, reason=trouble.reason)
    return aborted


# Hosts


async def disable_hosts(cloud: Cloud, maintenance: Maintenance) -> Maintenance:
    """Disable the hosts once, and note it: no claim is made there afterwards. Repeatable.

    Raises: Unavailable; Superseded: it was changed meanwhile.
    """
    for host in maintenance.hosts:
        if (found := await _host(cloud, host)) is None:
            continue
        if found.disabled_reason != maintenance.disabled_reason:
            await switch(cloud, found, enabled=False, reason=maintenance.disabled_reason)
        await set_trait(cloud, found, disabled=True)  # `switch` only logs that it could not
    return await cloud.maintenances.save(replace(maintenance, has_disabled=True))


async def return_hosts(cloud: Cloud, maintenance: Maintenance) -> None:
    """Return the hosts to the state before the start, but those that an operator has switched since. Repeatable.

    Raises: Unavailable.
    """
    for host in maintenance.hosts:
        found = await _host(cloud, host)
        if found is None or host.was_enabled is None:
            continue
        if found.disabled_reason == maintenance.disabled_reason:
            await set_trait(cloud, found, disabled=not host.was_enabled)  # before the reason that shows it as due
            await switch(cloud, found, enabled=host.was_enabled, reason=host.was_reason)
        elif found.enabled:
            await set_trait(cloud, found, disabled=False)  # a round that was slow may have set it afterwards


async def _before(cloud: Cloud, host: HostInMaintenance) -> HostInMaintenance:
    found = await _host(cloud, host)
    return replace(host, was_enabled=found.enabled, was_reason=found.disabled_reason) if found else host


async def _host(cloud: Cloud, host: HostInMaintenance) -> Host | None:
    try:
        return await cloud.cell(host.cell).hosts.get(host.name)
    except NotFound:
        return None


async def _check_free(cloud: Cloud, maintenance: Maintenance) -> None:
    """Raises: Conflict: another maintenance has one of its hosts, and which. `save` refuses what starts meanwhile."""
    for other in await cloud.maintenances.find(HOLDING):
        if common := sorted(other.named.keys() & maintenance.named.keys()):
            which = f"Maintenance {other.name} ({other.id}) is {other.state}"
            raise Conflict(f"{which}, and has {', '.join(common)} as well.")


# Targets


async def hosts_named(cloud: Cloud, names: Sequence[str]) -> list[Host]:
    """Raises: Invalid: no such host."""
    fleet = await cloud.fleets.now()
    if unknown := sorted({name for name in names if name not in fleet.row}):
        there = "whimbrel host list shows those that there are"
        raise Invalid(f"There is no host {', '.join(unknown)}, or its cell does not answer: {there}.")
    return [fleet.hosts[fleet.row[HostName(name)]] for name in dict.fromkeys(names)]


async def hosts_of_zone(cloud: Cloud, zone: str) -> list[Host]:
    """zone: id. Raises: Refused: a cell does not answer, and may have hosts of the zone."""
    fleet = await cloud.fleets.now()
    _check_all_known(fleet.unreachable)
    return [host for host, of_host in zip(fleet.hosts, fleet.zones, strict=True) if of_host == zone]


async def hosts_of_aggregate(cloud: Cloud, aggregate: str) -> list[Host]:
    """aggregate: id, uuid or name. Raises: Invalid: there is none; Refused: as `hosts_of_zone`."""
    fleet = await cloud.fleets.now()
    _check_all_known(fleet.unreachable)
    found = [each for each in await cloud.aggregates.all() if aggregate in (str(each.id), each.uuid, each.name)]
    if not found:
        raise Invalid(f"There is no aggregate {aggregate}.")
    names = {name for each in found for name in each.hosts}
    return [host for host in fleet.hosts if host.name in names]


async def hosts_of_cell(cloud: Cloud, cell: str) -> list[Host]:
    """Raises: Invalid: there is none; Refused: it does not answer."""
    fleet = await cloud.fleets.now()
    if cell not in fleet.cells:
        raise Invalid(f"There is no cell {cell}.")
    _check_all_known(fleet.unreachable & {CellName(cell)})
    return [host for host in fleet.hosts if host.cell == cell]


def _check_all_known(unreachable: frozenset[CellName]) -> None:
    if unreachable:
        raise Refused(f"Cells do not answer ({', '.join(sorted(unreachable))}): their hosts are not known now.")


# Inside


def _again(item: MaintenanceItem) -> MaintenanceItem:
    """Return an item to be planned anew."""
    due_at = AFTER_OTHERS if item.waits_for else 0.0
    return replace(
        item, state="planned", target=None, run_id=None, tries=0, due_at=due_at, started_at=None, finished_at=None
    )


async def _change(
    cloud: Cloud, maintenance_id: str, state: MaintenanceState, change: Callable[[Maintenance], Maintenance]
) -> Maintenance:
    """Save another state. It is tried again while conductors save their progress."""
    for _ in range(_TRIES - 1):
        try:
            return await _change_once(cloud, maintenance_id, state, change)
        except Superseded:
            continue
    return await _change_once(cloud, maintenance_id, state, change)


async def _change_once(
    cloud: Cloud, maintenance_id: str, state: MaintenanceState, change: Callable[[Maintenance], Maintenance]
) -> Maintenance:
    found = change(await cloud.maintenances.get(maintenance_id))
    if state not in NEXT[found.state]:
        raise Conflict(f"Maintenance {found.name} is {found.state}: it cannot be {state.replace('ing', 'ed')}.")
    now = cloud.clock.now()
    finished_at = now if state == "aborted" else None
    return await cloud.maintenances.save(replace(found, state=state, updated_at=now, finished_at=finished_at))
