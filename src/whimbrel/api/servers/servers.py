"""Servers: list, show, change, delete. creation.py creates them, list_query.py lists them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from whimbrel.api.catalog import server_groups
from whimbrel.api.http import paging
from whimbrel.api.http.call import Call
from whimbrel.api.servers import list_query, live_migrations
from whimbrel.api.views import locations, unreachable_server
from whimbrel.api.views import server as server_view
from whimbrel.domain.errors import Conflict, NotFound, WrongState
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.domain.ip_addresses import canonical_or_empty
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.ports.stores.directory import Entry
from whimbrel.servers import edit


async def index(call: Call) -> Any:
    found = await list_query.servers(call, detail=False)
    return _page(call, found, [_brief(call, one) for one in found])


async def detail(call: Call) -> Any:
    found = await list_query.servers(call, detail=True)
    hosts, zones = (await _hosts(call), await locations.zone_names(call)) if found else ({}, {})
    progress = await live_migrations.progress_of_servers(call, [one for one in found if isinstance(one, Server)])
    may = server_view.sight(call, hosts, zones, progress=progress)
    return _page(call, found, [_detailed(call, one, may) for one in found])


def _brief(call: Call, one: Server | Entry) -> dict[str, Any]:
    return unreachable_server.brief(call, one) if isinstance(one, Entry) else server_view.brief(call, one)


def _detailed(call: Call, one: Server | Entry, may: server_view.Sight) -> dict[str, Any]:
    return (
        unreachable_server.detailed(call, one)
        if isinstance(one, Entry)
        else server_view.full(call, one, may, alone=False)
    )


async def show(call: Call) -> Any:
    if call.absent is not None:
        return {"server": await unreachable_server.full(call, call.absent)}
    return {"server": server_view.full(call, call.server, await sight_of(call, call.server), alone=True)}


async def update(call: Call) -> Any:
    requested: dict[str, Any] = call.body["server"]
    fields = {field: requested[key] for key, field in _FIELDS.items() if key in requested}
    fields |= {field: canonical_or_empty(fields[field]) for field in ("access_ipv4", "access_ipv6") if field in fields}
    if "pinned_availability_zone" in requested:
        fields["spec"] = await _repinned(call, call.server, requested["pinned_availability_zone"])
    server = await edit.change(call.cloud, call.server, fields) if fields else call.server
    return {"server": server_view.changed(call, server, await sight_of(call, server))}


_FIELDS: Mapping[str, str] = {
    "name": "name",
    "description": "description",
    "hostname": "hostname",
    "accessIPv4": "access_ipv4",
    "accessIPv6": "access_ipv6",
    "OS-DCF:diskConfig": "disk_config",
}
"""Keys of a PUT and the fields of the record that they set."""


async def _repinned(call: Call, server: Server, name: str | None) -> RequestSpec:
    """Return the spec pinned to a zone; None: unpinned.

    Raises: Conflict: pinned to another, not in it now, or moving.
    """
    names = await locations.zone_names(call)
    pin, zone = server.spec.zone_pin, None if name is None else await locations.zone_named(call, name)
    if zone == pin and (zone is None) == (name is None):
        return server.spec
    if server.task_state is not None or server.vm_state == "resized":
        raise WrongState(
            f"Cannot change the pin of instance {server.id} while it is in vm_state {server.vm_state}, task_state"
            f" {server.task_state}: a move that is under way was begun with the pin that it has."
        )
    if name is not None and pin is not None:
        was = locations.zone_name(names, pin)
        raise Conflict(f"Instance {server.id} is pinned to the availability zone {was}: unpin it first.")
    if name is not None and (zone is None or zone != server.zone):  # None: there is no such zone
        here = locations.zone_name(names, server.zone or "")
        raise Conflict(f"Instance {server.id} is in the availability zone {here}: it can be pinned only there.")
    return msgspec.structs.replace(server.spec, zone_pin=zone)


async def sight_of(call: Call, server: Server) -> server_view.Sight:
    """Return what the requester may see of one server."""
    target = {"project_id": server.project_id, "user_id": server.user_id}
    progress = await live_migrations.progress_of_servers(call, [server])
    may = server_view.sight(call, await _host_of(call, server), await _zones_of(call, server), target, progress)
    if call.minor < 71:
        return may
    return msgspec.structs.replace(may, groups=await server_groups.of_server(call, server))


async def _zones_of(call: Call, server: Server) -> Mapping[str, str]:
    """Read the names of zones, only if one is shown."""
    return await locations.zone_names(call) if server.zone or server.spec.zone_pin else {}


async def _host_of(call: Call, server: Server) -> Mapping[HostName, Host]:
    """Read the server's host, only if its state may be shown."""
    if server.cell is None or server.host is None or not _shows_hosts(call):
        return {}
    try:
        return {server.host: await call.cloud.cell(server.cell).hosts.get(server.host)}
    except NotFound:
        return {}


async def _hosts(call: Call) -> Mapping[HostName, Host]:
    """Read the hosts, only if their state may be shown."""
    return (await locations.known_hosts(call)).by_name if _shows_hosts(call) else {}


def _shows_hosts(call: Call) -> bool:
    return call.minor >= 16 and call.may("os_compute_api:servers:show:host_status")


def _page(call: Call, found: Sequence[Server | Entry], shown: list[dict[str, Any]]) -> dict[str, Any]:
    links = paging.next_link(call, len(found), shown[-1]["id"] if shown else None)
    return {"servers": shown} | ({"servers_links": links} if links else {})
