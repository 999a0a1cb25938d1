"""Evacuate the servers of a dead host, several at once or a minute, the most important first.

Invariant: nothing is stored here. The servers of the host and its evacuations are read from the cloud, so a request is
repeated until it has nothing more to begin.
"""

from collections.abc import Collection, Sequence

import msgspec

from whimbrel.domain.errors import Busy, Conflict, Invalid, NotFound, OverRate, Refused
from whimbrel.domain.host import Host
from whimbrel.domain.ids import ServerId
from whimbrel.domain.run import has_facts
from whimbrel.domain.server import Server
from whimbrel.moves import evacuation_requests
from whimbrel.moves.evacuation_facts import NAME, Evacuation, EvacuationFacts
from whimbrel.ports.cloud import Cloud, EvacuationOrder, Requester
from whimbrel.ports.stores.journal import MINUTE_S
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.saga.engine import Engine

PRIORITY = "evacuation_priority"
"""A number in the flavor's extra specs (with the prefix whimbrel:), or in the server's metadata; higher goes first."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a host is evacuated, by all that request it together."""

    at_once: int
    per_minute: int  # how many begin; 0: no limit


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is not evacuated, and why."""

    server: ServerId
    name: str
    reason: str


class HostEvacuation(msgspec.Struct, frozen=True, kw_only=True):
    """How far the evacuation of a host is. waiting: of those under way, how many wait for evidence; why: for what.

    arrived: since the host was lost. to_go: servers that are not begun yet. left: which are not evacuated, and why.
    next_in_s: how long the next one waits because as many have begun in the last minute as may; None: it does not.
    """

    begun: int
    under_way: int
    waiting: int
    why: str | None
    to_go: int
    arrived: int
    left: tuple[Left, ...]
    next_in_s: float | None

    @property
    def is_over(self) -> bool:
        return not (self.under_way or self.to_go)


async def evacuate_host(
    cloud: Cloud, engine: Engine, requester: Requester, host: Host, pace: Pace, since: float, *, leaves_cell: bool
) -> HostEvacuation:
    """Begin evacuations until as many are under way, or have begun in the last minute, as may. Repeatable.

    since: a server whose evacuation was undone since then is left; so are servers that cannot be evacuated. Arrivals
    count since the host was lost: evacuations that waited for evidence may end before the first request.
    leaves_cell: whether servers may go to other cells.
    Raises: Invalid: the host is up; Unavailable.
    """
    if host.is_up(now := cloud.clock.now()):
        raise Invalid(
            f"{host.up_words(now)}: it is not evacuated. If it works, move its servers: whimbrel maintenance plan"
            f" {host.name}. If it is dead, declare it dead: whimbrel host force-down {host.name} --reason ..."
        )
    open_runs = await evacuation_requests.under_way(cloud, host.name)
    arrived, undone = await cloud.journal.newest_ends(NAME, host.name, min(since, _lost_at(host)))
    left = {run.subject: _left(run) for run in undone if has_facts(run, EvacuationFacts) and _ended(run) >= since}
    begun, others = 0, {run.subject for run in open_runs} | left.keys()
    room = pace.at_once - len(open_runs)
    if most := pace.per_minute:
        room = min(room, most - len(await cloud.journal.newest_starts(NAME, host.name, now)))
    to_go = await cloud.cell(host.cell).servers.count(host.name, others)
    while begun < room and to_go > 0:
        if not (tried := await _next_servers(cloud, host, since, others, room - begun)):
            break
        others |= {server.id for server in tried}
        for server in tried:
            try:
                await evacuation_requests.evacuate(
                    cloud, engine, requester, server, leaves_cell=leaves_cell, most_per_minute=most
                )
                begun += 1
            except OverRate:  # others began some at the same time
                room = 0
                cloud.evacuation_orders.pop(host.name, None)  # those that were taken from it have not had their turn
                break
            except NotFound:
                pass  # deleted meanwhile
            except Busy as busy:
                left[server.id] = Left(server=server.id, name=server.name, reason=await _busy(cloud, server, busy))
            except (Refused, Conflict) as no:
                left[server.id] = Left(server=server.id, name=server.name, reason=no.reason)
            to_go -= 1
    waiting = [run for run in open_runs if run.facts.evidence is None]
    return HostEvacuation(
        begun=begun,
        under_way=len(open_runs) + begun,
        waiting=len(waiting),
        why=next((run.message for run in waiting if run.message), None),
        to_go=max(to_go, 0),
        arrived=arrived,
        left=tuple(left.values()),
        next_in_s=await _next_in_s(cloud, host, most) if most and to_go > 0 else None,
    )


def in_order(servers: Sequence[Server]) -> list[Server]:
    """Return the most important servers first: by flavor, then by what their owners say, then the oldest."""
    return sorted(
        servers,
        key=lambda one: (*priority_of(one), one.created_at, one.id),
    )


def priority_of(server: Server) -> tuple[int, int]:
    """Return a key that sorts the most important servers first: by flavor, then by what their owners say."""
    of_flavor = _number(server.flavor.extra_specs.get(f"whimbrel:{PRIORITY}"))
    return -of_flavor, -_number(server.metadata.get(PRIORITY))


def _number(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        return 0


async def _next_servers(
    cloud: Cloud, host: Host, since: float, others: Collection[ServerId], count: int
) -> list[Server]:
    """Return at most so many servers that are evacuated next, without `others`.

    The host's servers are read once, and again when all of them had their turn: those that were missed are found then.
    """
    known, servers = cloud.evacuation_orders.get(host.name), cloud.cell(host.cell).servers
    if known and known.since == since and known.servers:
        names = [known.servers.pop() for _ in range(min(count, len(known.servers)))]
        found = {one.id: one for one in await servers.find(ServerQuery(ids=names))}
        here = [found[name] for name in names if name in found and found[name].host == host.name]
        if next_ones := [one for one in here if one.id not in others]:
            return next_ones
    all_of_them = in_order([one for one in await servers.find(ServerQuery(host=host.name)) if one.id not in others])
    later = [one.id for one in reversed(all_of_them[count:])]
    cloud.evacuation_orders[host.name] = EvacuationOrder(since, later)
    return all_of_them[:count]


async def _next_in_s(cloud: Cloud, host: Host, most_per_minute: int) -> float | None:
    """Return how long it is until another evacuation may begin; None: one may begin now."""
    now = cloud.clock.now()
    starts = await cloud.journal.newest_starts(NAME, host.name, now)
    return starts[-most_per_minute] + MINUTE_S - now if len(starts) >= most_per_minute else None


def _lost_at(host: Host) -> float:
    """Return when a host was lost: at its last heartbeat, or at the administrator's word, if that is earlier."""
    return host.seen_at if host.forced_down_at is None else min(host.seen_at, host.forced_down_at)


def _ended(run: Evacuation) -> float:
    assert run.finished_at is not None, "it has ended"
    return run.finished_at


async def _busy(cloud: Cloud, server: Server, busy: Busy) -> str:
    """Return what is under way on a server, and how it is looked at."""
    run = await cloud.journal.open_run(server.id)
    return f"{run.saga} {run.id} is under way: whimbrel move show {run.id}" if run else busy.reason


def _left(run: Evacuation) -> Left:
    return Left(server=run.subject, name=run.facts.name, reason=run.message or "its evacuation was turned back")
