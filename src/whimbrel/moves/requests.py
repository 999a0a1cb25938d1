"""Requests for moves by users and operators. Each returns when the request is saved, not when the move is done."""

from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, NotFound, Refused, Superseded, WrongState
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, HostName, RunId, Slot
from whimbrel.domain.run import Run, Verdict, has_facts
from whimbrel.domain.server import Server
from whimbrel.moves import needs, quota_checks
from whimbrel.moves.facts import Location, MoveFacts, ZoneRequest
from whimbrel.moves.loose_volumes import loose_volume
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.moves.opening import new_action, new_run
from whimbrel.moves.resize import MIGRATE, RESIZE
from whimbrel.moves.steps import quota_usage, record
from whimbrel.moves.steps.target import decide
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.placement.placement import Owner
from whimbrel.ports.stores.catalog import zone_of
from whimbrel.ports.stores.directory import Usage
from whimbrel.ports.stores.journal import ItemStart, QuotaUsage
from whimbrel.ports.stores.zones import name_of
from whimbrel.saga.engine import Engine
from whimbrel.scheduling.decision import DecisionTrace

MOVABLE = ("active", "stopped")

_SAGAS = {saga.name: saga for saga in (RESIZE, MIGRATE)}
_STATUS = {"confirm": "confirming", "revert": "reverting"}
_HEARD_AT = tuple(name for do in (record.switch_home, record.await_verdict) for name in RESIZE.step(do.__name__).names)
"""Steps at which a verdict is accepted: the server may show VERIFY_RESIZE before its move has parked."""

_ACTION = {"confirm": "confirmResize", "revert": "revertResize"}


class Wanted(Struct, frozen=True, kw_only=True):
    """The requested location and flavor of a server. None: unchanged, or chosen by the scheduler."""

    flavor: Flavor | None = None
    zone: str | None = None  # id
    host: HostName | None = None
    leaves_zone: bool = False  # whether it may leave the zone that binds it
    leaves_cell: bool = False


async def resize(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, flavor: Flavor, *, leaves_cell: bool = False
) -> Run:
    """leaves_cell: whether it may go to another cell.

    Raises: Invalid: the same flavor; OverQuota; WrongState; Conflict; Unavailable.
    """
    facts = await resize_facts(cloud, server, flavor, leaves_cell=leaves_cell)
    return await _accept(cloud, engine, requester, server, "resize", facts)


async def migrate(
    cloud: Cloud,
    engine: Engine,
    requester: Requester,
    server: Server,
    host: HostName | None,
    *,
    leaves_cell: bool = False,
    item: ItemStart | None = None,
) -> Run:
    """leaves_cell: whether it may go to another cell. item: of the maintenance that moves it.

    Raises: Invalid: no such host, or the server is on it or may not go there; WrongState; Conflict; Unavailable.
    """
    facts = await migrate_facts(cloud, server, host, leaves_cell=leaves_cell)
    return await _accept(cloud, engine, requester, server, "migrate", facts, item)


async def move(cloud: Cloud, engine: Engine, requester: Requester, server: Server, wanted: Wanted) -> Run:
    """Begin a resize if the requested flavor differs, else a migration.

    Raises: Invalid: the zone or the host is impossible; OverQuota; WrongState; Conflict; Unavailable.
    """
    facts = await wanted_facts(cloud, server, wanted)
    saga = "migrate" if facts.new_flavor == facts.old_flavor else "resize"
    return await _accept(cloud, engine, requester, server, saga, facts)


async def confirm(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, locked_by: RunId | None = None
) -> None:
    """locked_by: the run that locks the record, if the caller has read that: a parked move is then driven here.

    Raises: Invalid: the server was not resized; WrongState; Conflict: it is being reverted; Unavailable.
    """
    await _judge(cloud, engine, requester, server, locked_by, "confirm")


async def revert(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, locked_by: RunId | None = None
) -> None:
    """locked_by: as for `confirm`.

    Raises: Invalid: the server was not resized; WrongState; Conflict: it is being confirmed; Unavailable.
    """
    await _judge(cloud, engine, requester, server, locked_by, "revert")


async def awaits_verdict(cloud: Cloud, server: Server) -> bool:
    """Check whether a move of this server waits for its verdict, whatever the record shows."""
    run = await cloud.journal.open_run(server.id)
    return run is not None and run.saga in MOVE_SAGAS and run.state == "parked"


async def retry(cloud: Cloud, engine: Engine, run_id: RunId) -> Run:
    """Retry an open move now. Raises: NotFound; Conflict: it has ended or waits for a verdict."""
    run = await cloud.journal.get(run_id)
    if run.state != "open":
        raise Conflict(f"move {run_id} is {run.state}: there is nothing to retry")
    return _wake_conductor(engine, await cloud.journal.retry(run_id, cloud.clock.now()))


async def turn_back(cloud: Cloud, engine: Engine, run_id: RunId) -> Run:
    """Roll back an open move. Raises: NotFound; Conflict: it has ended, is confirmed, or is rolling back already."""
    run = await cloud.journal.get(run_id)
    if run.is_over:
        raise Conflict(f"move {run_id} is {run.state}: there is nothing to turn back")
    if run.way == "back":
        raise Conflict(f"move {run_id} is on its way back already")
    if run.is_foreign:
        raise Conflict(f"move {run_id} is of a newer release: only a process of that one knows its steps")
    if not engine.registry.of(run).may_turn_back(run.at) or run.verdict == "confirm":
        raise Conflict(f"move {run_id} stands at {run.at}, past the point of no return: it can only go on")
    return _wake_conductor(engine, await cloud.journal.turn_back(run, cloud.clock.now()))


async def plan(cloud: Cloud, server: Server, facts: MoveFacts) -> DecisionTrace | str:
    """Return the decision trace of a move with these facts, or an error message if it ends before hosts are chosen.

    Raises: OverQuota; Unavailable.
    """
    await _check_quota(cloud, server, facts)
    try:
        asked = await needs.of_server(facts, server.id, cloud)
        return (await decide(asked, cloud, cloud.rules.max_attempts)).record
    except (Refused, NotFound) as no:
        return no.reason


# Initial facts, for moves and plans


async def facts_of(cloud: Cloud, server: Server) -> MoveFacts:
    """Return the facts with which any move of a server on a host begins."""
    if server.host is None or server.cell is None or server.slot is None:
        raise WrongState(f"Instance {server.id} has no host yet.")
    host = await _host_at(cloud, server.cell, server.host)
    if not host.is_up(cloud.clock.now()):
        raise Conflict(f"Service of host {server.host} is unavailable: the server cannot be moved from it now.")
    await _check_agent(cloud, server, host)
    return facts_at(cloud, server, host)


def facts_at(cloud: Cloud, server: Server, host: Host) -> MoveFacts:
    """Return the initial facts of a move of a server on this host, whatever the state of the host."""
    assert server.cell, "a placed server has a cell"
    assert server.slot, "a placed server has a guest"
    return MoveFacts(
        owner=Owner(server.project_id, server.user_id),
        name=server.name,
        image_id=server.image_id,
        new_flavor=server.flavor,
        old_flavor=server.flavor,
        source=Location(
            cell=server.cell,
            host=host.name,
            provider=host.id,
            zone=server.zone or cloud.rules.default_availability_zone,
            slot=Slot(server.slot),
        ),
        was=server.vm_state,
        launched_at=server.launched_at,
        zone_pin=server.spec.zone_pin,
        user_data=server.user_data,
        has_local_root=server.has_local_root,
        image_properties=server.image_properties,
        heeds_hardware=server.heeds_hardware,
        root_bus=server.root_bus,
        hints=server.spec.hints,
        config_drive=server.config_drive,
    )


async def resize_facts(cloud: Cloud, server: Server, flavor: Flavor, *, leaves_cell: bool = False) -> MoveFacts:
    """Raises: Invalid: the same flavor, or an invalid one; WrongState; Conflict; Unavailable."""
    _check_state(server, "resize")
    if flavor.flavor_id == server.flavor.flavor_id:
        raise Invalid("When resizing, instances must change flavor!")
    same_host = await _may_stay(cloud, server)
    facts = replace(await facts_of(cloud, server), new_flavor=flavor, same_host=same_host, leaves_cell=leaves_cell)
    needs.check(facts, cloud)
    return facts


async def migrate_facts(cloud: Cloud, server: Server, host: HostName | None, *, leaves_cell: bool = False) -> MoveFacts:
    """Raises: Invalid: no such host, or the server is on it or may not go there; WrongState; Conflict; Unavailable."""
    _check_state(server, "migrate")
    facts = replace(await facts_of(cloud, server), wanted_host=host, leaves_cell=leaves_cell)
    if host is not None:
        await check_target(cloud, server, facts, host)
    return facts


async def wanted_facts(cloud: Cloud, server: Server, wanted: Wanted) -> MoveFacts:
    """Raises: Invalid: the zone or the host is impossible; WrongState; Conflict; Unavailable."""
    _check_state(server, "move")
    facts = replace(
        await facts_of(cloud, server),
        asked_zone=wanted.zone,
        wanted_host=wanted.host,
        leaves_zone=wanted.leaves_zone,
        leaves_cell=wanted.leaves_cell,
    )
    if wanted.flavor is not None and wanted.flavor.flavor_id != server.flavor.flavor_id:
        facts = replace(facts, new_flavor=wanted.flavor, same_host=await _may_stay(cloud, server))
    if wanted.host is None:
        await check_zone(cloud, server, facts)
    else:
        await check_target(cloud, server, facts, wanted.host)
    return facts


# Inside


async def _may_stay(cloud: Cloud, server: Server) -> bool:
    """Check whether a resize may leave the server on its host: only a move to another one connects loose volumes."""
    return cloud.rules.allow_resize_to_same_host and await loose_volume(cloud, server) is None


def _wake_conductor(engine: Engine, run: Run) -> Run:
    """Wake the conductor of this process. The run has no owner: any conductor takes it at its next poll."""
    engine.wake_conductor()
    return run


async def _host_at(cloud: Cloud, cell: CellName, name: HostName) -> Host:
    """Return a host's row, without a read if this process has just read the fleet. Raises: NotFound; Unavailable."""
    fleet = cloud.fleets.known()
    known = fleet.hosts[fleet.row[name]] if fleet and name in fleet.row else None
    return known if known and known.cell == cell else await cloud.cell(cell).hosts.get(name)


async def _check_agent(cloud: Cloud, server: Server, host: Host) -> None:
    """Raises: Conflict: the agent of the host is too old to move the server."""
    if not host.session or not server.nics:
        return
    if release := await needs.too_old(host, await cloud.network.ports_of([server.id]), cloud):
        raise Conflict(
            "Moving a server with ports having resource requests, like a port with a QoS minimum bandwidth policy, is"
            f" not yet supported on the source compute: the agent of host {host.name} is of release {release}."
        )


def _check_state(server: Server, action: str) -> None:
    if server.vm_state not in MOVABLE:
        raise WrongState(f"Cannot '{action}' instance {server.id} while it is in vm_state {server.vm_state}")


async def check_target(cloud: Cloud, server: Server, facts: MoveFacts, host: HostName) -> None:
    """Raises: Invalid: no such host, or the server is on it or may not go there."""
    if host == server.host:
        raise Invalid("Cannot migrate to the host where the server exists.")
    await _check_cell(cloud, server, facts, host)
    requested, default = await check_zone(cloud, server, facts), cloud.rules.default_availability_zone
    is_in = zone_of(host, await cloud.aggregates.all()) or default
    if requested.zone not in (None, is_in):
        name = await name_of(cloud.zones, is_in)
        raise Invalid(f"Compute host {host} is in zone {name}, where the server cannot go: {requested.because}.")


async def _check_cell(cloud: Cloud, server: Server, facts: MoveFacts, host: HostName) -> None:
    assert server.cell, "a placed server has a cell"
    try:
        await cloud.cell(server.cell).hosts.get(host)
    except NotFound:
        fleet = await cloud.fleets.now()
        if host not in fleet.row:
            raise Invalid(f"Compute host {host} could not be found.") from None
        if not facts.leaves_cell:
            raise Invalid(
                f"Compute host {host} is in another cell: servers go there one by one, and only if the policy rule"
                " compute:servers:resize:cross_cell allows it."
            ) from None


async def check_zone(cloud: Cloud, server: Server, facts: MoveFacts) -> ZoneRequest:
    """Return the zone of the target, as the choice will, but here the requester gets the error. Raises: Invalid."""
    try:
        return await needs.zone_request(replace(facts, volumes=server.volumes), cloud)
    except Refused as error:
        raise Invalid(error.reason) from None


async def _accept(
    cloud: Cloud,
    engine: Engine,
    requester: Requester,
    server: Server,
    saga: str,
    facts: MoveFacts,
    item: ItemStart | None = None,
) -> Run:
    run = new_run(cloud, engine, requester, server, _SAGAS[saga], facts)
    before = QuotaUsage(vcpus=server.flavor.vcpus, memory_mib=server.flavor.memory_mib)
    larger = quota_usage.larger(server.flavor, facts.new_flavor)
    limits = await quota_checks.limits_of_directory(cloud, server.project_id) if larger != before else None
    if facts.new_flavor != server.flavor:
        await quota_checks.check_resources([facts], cloud)
        if cloud.rules.quota.count_usage_from_placement:
            await _check_increase(cloud, server, facts)
    action = new_action(cloud, requester, server, saga, run.id)
    run = await engine.accept(run, action, larger, limits, before=before, item=item)
    await engine.begin(run, before)
    return run


async def _check_quota(cloud: Cloud, server: Server, facts: MoveFacts) -> None:
    """Raises: OverQuota: the request would be refused. The request itself checks again, in one transaction."""
    if facts.new_flavor != server.flavor:
        await quota_checks.check_resources([facts], cloud)
        await _check_increase(cloud, server, facts)


async def _check_increase(cloud: Cloud, server: Server, facts: MoveFacts) -> None:
    """Raises: OverQuota. Unified limits on what Placement counts need room for both claims, as in Nova."""
    new, old = facts.new_flavor, server.flavor
    cores, ram_mib = max(new.vcpus - old.vcpus, 0), max(new.memory_mib - old.memory_mib, 0)
    if cloud.rules.quota.count_usage_from_placement and not cloud.quotas.are_settable:
        cores, ram_mib = new.vcpus, new.memory_mib
    if cores or ram_mib:
        await quota_checks.check_usage(cloud, server.project_id, Usage(cores=cores, ram_mib=ram_mib))


async def _judge(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, locked_by: RunId | None, verdict: Verdict
) -> None:
    run = await _wake(cloud, engine, requester, server, locked_by, verdict) if locked_by else None
    run = run or await _give_verdict(cloud, engine, requester, server, verdict)
    if verdict == "revert" and has_facts(run, MoveFacts):
        # The conductor shows it too; done here, the user's next request already sees it.
        with suppress(Superseded):
            await record.show_reverting(run, cloud)


async def _wake(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, locked_by: RunId, verdict: Verdict
) -> Run | None:
    """Wake a parked move that holds the lock, to be driven here. None: it is left to a conductor."""
    action = new_action(cloud, requester, server, _ACTION[verdict], locked_by)
    return await engine.judge(locked_by, verdict, _STATUS[verdict], action)


async def _give_verdict(cloud: Cloud, engine: Engine, requester: Requester, server: Server, verdict: Verdict) -> Run:
    """Save the verdict for any conductor, which finds out whether the move still holds the lock."""
    run = await cloud.journal.open_run(server.id)
    arrived = run is not None and (run.state == "parked" or run.verdict or server.vm_state == "resized")
    if run is None or run.saga not in MOVE_SAGAS or not arrived:
        raise Invalid("Instance has not been resized.")
    action = new_action(cloud, requester, server, _ACTION[verdict], run.id)
    run = await cloud.journal.give_verdict(run.id, verdict, _STATUS[verdict], action, cloud.clock.now(), _HEARD_AT)
    engine.wake_conductor()
    return run
