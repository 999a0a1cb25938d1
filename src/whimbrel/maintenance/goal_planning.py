"""Plan maintenances that balance or pack hosts. Nothing is changed.

Invariant: the targets are those that the scheduler permits, on one snapshot of the cloud; the goal only chooses among
them. So no rule of a server is weaker than in a move that a user requests.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from whimbrel.domain.host import Host
from whimbrel.domain.maintenance_goal import Goal, HostInGoal
from whimbrel.domain.maintenance_plan import MaintenanceItem, MaintenanceOptions
from whimbrel.domain.server import Server
from whimbrel.maintenance import host_shares, packing
from whimbrel.maintenance.balancing import NOT_BALANCED, Balancer
from whimbrel.maintenance.goal_draft import GoalDraft
from whimbrel.maintenance.host_shares import HostShares
from whimbrel.maintenance.target_planning import Planner, examine, examine_all, in_order, planner_of
from whimbrel.ports.cloud import Cloud
from whimbrel.servers import lookup

IS_EMPTY = "it is empty"


async def plan(
    cloud: Cloud, hosts: Sequence[Host], goal: Goal, options: MaintenanceOptions
) -> tuple[list[MaintenanceItem], Goal]:
    """Return the moves in their order, and the goal with the use of each host before and after them.

    Raises: Unavailable: a cell of the hosts does not answer.
    """
    servers = {host.name: await lookup.on_host(cloud, host.cell, host.name) for host in hosts}
    before = await host_shares.read(cloud, hosts, servers)
    out = {host.name: why for host in hosts if (why := _why_out(host, cloud.clock.now()))}
    shares = before.only([host.name for host in hosts if host.name not in out])
    moved = in_order([server for host in shares.hosts for server in servers[host]])
    planner = await planner_of(cloud, (), options, packing.NOT_PACKED if goal.kind == "pack" else NOT_BALANCED)
    draft = await _draft(planner, goal, shares, moved)
    planned = tuple(_host(host, goal, before, draft, out.get(host.name)) for host in hosts)
    return draft.items, replace(goal, hosts=planned)


async def _draft(planner: Planner, goal: Goal, shares: HostShares, servers: Sequence[Server]) -> GoalDraft:
    if goal.kind == "pack":
        return await packing.pack(planner, shares, await examine_all(planner.cloud, servers, planner.options))
    draft = GoalDraft(planner, shares)
    await Balancer(draft, servers, goal.spread / 100).balance()
    return draft


def _host(host: Host, goal: Goal, before: HostShares, draft: GoalDraft, why_out: str | None) -> HostInGoal:
    was = before.shown(host.name)
    reason = why_out or draft.reasons.get(host.name)
    if goal.kind == "pack" and not was.servers:
        reason = reason or IS_EMPTY
    after = was if why_out else draft.shares.shown(host.name)
    return HostInGoal(name=host.name, cell=host.cell, before=was, after=after, takes_part=not why_out, reason=reason)


def _why_out(host: Host, now: float) -> str | None:
    """Return why a host takes no part; None: it does."""
    if not host.enabled:
        return f"it is disabled: {host.disabled_reason}" if host.disabled_reason else "it is disabled"
    return None if host.is_up(now) else "it is down"


async def planned_anew(
    cloud: Cloud, goal: Goal, options: MaintenanceOptions, position: int, server: Server
) -> MaintenanceItem | str:
    """Plan one server of a goal on the present state of the cloud. Return why it does not move if so."""
    assert server.host, "it was found on a host"
    names = [host.name for host in goal.hosts if _receives(goal, host) or host.name == server.host]
    fleet = await cloud.fleets.now()
    hosts = [fleet.hosts[fleet.row[name]] for name in names if name in fleet.row]
    hosts = [host for host in hosts if host.name == server.host or not _why_out(host, cloud.clock.now())]
    shares = await host_shares.read(
        cloud, hosts, {host.name: [server] if host.name == server.host else [] for host in hosts}
    )
    planner = await planner_of(cloud, (), options)
    draft = GoalDraft(planner, shares)
    if goal.kind == "balance":
        balancer = Balancer(draft, [server], goal.spread / 100)
        if not await balancer.add_move(downtime=options.allow_downtime):
            return await balancer.why_not(server)
    else:
        found = await examine(cloud, server, options)
        why = await packing.emptied(draft, server.host, [found], set(shares.hosts) - {server.host})
        if why:
            return why
    return replace(draft.items[0], position=position)


def _receives(goal: Goal, host: HostInGoal) -> bool:
    """Check whether servers may be moved to a host."""
    return host.takes_part and (goal.kind == "balance" or host.after.servers > 0)
