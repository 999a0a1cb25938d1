"""Schemas of a server's metadata and tags."""

from whimbrel.api.http.schema import Body
from whimbrel.api.schemas.parameters import METADATA, Schema, obj
from whimbrel.api.schemas.servers import MAX_TAGS, TAG

_ONE: Schema = {**METADATA, "minProperties": 1, "maxProperties": 1}

METADATA_ALL = Body({1: obj({"metadata": METADATA}, ["metadata"])})
METADATA_ONE = Body({1: obj({"meta": _ONE}, ["meta"])})

NO_BODY = Body({26: {"type": "null"}})
TAGS = Body({26: obj({"tags": {"type": "array", "items": TAG, "maxItems": MAX_TAGS}}, ["tags"])})
