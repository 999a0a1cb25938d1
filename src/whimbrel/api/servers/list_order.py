"""Sort order and markers of GET /servers.

Invariant: the order is total, so that each server is on exactly one page.
"""

from collections.abc import Mapping, Sequence

from whimbrel.api.http import paging
from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Forbidden, Invalid, Unavailable
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.servers.listing.all_cells import AllCells

_SORT: Mapping[str, str] = {
    "availability_zone": "zone",
    "created_at": "created_at",
    "display_name": "name",
    "host": "host",
    "hostname": "hostname",
    "image_ref": "image_id",
    "instance_type_id": "flavor_id",
    "key_name": "key_name",
    "launched_at": "launched_at",
    "locked": "locked",
    "locked_by": "locked",
    "node": "host",
    "project_id": "project_id",
    "task_state": "task_state",
    "terminated_at": "terminated_at",
    "updated_at": "updated_at",
    "user_id": "user_id",
    "uuid": "id",
    "vm_state": "vm_state",
}
"""Sort keys that are columns; the others are the same for all servers, or Nova ignores them too."""


def sort_of(call: Call, sent: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    """Return the columns to sort by, each with its direction. Raises: Invalid; Forbidden."""
    keys, directions = sent.get("sort_key", ["created_at"]), sent.get("sort_dir", ["desc"])
    if {"host", "node"} & set(keys) and not call.is_admin:
        raise Forbidden("Only administrators can sort servers by host.")
    wrong = [direction for direction in directions if direction.lower() not in ("asc", "desc")]
    if wrong or len(directions) > max(len(keys), 1):
        raise Invalid("sort_dir is asc or desc, and not given more often than sort_key.")
    directions = [direction.lower() for direction in directions]
    directions += directions[-1:] * (len(keys) - len(directions))
    sort = [(_SORT[key], way) for key, way in zip(keys, directions, strict=True) if key in _SORT]
    last = directions[-1] if directions else "desc"
    return [*sort, *((name, last) for name in ("created_at", "id") if name not in dict(sort))]


async def marker_of(call: Call, sort: Sequence[tuple[str, str]]) -> Server | None:
    """Return the server after which the list continues. Raises: Invalid: not found."""
    marker = call.value("marker")
    if marker is None:
        return None
    project = None if call.is_admin else call.principal.project_id
    query = ServerQuery(ids=[ServerId(marker)], project_id=project, deleted=None)
    listed = await AllCells(call.cloud, query).take(with_absent=True)
    if listed.servers:
        return listed.servers[0]
    if not listed.unreachable:
        raise paging.no_marker(call)
    return await _absent_marker(call, ServerId(marker), sort)


async def _absent_marker(call: Call, marker: ServerId, sort: Sequence[tuple[str, str]]) -> Server:
    """Return a stand-in with the sort position of a server in an unreachable cell: a page may have ended there.

    Raises: Invalid: another project's; Unavailable: its position in this order is unknown.
    """
    entry = await call.cloud.directory.entry(marker, deleted_too=True)
    if entry.project_id != call.principal.project_id and not call.is_admin:
        raise paging.no_marker(call)
    if {name for name, _ in sort} != {"created_at", "id"}:
        raise Unavailable(f"The cell of instance {marker} is not responding: it cannot be a marker in this order now.")
    return Server(
        id=marker,
        project_id=entry.project_id,
        user_id=entry.user_id,
        name="",
        flavor=Flavor(flavor_id="", name="", vcpus=1, memory_mib=1, root_gib=0),
        image_id=None,
        spec=RequestSpec(),
        created_at=entry.created_at,
        updated_at=entry.created_at,
    )
