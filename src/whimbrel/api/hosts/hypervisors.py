"""Hypervisors: the hosts, and below 2.88 their usage, which is placement's accounting and not the host's report.

Hosts of a cell that does not answer are left out, as in Nova at all versions.

Source: reference of Nova 34, section 2.4.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from whimbrel.api.hosts import host_use
from whimbrel.api.hosts.host_use import HostUse
from whimbrel.api.http import paging
from whimbrel.api.http.call import Call
from whimbrel.api.http.formats import FORMATS
from whimbrel.api.schemas.parameters import truth_of_word
from whimbrel.api.views import locations
from whimbrel.domain.errors import Invalid, Refused, WorldError
from whimbrel.domain.guest import instance_name
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.http.problem import Problem
from whimbrel.servers import lookup

ANSWERED_WITHIN_S = 2.0
"""The time that a list waits for the uptime of a host."""

_USE = (
    *("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "free_ram_mb"),
    *("local_gb", "local_gb_used", "free_disk_gb", "disk_available_least"),
    *("current_workload", "running_vms"),
)


async def index(call: Call) -> Any:
    page = await _page(call)
    answer: dict[str, Any] = {"hypervisors": [_brief(call, host) for host in page]}
    return await _with_servers(call, page, answer) | _links(call, page)


async def detail(call: Call) -> Any:
    page = await _page(call)
    fills = await _fills(call, page)
    answer: dict[str, Any] = {"hypervisors": await _all_full(call, page, fills)}
    return await _with_servers(call, page, answer) | _links(call, page)


async def show(call: Call) -> Any:
    host = await _one(call)
    answer: dict[str, Any] = {"hypervisors": await _all_full(call, [host], await _fills(call, [host]))}
    answer = await _with_servers(call, [host], answer)
    return {"hypervisor": answer["hypervisors"][0]}


async def uptime(call: Call) -> Any:
    host = await _one(call)
    if not host.is_up(call.cloud.clock.now()):
        raise Invalid(f"Compute service of {host.name} is unavailable at this time.")
    try:
        said = await call.cloud.agent(host.cell, host.name).uptime()
    except Refused as no:
        raise Problem(501, f"The requested functionality is not supported: {no.reason}") from None
    return {"hypervisor": _brief(call, host) | {"uptime": said}}


async def search(call: Call) -> Any:
    return {"hypervisors": [_brief(call, host) for host in await _matching(call, call.params["hypervisor_id"])]}


async def servers(call: Call) -> Any:
    """Below 2.53: list the hypervisors that match a name, each with its servers."""
    found = await _matching(call, call.params["hypervisor_id"])
    shown = []
    for host in found:
        on_it = await _servers_on(call, host)
        shown.append(_brief(call, host) | ({"servers": on_it} if on_it else {}))
    return {"hypervisors": shown}


async def statistics(call: Call) -> Any:
    """Sum over all hosts that are enabled."""
    hosts = [host for host in await _all(call) if host.enabled]
    fills = await _fills(call, hosts)
    total = dict.fromkeys(_USE, 0)
    for host in hosts:
        for name, amount in _use(host, fills[host.name]).items():
            total[name] += amount
    return {"hypervisor_statistics": {"count": len(hosts)} | total}


# Selection


async def _all(call: Call) -> list[Host]:
    return list((await locations.known_hosts(call)).by_name.values())


async def _page(call: Call) -> list[Host]:
    pattern = call.value("hypervisor_hostname_pattern")
    if pattern is not None:
        if call.value("limit") is not None or call.value("marker") is not None:
            raise Invalid("Paging over hypervisors with the hypervisor_hostname_pattern query is not supported.")
        return await _matching(call, pattern)
    found = paging.after_marker(call, await _all(call), lambda host: str(_id(call, host)))
    return found[: paging.limit(call)] if call.minor >= 33 else found


async def _matching(call: Call, pattern: str) -> list[Host]:
    known = await locations.known_hosts(call)
    found = [host for host in known.by_name.values() if pattern in host.name]
    if not found:
        raise known.not_found(f"No hypervisor matching '{pattern}' could be found.")
    return found


async def _one(call: Call) -> Host:
    """Return the hypervisor of the path: a uuid from 2.53 on, below it a number. Raises: Invalid; NotFound."""
    id = call.params["hypervisor_id"]
    if call.minor >= 53 and not FORMATS["any-uuid"](id):
        raise Invalid(f"Invalid uuid {id}")
    known = await locations.known_hosts(call)
    found = [host for host in known.by_name.values() if str(_id(call, host)) == id]
    if not found:
        raise known.not_found(f"Hypervisor with ID '{id}' could not be found.")
    return found[0]


# Representation


def _id(call: Call, host: Host) -> str | int:
    return host.id if call.minor >= 53 else host.number


def _brief(call: Call, host: Host) -> dict[str, Any]:
    return {
        "id": _id(call, host),
        "hypervisor_hostname": host.name,
        "state": "up" if host.is_up(call.cloud.clock.now()) else "down",
        "status": "enabled" if host.enabled else "disabled",
    }


def _full(call: Call, host: Host, fills: dict[HostName, HostUse]) -> dict[str, Any]:
    shown = _brief(call, host) | {
        "hypervisor_type": host.hypervisor_type,
        "hypervisor_version": host.hypervisor_version,
        "host_ip": host.host_ip,
        "service": {
            "id": host.service_id if call.minor >= 53 else host.number,
            "host": host.name,
            "disabled_reason": host.disabled_reason,
        },
    }
    if call.minor >= 88:
        return shown
    cpu_info: Any = msgspec.json.decode(host.cpu_info or "{}") if call.minor >= 28 else host.cpu_info
    return shown | {"cpu_info": cpu_info} | _use(host, fills[host.name])


async def _all_full(call: Call, hosts: Sequence[Host], fills: dict[HostName, HostUse]) -> list[dict[str, Any]]:
    """Return hosts with all fields; from 2.88 on with the uptime that their agents report, all asked at once."""
    shown = [_full(call, host, fills) for host in hosts]
    if call.minor < 88:
        return shown
    uptimes = await asyncio.gather(*(_uptime(call, host) for host in hosts))
    return [one | {"uptime": said} for one, said in zip(shown, uptimes, strict=True)]


async def _uptime(call: Call, host: Host) -> str | None:
    """Return the uptime of a host; None: its agent does not report it."""
    if not host.is_up(call.cloud.clock.now()):
        return None
    try:
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            return await call.cloud.agent(host.cell, host.name).uptime()
    except (WorldError, TimeoutError):
        return None


def _use(host: Host, fill: HostUse) -> dict[str, int]:
    free_gib = host.disk_gib - fill.disk_gib
    amounts = (
        *(host.vcpus, fill.vcpus, host.memory_mib, fill.memory_mib, host.memory_mib - fill.memory_mib),
        *(host.disk_gib, fill.disk_gib, free_gib, free_gib),
        *(0, fill.servers),
    )
    return dict(zip(_USE, amounts, strict=True))


async def _fills(call: Call, hosts: Sequence[Host]) -> dict[HostName, HostUse]:
    """Return the usage of hosts; empty from 2.88 on, where it is not shown."""
    return {} if call.minor >= 88 else await host_use.of_hosts(call, hosts)


async def _servers_on(call: Call, host: Host) -> list[dict[str, str]]:
    found = await lookup.on_host(call.cloud, host.cell, host.name)
    return [{"name": instance_name(server.id), "uuid": server.id} for server in found]


async def _with_servers(call: Call, hosts: Sequence[Host], answer: dict[str, Any]) -> dict[str, Any]:
    """Add each host's servers if requested; below 2.75 an empty host has no such key."""
    if not truth_of_word(call.value("with_servers") or ""):
        return answer
    for host, shown in zip(hosts, answer["hypervisors"], strict=True):
        on_it = await _servers_on(call, host)
        if on_it or call.minor >= 75:
            shown["servers"] = on_it
    return answer


def _links(call: Call, page: Sequence[Host]) -> dict[str, Any]:
    if call.minor < 33 or call.value("hypervisor_hostname_pattern") is not None:
        return {}
    links = paging.next_link(call, len(page), str(_id(call, page[-1])) if page else None)
    return {"hypervisors_links": links} if links else {}
