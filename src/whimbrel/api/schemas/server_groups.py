"""Schemas of server groups.

Source: reference of Nova 34, section 2.4, and its list of the versions at which these schemas change.
"""

from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.parameters import ANY, NAME, NUMBER, Schema, many, obj, whole, wrapped

HARD = ("anti-affinity", "affinity")
ALL = (*HARD, "soft-anti-affinity", "soft-affinity")

_NAME_OR_NOTHING: Schema = {"anyOf": [NAME, {"type": "null"}]}


def _with_policies(*known: str) -> Schema:
    one: Schema = {"type": "array", "items": {"enum": list(known)}, "minItems": 1, "maxItems": 1}
    return wrapped("server_group", obj({"name": NAME, "policies": one}, ["name", "policies"]))


_WITH_RULES = obj(
    {"name": NAME, "policy": {"enum": list(ALL)}, "rules": obj({"max_server_per_host": whole(1)})}, ["name", "policy"]
)

CREATE = Body({1: _with_policies(*HARD), 15: _with_policies(*ALL), 64: wrapped("server_group", _WITH_RULES)})
MOVE = Body({1: wrapped("move", obj({"host": _NAME_OR_NOTHING, "zone": _NAME_OR_NOTHING}))})
LIST = Query({1: {"limit": many(NUMBER), "offset": many(NUMBER), "all_projects": many(ANY)}}, strict_from=75)
