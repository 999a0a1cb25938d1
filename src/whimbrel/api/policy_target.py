"""What a policy rule is about: finds what a path names, for the table of routes. Law: what a caller may not even know
of is not found."""

from collections.abc import Mapping

from whimbrel.api.http.call import Call
from whimbrel.api.views.unreachable_server import ABSENT_SINCE
from whimbrel.domain.errors import NotFound, Unavailable
from whimbrel.domain.ids import ServerId
from whimbrel.ports.stores.directory import Entry
from whimbrel.servers import lookup


async def server_in_path(call: Call) -> Mapping[str, str]:
    """Find the server that the path names; another project's is not found, but by administrators."""
    return await find_server(call, ServerId(call.params["server_id"]))


async def find_server(call: Call, server_id: ServerId) -> Mapping[str, str]:
    """Find a server for a call. Raises: NotFound: also of another project, unless an administrator asks."""
    server = await lookup.find(call.cloud, server_id)
    if server.project_id != call.principal.project_id and not call.is_admin:
        raise NotFound(f"Instance {server_id} could not be found.")
    call.found = server
    return {"project_id": server.project_id, "user_id": server.user_id}


async def server_or_its_entry(call: Call) -> Mapping[str, str]:
    """Find the server that the path names; from 2.69 on its entry will do if its cell is silent."""
    try:
        return await server_in_path(call)
    except Unavailable:
        entry = await call.cloud.directory.entry(ServerId(call.params["server_id"]))
        if call.minor < ABSENT_SINCE or entry.cell is None:
            raise
    call.absent = entry
    return _whose(call, entry)


def _whose(call: Call, entry: Entry) -> Mapping[str, str]:
    """Raises: NotFound: another project's, unless an administrator asks."""
    if entry.project_id != call.principal.project_id and not call.is_admin:
        raise NotFound(f"Instance {entry.server_id} could not be found.")
    return {"project_id": entry.project_id, "user_id": entry.user_id}


async def server_or_its_past(call: Call) -> Mapping[str, str]:
    """Find the project of a server, from 2.21 on also of one that was deleted; its record may be gone."""
    if call.minor < 21:
        return await server_in_path(call)
    return _whose(call, await call.cloud.directory.entry(ServerId(call.params["server_id"]), deleted_too=True))
