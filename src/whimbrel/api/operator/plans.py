"""Plans of moves of a server or a server group: the host that would be chosen, and why. Nothing is moved.

This is Whimbrel's own part of the API: /v2.1/whimbrel/plans.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from whimbrel.api.http.call import Call
from whimbrel.api.operator import decisions
from whimbrel.api.policy_target import find_server
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.servers import action_states, flavor_and_image
from whimbrel.api.servers.action_states import may_leave_cell
from whimbrel.api.views import locations
from whimbrel.api.views.decisions import Decision
from whimbrel.api.views.plans import Plan, PlanAnswer, PlannedServer
from whimbrel.domain.errors import Invalid
from whimbrel.domain.ids import GroupId, ServerId
from whimbrel.moves import live_requests, requests
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.requests import Wanted
from whimbrel.scheduling.decision import DecisionTrace
from whimbrel.servers.groups import group_moves
from whimbrel.servers.groups.co_location import Member
from whimbrel.servers.groups.group_moves import Planned

HOSTS = "whimbrel:plans:create:hosts"


async def server_in_body(call: Call) -> Mapping[str, str]:
    """Return the target of a plan's server; for a server group, the requester's own project."""
    requested = call.body["plan"]
    if ("server" in requested) == ("server_group" in requested):
        raise Invalid("A plan is for a 'server' or for a 'server_group'.")
    return await find_server(call, ServerId(requested["server"])) if "server" in requested else call.own


async def create(call: Call) -> PlanAnswer:
    """Return the host that a resize or a migration would choose now, and why not the others. Changes nothing."""
    if "server_group" in call.body["plan"]:
        return PlanAnswer(await _of_group(call, call.body["plan"]))
    requested: dict[str, Any] = call.body["plan"]
    target = {"project_id": call.server.project_id, "user_id": call.server.user_id}
    live = truth(requested.get("live", False))
    facts = await _facts(call, requested, target, live=live)
    made = await (live_requests.plan_live if live else requests.plan)(call.cloud, call.server, facts)
    decision = await _decision(call, made, hosts=call.may(HOSTS, target))
    return PlanAnswer(
        Plan(
            **asdict(decision),
            action=requested["action"],
            live=live,
            server_id=call.server.id,
            flavor=facts.new_flavor.name,
            source=call.server.host if call.may(HOSTS, target) else None,
        )
    )


async def _decision(call: Call, made: DecisionTrace | str, *, hosts: bool) -> Decision:
    """made: the decision, or why there is none."""
    if isinstance(made, DecisionTrace):
        return await decisions.shown(made, call.cloud.zones, hosts=hosts)
    return decisions.refused(made, call.cloud.clock.now())


async def _facts(call: Call, requested: Mapping[str, Any], target: Mapping[str, str], *, live: bool) -> MoveFacts:
    """Return the facts of the move. Raises: as the move does."""
    if requested["action"] == "resize":
        if live:
            raise Invalid("A resize stops the server: 'live' is for plans of a migration.")
        return await _resize(call, requested, target)
    return await (_migrate_live if live else _migrate)(call, requested, target)


async def _resize(call: Call, requested: Mapping[str, Any], target: Mapping[str, str]) -> MoveFacts:
    """Return the facts of the resize. Raises: as the resize does."""
    call.check("os_compute_api:servers:resize", target)
    if requested.get("flavor") is None:
        raise Invalid("A plan of a resize needs 'flavor'.")
    if requested.get("host") is not None or requested.get("availability_zone") is not None:
        raise Invalid("A resize chooses its host itself: 'host' and 'availability_zone' are for plans of a migration.")
    action_states.check_lock(call)
    action_states.check(call.server, "resize", action_states.LIVING)
    flavor = await flavor_and_image.flavor(call, requested["flavor"])
    if call.server.has_local_root:
        flavor_and_image.check_growth(call.server.flavor, flavor)
    return await requests.resize_facts(call.cloud, call.server, flavor, leaves_cell=may_leave_cell(call))


async def _migrate(call: Call, requested: Mapping[str, Any], target: Mapping[str, str]) -> MoveFacts:
    """Return the facts of the migration. Raises: as the migration does."""
    _check_migration(call, requested, target, "os_compute_api:os-migrate-server:migrate", "A migration")
    action_states.check(call.server, "migrate", action_states.LIVING)
    host, leaves_cell = requested.get("host"), may_leave_cell(call)
    if (zone := await _zone_id(call, requested)) is None:
        return await requests.migrate_facts(call.cloud, call.server, host, leaves_cell=leaves_cell)
    wanted = Wanted(zone=zone, host=host, leaves_cell=leaves_cell)
    return await requests.wanted_facts(call.cloud, call.server, wanted)


async def _migrate_live(call: Call, requested: Mapping[str, Any], target: Mapping[str, str]) -> MoveFacts:
    """Return the facts of the live migration. Raises: as it does."""
    _check_migration(call, requested, target, "os_compute_api:os-migrate-server:migrate_live", "A live migration")
    action_states.check(call.server, "os-migrateLive", live_requests.LIVE_STATES)
    host, zone, leaves_cell = requested.get("host"), await _zone_id(call, requested), may_leave_cell(call)
    return await live_requests.live_facts(call.cloud, call.server, host, zone=zone, leaves_cell=leaves_cell)


def _check_migration(
    call: Call, requested: Mapping[str, Any], target: Mapping[str, str], rule: str, subject: str
) -> None:
    """Raises: Problem: the requester may not do it; Invalid; Conflict: the server is locked."""
    call.check(rule, target)
    if requested.get("flavor") is not None:
        raise Invalid(f"{subject} keeps the flavor: 'flavor' is for plans of a resize.")
    if requested.get("host") is not None:
        call.check(f"{rule}:host", target)
    if requested.get("availability_zone") is not None:
        call.check("whimbrel:servers:move", target)
    action_states.check_lock(call)


async def _zone_id(call: Call, requested: Mapping[str, Any]) -> str | None:
    zone = requested.get("availability_zone")
    return None if zone is None else await locations.zone_id(call, zone)


# Groups


async def _of_group(call: Call, requested: Mapping[str, Any]) -> Plan:
    """Return where a server group would go together. Raises: as its move does."""
    call.check("whimbrel:server_groups:move")
    if requested["action"] != "migrate" or requested.get("flavor") is not None or truth(requested.get("live", False)):
        raise Invalid("A plan of a server group is of a cold migration: each server keeps its flavor.")
    zone = await _zone_id(call, requested)
    group = await call.cloud.server_groups.get(GroupId(requested["server_group"]))
    planned = await group_moves.plan(call.cloud, group, requested.get("host"), zone)
    decision = await _decision(call, planned.record or planned.reason, hosts=call.may(HOSTS))
    if not planned.record:
        decision.found = planned.host is not None
    return Plan(
        **asdict(decision),
        action=requested["action"],
        server_group_id=group.id,
        policy=group.policy,
        moving_to=planned.host,
        servers=[_member(planned, member) for member in planned.aim.now.members],
    )


def _member(planned: Planned, member: Member) -> PlannedServer:
    server = member.server
    return PlannedServer(
        id=server.id,
        name=server.name,
        source=server.host,
        moves=planned.host is not None and member in planned.aim.going,
        reason=planned.refused.get(server.id),
    )
