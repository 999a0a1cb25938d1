"""Schemas of maintenances."""

from whimbrel.api.http.schema import Body
from whimbrel.api.schemas.parameters import BOOLEAN, NAME, Schema, obj, wrapped

_BUDGET: Schema = {"type": "integer", "minimum": 1, "maximum": 10_000}
_PLAN: dict[str, Schema] = {
    "name": NAME,
    "hosts": {"type": "array", "items": NAME, "minItems": 1, "maxItems": 1000},
    "availability_zone": NAME,
    "aggregate": NAME,
    "cell": NAME,
    "goal": {"enum": ["empty", "balance", "pack"]},
    "spread": {"type": "integer", "minimum": 1, "maximum": 100},
    "allow_downtime": BOOLEAN,
    "on_drift": {"enum": ["replan", "pause"]},
    "at_once": _BUDGET,
    "host_at_once": _BUDGET,
    "group_at_once": _BUDGET,
    "zone_at_once": _BUDGET,
    "aggregate_at_once": _BUDGET,
    "project_at_once": _BUDGET,
    "most_failed": {"type": "integer", "minimum": 0, "maximum": 10_000},
    "windows": {"type": "array", "items": {"type": "string", "maxLength": 64}, "maxItems": 20},
    "time_zone": NAME,
}
PLAN = Body({1: wrapped("maintenance", obj(_PLAN))})
_NOTHING: Schema = {"type": "null"}
START = Body({1: wrapped("start", _NOTHING)})
PAUSE = Body({1: wrapped("pause", _NOTHING)})
RESUME = Body({1: wrapped("resume", {"oneOf": [_NOTHING, obj({"retry_failed": BOOLEAN})]})})
ABORT = Body({1: wrapped("abort", _NOTHING)})
