"""Representation of a server whose cell does not answer: the data of the global database, and UNKNOWN for the rest.

Source: the API guide's page on down cells, microversion 2.69.
"""

from typing import Any

from whimbrel.api.http import times
from whimbrel.api.http.call import Call
from whimbrel.api.views import locations, server
from whimbrel.history.last_known import last_known
from whimbrel.ports.stores.directory import Entry

ABSENT_SINCE = 69
UNKNOWN = "UNKNOWN"


def brief(call: Call, entry: Entry) -> dict[str, Any]:
    return {"id": entry.server_id, "status": UNKNOWN, "links": call.links("servers", entry.server_id)}


def detailed(call: Call, entry: Entry) -> dict[str, Any]:
    return brief(call, entry) | {"tenant_id": entry.project_id, "created": times.with_zone(entry.created_at)}


async def full(call: Call, entry: Entry) -> dict[str, Any]:
    """Return one server alone. Raises: Unavailable: no more data is available."""
    known = await last_known(call.cloud, entry)
    zones = await locations.zone_names(call)
    may = server.sight(call, {}, zones, {"project_id": entry.project_id, "user_id": entry.user_id})
    shown = detailed(call, entry) | {
        "user_id": entry.user_id,
        "image": server.image(call, known.image_id, known.image_properties),
        "flavor": server.flavor(call, known.flavor, may),
        "OS-EXT-AZ:availability_zone": locations.zone_name(zones, known.zone) if known.zone else UNKNOWN,
        "OS-EXT-STS:power_state": 0,
    }
    if call.minor >= 71:
        group = await call.cloud.server_groups.of_server(entry.server_id)
        shown["server_groups"] = [group.id] if group else []
    return shown
