"""Schemas of cells."""

from whimbrel.api.http.schema import Body
from whimbrel.api.schemas.parameters import BOOLEAN, DESCRIPTION, Schema, obj, wrapped

_NAME: Schema = {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,30}$"}
_DATABASE: Schema = {"type": "string", "maxLength": 1000, "minLength": 1}
_PHYSNET: Schema = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}
_STORAGE: Schema = {"type": "string", "pattern": r"^[^@#\s]{1,255}$"}


def _all_or(name: Schema) -> Schema:
    """Return the schema of a list of distinct names; null: all."""
    return {"type": ["array", "null"], "items": name, "uniqueItems": True, "maxItems": 1000}


_CELL: dict[str, Schema] = {
    "name": _NAME,
    "database": _DATABASE,
    "enabled": BOOLEAN,
    "physnets": _all_or(_PHYSNET),
    "storage": _all_or(_STORAGE),
    "migration_network": {**_PHYSNET, "type": ["string", "null"]},
}

ADD = Body({1: wrapped("cell", obj(_CELL, ["name"]))})
SWITCH = Body({1: wrapped("cell", obj({"enabled": BOOLEAN, "disabled_reason": DESCRIPTION}, ["enabled"]))})
