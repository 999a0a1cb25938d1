"""Schemas of zones, and of moves of servers to one."""

from whimbrel.api.http.schema import Body
from whimbrel.api.schemas.aggregates import HOST, ZONE
from whimbrel.api.schemas.live_moves import POLICY
from whimbrel.api.schemas.parameters import BOOLEAN, NAME, Schema, obj, wrapped

_NAME: Schema = {**ZONE, "type": "string"}
_OR_NULL = {"type": ["string", "null"]}

RENAME = Body({1: wrapped("zone", obj({"name": _NAME}, ["name"]))})
MOVE = Body(
    {
        1: wrapped(
            "move",
            obj(
                {
                    "availability_zone": ZONE,
                    "host": {**HOST, **_OR_NULL},
                    "leave_zone": BOOLEAN,
                    "flavor": {**NAME, **_OR_NULL},
                    "live": BOOLEAN,
                    "policy": POLICY,
                }
            ),
        )
    }
)
