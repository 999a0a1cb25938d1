"""os-simple-tenant-usage: what projects have used in a period, from the records of servers, deleted ones too.

A server counts with the flavor that it has now, for the hours between its launch and its end within the period.
From 2.40 on a page has so many servers: one project may be on several pages, each with a part of its sum.

Source: Nova 34, its simple_tenant_usage.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from whimbrel.api.http import paging, times
from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Invalid
from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.domain.server import Server
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.servers import lookup

PAGES_SINCE = 40
FORMATS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f")
ORDER = (("project_id", "asc"), ("id", "asc"))


class Period(NamedTuple):
    """Seconds since 1970."""

    start: float
    stop: float

    def hours(self, server: Server) -> float:
        assert server.launched_at is not None, "only launched servers are counted"
        stop = self.stop if server.terminated_at is None else min(self.stop, server.terminated_at)
        return max(stop - max(self.start, server.launched_at), 0) / 3600


async def index(call: Call) -> Any:
    period, detailed = _period(call), _first(call, "detailed") == "1"
    servers = await _servers(call, period, None)
    of_project: dict[str, list[Server]] = {}
    for server in servers:
        of_project.setdefault(server.project_id, []).append(server)
    now = call.cloud.clock.now()
    usages = [_usage(found, period, now, detailed=detailed) for found in of_project.values()]
    return {"tenant_usages": usages} | _links(call, "tenant_usages_links", servers)


async def show(call: Call) -> Any:
    period = _period(call)
    servers = await _servers(call, period, ProjectId(call.params["project_id"]))
    usage = _usage(servers, period, call.cloud.clock.now(), detailed=True) if servers else {}
    return {"tenant_usage": usage} | _links(call, "tenant_usage_links", servers)


# The query


def _period(call: Call) -> Period:
    """Raises: Invalid: not a time, or the end is not after the start."""
    now = call.cloud.clock.now()
    start, stop = (_time(_first(call, key), now) for key in ("start", "end"))
    if start >= stop and not start == stop == now:
        raise Invalid("Invalid start time. The start time cannot occur after the end time.")
    return Period(start, min(stop, now))


def _first(call: Call, key: str) -> str | None:
    return next(iter(call.query.get(key, ())), None)


def _time(text: str | None, now: float) -> float:
    if not text:
        return now
    for form in FORMATS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except (ValueError, OverflowError):
            continue
    raise Invalid("Invalid datetime string: Datetime is in invalid format")


async def _servers(call: Call, period: Period, project: ProjectId | None) -> Sequence[Server]:
    """Return the servers of this page. Raises: Invalid: unknown marker; Unavailable: a cell does not answer."""
    marker = call.value("marker") if call.minor >= PAGES_SINCE else None
    limit = paging.limit(call) if call.minor >= PAGES_SINCE else call.context.max_limit
    query = ServerQuery(
        project_id=project,
        launched_before=period.stop,
        ended_since=period.start,
        deleted=None,
        sort=ORDER,
        after=await _marked(call, marker) if marker else None,
        limit=limit,
    )
    return await lookup.listing(call.cloud, query) if limit else []


async def _marked(call: Call, marker: str) -> Server:
    found = await lookup.listing(call.cloud, ServerQuery(ids=[ServerId(marker)], deleted=None))
    if not found:
        raise paging.no_marker(call)
    return found[0]


# The answer


def _usage(servers: Sequence[Server], period: Period, now: float, *, detailed: bool) -> dict[str, Any]:
    """Return the usage of a project by these servers of it."""
    each = [_server_usage(server, period.hours(server), now) for server in servers]
    sums = {
        f"total_{name}_usage": sum((usage[name] * usage["hours"] for usage in each), 0.0)
        for name in ("local_gb", "vcpus", "memory_mb")
    }
    shown = {
        "tenant_id": servers[0].project_id,
        "total_hours": sum((usage["hours"] for usage in each), 0.0),
        **sums,
        "start": times.with_fraction(period.start),
        "stop": times.with_fraction(period.stop),
    }
    return shown | ({"server_usages": each} if detailed else {})


def _server_usage(server: Server, hours: float, now: float) -> dict[str, Any]:
    ended, launched = server.terminated_at, server.launched_at
    assert launched is not None, "only launched servers are counted"
    return {
        "instance_id": server.id,
        "name": server.name,
        "tenant_id": server.project_id,
        "flavor": server.flavor.name,
        "hours": hours,
        "memory_mb": server.flavor.memory_mib,
        "local_gb": server.flavor.root_gib + server.flavor.ephemeral_gib,
        "vcpus": server.flavor.vcpus,
        "started_at": times.with_fraction(launched),
        "ended_at": times.with_fraction(ended),
        "state": server.vm_state if ended is None else "terminated",
        "uptime": int((now if ended is None else ended) - launched),
    }


def _links(call: Call, name: str, servers: Sequence[Server]) -> dict[str, Any]:
    if call.minor < PAGES_SINCE:
        return {}
    links = paging.next_link(call, len(servers), servers[-1].id if servers else None)
    return {name: links} if links else {}
