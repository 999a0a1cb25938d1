"""Schemas of the bodies, by first version."""

from collections.abc import Mapping
from typing import Any

from whimbrel.http.schema import Schema, VersionedSchema
from whimbrel.placement.inventory import MAX_INT
from whimbrel.placement_api.schemas import checker


class Body(VersionedSchema):
    """The schemas of one body. Below the first version a body is not read."""

    def __init__(self, by_minor: Mapping[int, Schema]) -> None:
        super().__init__(by_minor, lambda schema: checker(schema, "JSON does not validate"))


EXACT = 2**53
"""Below it a float represents an integer exactly."""


def whole(value: Any) -> Any:
    """Convert numbers such as 2.0, which a schema accepts as integers, to integers."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < EXACT else value
    if isinstance(value, dict):
        return {name: whole(part) for name, part in value.items()}
    return [whole(part) for part in value] if isinstance(value, list) else value


def _object(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _by_name(pattern: str, schema: Schema, **limits: int) -> Schema:
    return {"type": "object", "patternProperties": {pattern: schema}, "additionalProperties": False, **limits}


UUID_PATTERN = "^[0-9a-fA-F-]{36}$"
CLASS_PATTERN = "^[A-Z0-9_]+$"
CUSTOM_PATTERN = "^CUSTOM_[A-Z0-9_]+$"
GROUP_PATTERN = "^([A-Za-z0-9_-]{1,64})?$"

_UUID = {"type": "string", "format": "uuid"}
_GENERATION = {"type": "integer"}
_TEXT = {"type": "string", "minLength": 1, "maxLength": 255, "format": "no-nul"}

# Providers

_NAME = {"type": "string", "maxLength": 200, "format": "no-nul"}
_PARENT = {"type": ["string", "null"], "format": "uuid"}
NEW_PROVIDER = Body(
    {
        0: _object({"name": _NAME}, {"uuid": _UUID}),
        14: _object({"name": _NAME}, {"uuid": _UUID, "parent_provider_uuid": _PARENT}),
    }
)
PROVIDER = Body({0: _object({"name": _NAME}), 14: _object({"name": _NAME}, {"parent_provider_uuid": _PARENT})})

# Inventories

_POSITIVE = {"type": "integer", "minimum": 1, "maximum": MAX_INT}
_AMOUNTS = {
    "reserved": {"type": "integer", "minimum": 0, "maximum": MAX_INT},
    "min_unit": _POSITIVE,
    "max_unit": _POSITIVE,
    "step_size": _POSITIVE,
    "allocation_ratio": {"type": "number", "maximum": 3.40282e38},
}
_PROVIDER_GENERATION = {"resource_provider_generation": _GENERATION}
INVENTORY = Body({0: _object({"total": _POSITIVE, **_PROVIDER_GENERATION}, _AMOUNTS)})
NEW_INVENTORY = Body(
    {
        0: _object(
            {"total": _POSITIVE, "resource_class": {"type": "string", "pattern": CLASS_PATTERN, "maxLength": 255}},
            {**_AMOUNTS, **_PROVIDER_GENERATION},
        )
    }
)
_ALL_INVENTORIES = _object(
    {
        **_PROVIDER_GENERATION,
        "inventories": _by_name(CLASS_PATTERN, _object({"total": _POSITIVE}, {**_AMOUNTS, **_PROVIDER_GENERATION})),
    }
)
INVENTORIES = Body({0: _ALL_INVENTORIES})

# Aggregates, traits, resource classes

_AGGREGATES = {"type": "array", "items": _UUID, "uniqueItems": True}
AGGREGATES = Body({1: _AGGREGATES, 19: _object({"aggregates": _AGGREGATES, **_PROVIDER_GENERATION})})
_TRAIT = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": CLASS_PATTERN}
TRAITS = Body({6: _object({"traits": {"type": "array", "items": _TRAIT, "uniqueItems": True}, **_PROVIDER_GENERATION})})
_CUSTOM = {"type": "string", "pattern": CUSTOM_PATTERN, "maxLength": 255}
RESOURCE_CLASS = Body({2: _object({"name": _CUSTOM})})

# Allocations

_RESOURCES = _by_name(CLASS_PATTERN, {"type": "integer", "minimum": 1}, minProperties=1)
_OWNER = {"project_id": _TEXT, "user_id": _TEXT}
_LIST = {
    "type": "array",
    "minItems": 1,
    "items": _object({"resource_provider": _object({"uuid": _UUID}), "resources": _RESOURCES}),
}
_BY_PROVIDER = _by_name(UUID_PATTERN, _object({"resources": _RESOURCES}, {"generation": _GENERATION}))
_CONSUMER_GENERATION = {"consumer_generation": {"type": ["integer", "null"]}}
_MAPPINGS = {"mappings": _by_name(GROUP_PATTERN, {"type": "array", "minItems": 1, "items": _UUID}, minProperties=1)}
_TYPE = {"consumer_type": {"type": "string", "pattern": CLASS_PATTERN, "minLength": 1, "maxLength": 255}}

_SINCE_12 = {"allocations": _BY_PROVIDER, **_OWNER}
_SINCE_28 = {**_SINCE_12, **_CONSUMER_GENERATION}
_SINCE_38 = {**_SINCE_28, **_TYPE}
ALLOCATIONS = Body(
    {
        0: _object({"allocations": _LIST}),
        8: _object({"allocations": _LIST, **_OWNER}),
        12: _object({"allocations": {**_BY_PROVIDER, "minProperties": 1}, **_OWNER}),
        28: _object(_SINCE_28),
        34: _object(_SINCE_28, _MAPPINGS),
        38: _object(_SINCE_38, _MAPPINGS),
    }
)
_MANY = {
    13: _by_name(UUID_PATTERN, _object(_SINCE_12)),
    28: _by_name(UUID_PATTERN, _object(_SINCE_28)),
    34: _by_name(UUID_PATTERN, _object(_SINCE_28, _MAPPINGS)),
    38: _by_name(UUID_PATTERN, _object(_SINCE_38, _MAPPINGS)),
}
MANY_ALLOCATIONS = Body({since: {**many, "minProperties": 1} for since, many in _MANY.items()})

# Reshaping: inventories as in a provider's own PUT; providers without allocations need not be named

_SHAPES = _by_name(UUID_PATTERN, _ALL_INVENTORIES, minProperties=1)
RESHAPE = Body(
    {max(since, 30): _object({"inventories": _SHAPES, "allocations": _MANY[since]}) for since in (28, 34, 38)}
)
