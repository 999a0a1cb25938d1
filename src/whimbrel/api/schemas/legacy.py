"""Schemas of Nova's routes for old clients.

Source: Nova 34, its schemas of hosts, images, volumes and snapshots.
"""

from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.parameters import ANY, BOOLEAN, NUMBER, TIME, Schema, many, obj, whole, wrapped

_SWITCH: Schema = {"enum": [word for name in ("enable", "disable") for word in (name, name.title(), name.upper())]}

_ABOVE_ZERO: Schema = {**NUMBER, "pattern": "^0*[1-9][0-9]*$"}
IMAGES = Query(
    {
        1: {key: many(ANY) for key in ("name", "status", "server", "type", "marker")}
        | {key: many(NUMBER) for key in ("minRam", "minDisk")}
        | {key: many(_ABOVE_ZERO) for key in ("limit", "page_size", "offset")}
        | {"changes-since": many(TIME)}
    },
    strict_from=102,
    patterns={"^property-": many(ANY)},
)
PAGE = Query({1: {"limit": many(NUMBER), "offset": many(NUMBER)}}, strict_from=36)
_TEXT: Schema = {"type": "string"}
_NAMES: dict[str, Schema] = {"display_name": _TEXT, "display_description": _TEXT}
VOLUME = Body(
    {
        1: wrapped(
            "volume",
            obj(
                {
                    **_NAMES,
                    "volume_type": _TEXT,
                    "metadata": {"type": "object", "additionalProperties": _TEXT},
                    "snapshot_id": _TEXT,
                    "size": whole(1),
                    "availability_zone": _TEXT,
                },
                ["size"],
            ),
        )
    }
)
SNAPSHOT = Body({1: wrapped("snapshot", obj({**_NAMES, "volume_id": _TEXT, "force": BOOLEAN}, ["volume_id"]))})
HOSTS = Query({1: {"zone": many(ANY)}}, strict_from=102)
UPDATE_HOST = Body({1: {**obj({"status": _SWITCH, "maintenance_mode": _SWITCH}), "minProperties": 1}})
