"""What is done if a server cannot move as planned, because the cloud has changed since. Nothing is changed here."""

from collections.abc import Sequence

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Refused
from whimbrel.domain.ids import HostName
from whimbrel.domain.maintenance_plan import HOLDING, Maintenance, MaintenanceItem
from whimbrel.domain.server import Server
from whimbrel.maintenance import goal_planning, target_planning
from whimbrel.maintenance.intermediate_moves import IntermediateMoves
from whimbrel.maintenance.room_search import MOST_MOVES
from whimbrel.moves import live_requests, requests
from whimbrel.ports.cloud import Cloud
from whimbrel.scheduling.decision import DecisionTrace

MOST_WAITED_FOR = 3 * MOST_MOVES
"""For a server that waits, or has waited, for so many moves no more are planned: its room is taken again and again."""


async def obstacle(cloud: Cloud, found: Maintenance, item: MaintenanceItem, server: Server) -> str | None:
    """Return why the server cannot move as planned, None if it can."""
    if item.target is None:
        return "no target was found before"
    others = [other for other in await cloud.maintenances.find(HOLDING) if other.id != found.id]
    for other in others:  # the journal refuses the move if one begins meanwhile
        if why := other.why_not(foreign_source(found, item), item.target):
            return why
    leaves = found.options.leaves_cell
    try:
        if item.kind == "live":
            facts = await live_requests.live_facts(cloud, server, item.target, leaves_cell=leaves)
            decided = await live_requests.plan_live(cloud, server, facts)
        else:
            facts = await requests.migrate_facts(cloud, server, item.target, leaves_cell=leaves)
            decided = await requests.plan(cloud, server, facts)
    except (Refused, Conflict) as no:
        return no.reason
    if isinstance(decided, DecisionTrace):
        return None if decided.chosen else decided.summary()
    return decided


def foreign_source(found: Maintenance, item: MaintenanceItem) -> HostName | None:
    """Return the host that a move leaves if it is none of the maintenance: it makes room for another server."""
    return None if item.source in found.named else item.source


async def planned_anew(
    cloud: Cloud, found: Maintenance, items: Sequence[MaintenanceItem], item: MaintenanceItem, server: Server, why: str
) -> list[MaintenanceItem]:
    """Return the item with the kind of move and the target that are possible now, then new items that make room for it.

    items: all of the maintenance.
    """
    options, now = found.options, cloud.clock.now()
    reason = f"planned anew, because {item.target or 'the plan'} did not suit: {why}"
    if options.goal:
        anew = await goal_planning.planned_anew(cloud, options.goal, options, item.position, server)
        if isinstance(anew, str):
            return [replace(item, state="failed", reason=anew, finished_at=now)]
        return [replace(anew, tries=item.tries, purpose=item.purpose, reason=reason)]
    planner = await target_planning.planner_of(cloud, found.host_names, options)
    source = foreign_source(found, item)
    if source in planner.held:  # its own maintenance moves it, or keeps it
        return [replace(item, state="left", reason=why)]
    examined = await target_planning.examine(cloud, server, options)
    added: list[MaintenanceItem] = []
    if source or len(item.waits_for) >= MOST_WAITED_FOR:
        planned = await planner.item(item.position, examined)
    else:
        *added, planned = await IntermediateMoves(planner, items).plan([examined])
    if planned.state == "stays":
        return [replace(planned, position=item.position, state="failed", tries=item.tries, finished_at=now)]
    planned = replace(
        planned,
        position=item.position,
        tries=item.tries,
        purpose=planned.purpose or item.purpose,
        waits_for=(*item.waits_for, *planned.waits_for),
        reason=reason,
    )
    return [planned, *added]
