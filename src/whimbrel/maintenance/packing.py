"""Plan which hosts become empty, so that all servers are on few hosts.

Invariants: all servers leave a host, or none. None moves to a host that is empty or becomes so, so none moves twice.
A target has room for it before any other server has left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from whimbrel.domain.ids import HostName
from whimbrel.maintenance.goal_draft import GoalDraft
from whimbrel.maintenance.host_shares import HostShares
from whimbrel.maintenance.target_planning import Examined, Planner, Way
from whimbrel.moves.steps.target import Choice

NOT_PACKED = "no servers are packed there"
TAKES_SERVERS = "it takes servers of other hosts"


async def pack(planner: Planner, shares: HostShares, found: Sequence[Examined]) -> GoalDraft:
    """Plan with the better one of two orders in which hosts are tried: the least used, or the fewest servers, first.

    found: all servers of the hosts, in the order in which they are to move.
    """
    on_host: dict[HostName, list[Examined]] = {host: [] for host in shares.hosts}
    for each in found:
        assert each.server.host, "it was found on a host"
        on_host[each.server.host].append(each)
    used = [host for host in shares.hosts if on_host[host]]
    by_use = sorted(used, key=lambda host: (shares.fullest(host), len(on_host[host]), host))
    by_number = sorted(used, key=lambda host: (len(on_host[host]), shares.fullest(host), host))
    first = await _in_this_order(planner, shares, on_host, by_use)
    if by_number == by_use:
        return first
    kept = replace(first, moves=list(first.moves))
    first.withdraw_from(0)
    second = await _in_this_order(planner, shares, on_host, by_number)
    return min(kept, second, key=_costs)


def _costs(draft: GoalDraft) -> tuple[int, int, int]:
    """Return what is to be small: the negative number of emptied hosts, of moves with downtime, and of moves."""
    emptied = {item.source for item, _ in draft.moves}
    return -len(emptied), sum(item.downtime for item, _ in draft.moves), len(draft.moves)


async def _in_this_order(
    planner: Planner, shares: HostShares, on_host: Mapping[HostName, Sequence[Examined]], order: Sequence[HostName]
) -> GoalDraft:
    draft, receiving = GoalDraft(planner, shares), set[HostName]()
    receivers = set(order)
    for host in order:
        if host in receiving:
            draft.reasons[host] = TAKES_SERVERS
            continue
        begun = len(draft.moves)
        receivers.remove(host)
        if why := await emptied(draft, host, on_host[host], receivers):
            draft.withdraw_from(begun)
            draft.reasons[host] = why
            receivers.add(host)
        receiving |= {choice.host for _, choice in draft.moves[begun:]}
    return draft


async def emptied(
    draft: GoalDraft, host: HostName, servers: Sequence[Examined], receivers: set[HostName]
) -> str | None:
    """Plan the moves of all servers of a host. Return why one has no place; None: all have one."""
    draft.planner.choose_among(receivers)
    purpose = f"{host} becomes empty: at most {100 * draft.shares.fullest(host):.0f} % of it is used"
    for each in servers:
        way = await draft.planner.way(each, len(receivers))
        if isinstance(way, str):
            return f"server {each.server.name} ({each.server.id}) stays: {way}"
        await draft.add(each, way, _fullest(draft.shares, way), purpose)
    return None


def _fullest(shares: HostShares, way: Way) -> Choice:
    """Return the fullest of the suitable targets."""
    return min(way.choices, key=lambda choice: (-shares.fullest(choice.host), choice.host))
