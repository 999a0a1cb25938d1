"""Schemas of aggregates.

Source: reference of Nova 34, section 2.4.
"""

from whimbrel.api.http.schema import Body
from whimbrel.api.schemas.parameters import NAME, UUID, Schema, obj, wrapped

HOST: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9-._]*$"}
# No colon, because a request for a server may contain zone:host:node.
ZONE: Schema = {**NAME, "pattern": "^[^:]*$", "type": ["string", "null"]}
METADATA_OR_NULL: Schema = {
    "type": "object",
    "patternProperties": {"^[a-zA-Z0-9-_:. ]{1,255}$": {"type": ["string", "null"], "maxLength": 255}},
    "additionalProperties": False,
}

_AGGREGATE: dict[str, Schema] = {"name": NAME, "availability_zone": ZONE}

CREATE = Body({1: wrapped("aggregate", obj(_AGGREGATE, ("name",)))})
_CHANGED: dict[str, Schema] = {**_AGGREGATE, "name": {**NAME, "format": "wider-name"}}
UPDATE = Body({1: wrapped("aggregate", {**obj(_CHANGED), "minProperties": 1})})
ADD_HOST = Body({1: wrapped("add_host", obj({"host": HOST}, ("host",)))})
REMOVE_HOST = Body({1: wrapped("remove_host", obj({"host": HOST}, ("host",)))})
SET_METADATA = Body({1: wrapped("set_metadata", obj({"metadata": METADATA_OR_NULL}, ("metadata",)))})
IMAGES = Body({81: obj({"cache": {"type": "array", "minItems": 1, "items": obj({"id": UUID}, ("id",))}}, ("cache",))})
