"""Schemas of plans."""

from whimbrel.api.http.schema import Body
from whimbrel.api.schemas.parameters import BOOLEAN, NAME, UUID, Schema, obj, wrapped
from whimbrel.api.schemas.servers import FLAVOR, HOST


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


CREATE = Body(
    {
        1: wrapped(
            "plan",
            obj(
                {
                    "server": UUID,
                    "server_group": UUID,
                    "action": {"enum": ["resize", "migrate"]},
                    "flavor": _or_null(FLAVOR),
                    "host": _or_null(HOST),
                    "availability_zone": _or_null(NAME),
                    "live": BOOLEAN,
                },
                ["action"],
            ),
        )
    }
)
