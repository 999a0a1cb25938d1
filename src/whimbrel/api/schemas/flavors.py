"""Schemas of flavors, their extra specs and their access lists.

Source: reference of Nova 34, section 2.4, and its list of the versions at which these schemas change.
"""

from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.parameters import ANY, BOOLEAN, DESCRIPTION, NAME, NUMBER, Schema, many, obj, whole, wrapped

FACTOR: Schema = {
    "type": ["number", "string"],
    "pattern": r"^[0-9]{1,38}(\.[0-9]{1,38})?$",
    "exclusiveMinimum": 0,
    "maximum": 3.4e38,
}
FLAVOR_ID: Schema = {
    "type": ["string", "number", "null"],
    "minLength": 1,
    "maxLength": 255,
    "pattern": "^[a-zA-Z0-9._-]([a-zA-Z0-9. _-]*[a-zA-Z0-9._-])?$",
    "minimum": -(2**63),
    "maximum": 2**63,
}
LONG_DESCRIPTION: Schema = {**DESCRIPTION, "maxLength": 65535}

_CREATE: dict[str, Schema] = {
    "name": NAME,
    "id": FLAVOR_ID,
    "ram": whole(1),
    "vcpus": whole(1),
    "disk": whole(0),
    "OS-FLV-EXT-DATA:ephemeral": whole(0),
    "swap": whole(0),
    "rxtx_factor": FACTOR,
    "os-flavor-access:is_public": BOOLEAN,
}
_DESCRIBED = _CREATE | {"description": LONG_DESCRIPTION}
_NEEDED = ("name", "ram", "vcpus", "disk")

CREATE = Body(
    {
        1: wrapped("flavor", obj(_CREATE, _NEEDED)),
        55: wrapped("flavor", obj(_DESCRIBED, _NEEDED)),
        102: wrapped("flavor", obj({key: _DESCRIBED[key] for key in _DESCRIBED if key != "rxtx_factor"}, _NEEDED)),
    }
)
UPDATE = Body({55: wrapped("flavor", obj({"description": LONG_DESCRIPTION}, ("description",)))})

_LIST: dict[str, Schema] = {
    "limit": many(NUMBER),
    **{key: many(ANY) for key in ("marker", "is_public", "minRam", "minDisk", "sort_key", "sort_dir")},
}
LIST = Query({1: _LIST, 102: _LIST | {"name": many(ANY)}}, strict_from=75)

KEY_PATTERN = "^[a-zA-Z0-9-_:. ]{1,255}$"
SPEC_VALUE: Schema = {"type": ["string", "number"], "maxLength": 255}
_SPECS: Schema = {"type": "object", "patternProperties": {KEY_PATTERN: SPEC_VALUE}, "additionalProperties": False}

ADD_SPECS = Body({1: wrapped("extra_specs", _SPECS)})
SET_SPEC = Body({1: {**_SPECS, "minProperties": 1, "maxProperties": 1}})

_PROJECT: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
ADD_ACCESS = Body({1: wrapped("addTenantAccess", obj({"tenant": _PROJECT}, ("tenant",)))})
REMOVE_ACCESS = Body({1: wrapped("removeTenantAccess", obj({"tenant": _PROJECT}, ("tenant",)))})
