"""Schemas of consoles."""

from collections.abc import Sequence

from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.parameters import Schema, obj, wrapped

_PROTOCOLS = ("vnc", "spice", "rdp", "serial")
_TYPES = ("novnc", "xvpvnc", "spice-html5", "rdp-html5", "serial")


def _create(protocols: Sequence[str], types: Sequence[str]) -> Schema:
    keys: dict[str, Schema] = {"protocol": {"enum": [*protocols]}, "type": {"enum": [*types]}}
    return wrapped("remote_console", obj(keys, ["protocol", "type"]))


CREATE = Body(
    {
        6: _create(_PROTOCOLS, _TYPES),
        8: _create([*_PROTOCOLS, "mks"], [*_TYPES, "webmks"]),
        99: _create([*_PROTOCOLS, "mks"], [*_TYPES, "webmks", "spice-direct"]),
    }
)


def _action(name: str, types: Sequence[str]) -> Body:
    return Body({1: wrapped(name, obj({"type": {"enum": [*types]}}, ["type"]))})


GET_VNC = _action("os-getVNCConsole", ["novnc", "xvpvnc"])
GET_SPICE = _action("os-getSPICEConsole", ["spice-html5"])
GET_SERIAL = _action("os-getSerialConsole", ["serial"])

TOKEN = Query({1: {}}, strict_from=99)
