"""Bodies and queries of the proxies to the network service. Source: Nova 34."""

from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.parameters import ANY, NUMBER, UUID, Schema, many, obj, wrapped

_ADDRESS: Schema = {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}
_NULL_OR_TEXT: Schema = {"type": ["string", "null"]}
_TEXT: Schema = {"type": "string", "maxLength": 255}

ALLOCATE = Body({1: {"type": ["object", "null"], "properties": {"pool": _NULL_OR_TEXT}}})
ADD_FLOATING_IP = Body(
    {1: wrapped("addFloatingIp", obj({"address": _ADDRESS, "fixed_address": _ADDRESS}, ["address"]))}
)
REMOVE_FLOATING_IP = Body({1: wrapped("removeFloatingIp", obj({"address": _ADDRESS}, ["address"]))})
_NETWORK_ID: Schema = {"type": ["string", "number"], "minLength": 1, "maxLength": 36}
ADD_FIXED_IP = Body({1: wrapped("addFixedIp", obj({"networkId": _NETWORK_ID}, ["networkId"]))})
REMOVE_FIXED_IP = Body({1: wrapped("removeFixedIp", obj({"address": _ADDRESS}, ["address"]))})


def _open(key: str, properties: dict[str, Schema], required: list[str]) -> Schema:
    """Return the schema of a body in which other keys are ignored."""
    inner = {"type": "object", "properties": properties, "required": required}
    return {"type": "object", "properties": {key: inner}, "required": [key]}


GROUP = Body({1: _open("security_group", {"name": _TEXT, "description": _TEXT}, ["name", "description"])})
RULE = Body(
    {
        1: _open(
            "security_group_rule",
            {"parent_group_id": UUID, "group_id": {"type": ["string", "null"], "format": "any-uuid"}},
            ["parent_group_id"],
        )
    }
)
GROUPS = Query({1: {"limit": many(NUMBER), "offset": many(NUMBER), "all_tenants": many(ANY)}}, strict_from=36)
