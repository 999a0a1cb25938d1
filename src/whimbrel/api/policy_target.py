"""Targets of policy rules: finds the resource in a path, for the table of routes.

Invariant: a resource that the requester may not know of is not found.
"""

from collections.abc import Mapping

from whimbrel.api.http.call import Call
from whimbrel.api.views.unreachable_server import ABSENT_SINCE
from whimbrel.domain.errors import NotFound, Unavailable
from whimbrel.domain.ids import ServerId
from whimbrel.ports.stores.directory import Entry
from whimbrel.servers import lookup


async def server_in_path(call: Call) -> Mapping[str, str]:
    """Return the target of the server in the path; another project's is found by administrators only."""
    return await find_server(call, ServerId(call.params["server_id"]))


async def find_server(call: Call, server_id: ServerId) -> Mapping[str, str]:
    """Return the target of a server. Raises: NotFound: also if it is another project's, except for administrators."""
    found = await lookup.record(call.cloud, server_id)
    server = found.server
    if server.project_id != call.principal.project_id and not call.is_admin:
        raise NotFound(f"Instance {server_id} could not be found.")
    call.found, call.locked_by = server, found.locked_by
    return {"project_id": server.project_id, "user_id": server.user_id}


async def server_or_its_entry(call: Call) -> Mapping[str, str]:
    """Return the target of the server in the path; from 2.69 on its entry suffices if its cell is unreachable."""
    try:
        return await server_in_path(call)
    except Unavailable:
        entry = await call.cloud.directory.entry(ServerId(call.params["server_id"]))
        if call.minor < ABSENT_SINCE or entry.cell is None:
            raise
    call.absent = entry
    return _whose(call, entry)


def _whose(call: Call, entry: Entry) -> Mapping[str, str]:
    """Raises: NotFound: another project's, except for administrators."""
    if entry.project_id != call.principal.project_id and not call.is_admin:
        raise NotFound(f"Instance {entry.server_id} could not be found.")
    return {"project_id": entry.project_id, "user_id": entry.user_id}


async def server_or_its_past(call: Call) -> Mapping[str, str]:
    """Return the project of a server, from 2.21 on also of a deleted one, whose record may be gone."""
    if call.minor < 21:
        return await server_in_path(call)
    return _whose(call, await call.cloud.directory.entry(ServerId(call.params["server_id"]), deleted_too=True))
