"""Schemas of services and hypervisors.

Source: reference of Nova 34, section 2.4, and its list of the versions at which these schemas change.
"""

from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.aggregates import HOST
from whimbrel.api.schemas.parameters import ANY, BOOLEAN, BOOLEAN_WORD, NUMBER, Schema, many, obj, single

_REASON: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_BINARY: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_OLD: dict[str, Schema] = {"host": HOST, "binary": _BINARY, "disabled_reason": _REASON}
_NEW: dict[str, Schema] = {
    "status": {"enum": ["enabled", "disabled"]},
    "disabled_reason": _REASON,
    "forced_down": BOOLEAN,
    "forced_down_reason": _REASON,  # Nova has none
}

UPDATE = Body(
    {
        1: obj(_OLD, ("host", "binary")),
        11: obj(_OLD | {"forced_down": BOOLEAN}, ("host", "binary")),
        53: obj(_NEW),
    }
)
SERVICES = Query({1: {"host": many(ANY), "binary": many(ANY)}}, strict_from=75)

_PAGE: dict[str, Schema] = {"limit": many(NUMBER), "marker": many(ANY)}
_WITH_SERVERS: dict[str, Schema] = {"with_servers": single(BOOLEAN_WORD)}
HYPERVISORS = Query(
    {
        1: {},
        33: _PAGE,
        53: {"limit": single(NUMBER), "marker": single(ANY), "hypervisor_hostname_pattern": single(HOST)}
        | _WITH_SERVERS,
    },
    strict_from=53,
)
HYPERVISOR = Query({1: {}, 53: _WITH_SERVERS}, strict_from=53)
