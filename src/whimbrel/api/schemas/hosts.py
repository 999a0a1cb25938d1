"""Schemas of hosts, for operators and for agents that join."""

from whimbrel.api.http.schema import Body
from whimbrel.api.schemas.parameters import BOOLEAN, DESCRIPTION, Schema, obj, wrapped

_NAME: Schema = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"}
_CELL: Schema = {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,30}$"}
_SECRET: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]{20,100}$"}
_PUBLIC_KEY: Schema = {"type": "string", "pattern": "^U[A-Z2-7]{55}$"}

INVITE = Body({1: wrapped("host", obj({"name": _NAME, "cell": _CELL}, ["name"]))})
SWITCH = Body({1: wrapped("host", obj({"enabled": BOOLEAN, "disabled_reason": DESCRIPTION}, ["enabled"]))})
_WORD: dict[str, Schema] = {"forced_down": BOOLEAN, "reason": DESCRIPTION}
FORCE_DOWN = Body({1: wrapped("force_down", obj(_WORD, ["forced_down"]))})
_PACE: dict[str, Schema] = {
    "at_once": {"type": "integer", "minimum": 1, "maximum": 10_000},
    "per_minute": {"type": "integer", "minimum": 0, "maximum": 1_000_000},
    "since": {"type": "number", "minimum": 0},
}
EVACUATE = Body({1: wrapped("evacuation", obj(_PACE))})
FORGET = Body({1: wrapped("forget", {"type": "null"})})
POWER = Body({1: wrapped("power", obj({"state": {"enum": ["off"]}}, ["state"]))})
_JOIN: dict[str, Schema] = {"host": _NAME, "secret": _SECRET, "public_key": _PUBLIC_KEY}
JOIN = Body({1: wrapped("join", obj(_JOIN, list(_JOIN)))})
