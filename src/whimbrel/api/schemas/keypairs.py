"""Schemas of keypairs.

Source: reference of Nova 34, section 2.4, and its list of the versions at which these schemas change.
"""

from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.parameters import ANY, NAME, NUMBER, TEXT, Schema, many, obj, wrapped

_KEY: Schema = {"type": "string", "minLength": 1, "maxLength": 65535}
# 2.92 allows @ and . in names too.
_FREER_NAME: Schema = {**NAME, "pattern": r"^[a-zA-Z0-9@._ -]+$"}
_TYPE: Schema = {"enum": ["ssh", "x509"]}

_START: dict[str, Schema] = {"name": {**NAME, "pattern": r"^[a-zA-Z0-9_ -]+$"}, "public_key": _KEY}
_TYPED = _START | {"type": _TYPE}
_OWNED = _TYPED | {"user_id": TEXT}

CREATE = Body(
    {
        1: wrapped("keypair", obj(_START, ("name",))),
        2: wrapped("keypair", obj(_TYPED, ("name",))),
        10: wrapped("keypair", obj(_OWNED, ("name",))),
        92: wrapped("keypair", obj(_OWNED | {"name": _FREER_NAME}, ("name", "public_key"))),
    }
)

_USER: dict[str, Schema] = {"user_id": many(ANY)}
ONE = Query({1: {}, 10: _USER}, strict_from=75)
LIST = Query({1: {}, 10: _USER, 35: _USER | {"limit": many(NUMBER), "marker": many(ANY)}}, strict_from=75)
