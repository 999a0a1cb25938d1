"""Schemas of a server's interfaces and volumes, and of events of other services.

Source: reference of Nova 34, section 2.4, and its list of the versions at which these schemas change.
"""

from collections.abc import Mapping

from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.parameters import BOOLEAN, NUMBER, UUID, Schema, many, obj, wrapped
from whimbrel.api.schemas.servers import ADDRESS, TAG

# Interfaces

_INTERFACE: Mapping[str, Schema] = {
    "net_id": UUID,
    "port_id": UUID,
    "fixed_ips": {
        "type": "array",
        "minItems": 1,
        "maxItems": 1,
        "items": obj({"ip_address": ADDRESS}, ["ip_address"]),
    },
}

ATTACH_INTERFACE = Body(
    {
        1: obj({"interfaceAttachment": obj(_INTERFACE)}),
        49: obj({"interfaceAttachment": obj({**_INTERFACE, "tag": TAG})}),
    }
)

_GROUP = obj({"name": {"type": "string", "minLength": 1}}, ["name"])

ADD_GROUP = Body({1: wrapped("addSecurityGroup", _GROUP)})
REMOVE_GROUP = Body({1: wrapped("removeSecurityGroup", _GROUP)})

# Volumes

DEVICE: Schema = {"type": ["string", "null"], "pattern": "^/dev/[a-z]+[0-9]*$"}

_VOLUME: Mapping[str, Schema] = {"volumeId": UUID, "device": DEVICE}
_TAGGED: Mapping[str, Schema] = {**_VOLUME, "tag": TAG}

ATTACH_VOLUME = Body(
    {
        1: wrapped("volumeAttachment", obj(_VOLUME, ["volumeId"])),
        49: wrapped("volumeAttachment", obj(_TAGGED, ["volumeId"])),
        79: wrapped("volumeAttachment", obj({**_TAGGED, "delete_on_termination": BOOLEAN}, ["volumeId"])),
    }
)

_CHANGED: Mapping[str, Schema] = {
    **_TAGGED,
    "delete_on_termination": BOOLEAN,
    "serverId": UUID,
    "id": UUID,
}

_SHARE: Mapping[str, Schema] = {
    "share_id": UUID,
    "tag": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9-]*$"},
}

NO_KEYS = Query({97: {}}, strict_from=97)
ATTACH_SHARE = Body({97: wrapped("share", obj(_SHARE, ["share_id"]))})

_ASSISTED: Mapping[str, Schema] = {
    "snapshot_id": {"type": "string", "minLength": 1},
    "type": {"type": "string", "enum": ["qcow2"]},
    "new_file": {"type": "string", "minLength": 1},
    "id": {"type": "string", "minLength": 1},
}
_SNAPSHOT: Mapping[str, Schema] = {
    "volume_id": {"type": "string", "minLength": 1},
    "create_info": obj(_ASSISTED, ["snapshot_id", "type", "new_file"]),
}

ASSISTED_SNAPSHOT = Body({1: wrapped("snapshot", obj(_SNAPSHOT, ["volume_id", "create_info"]))})
DELETE_ASSISTED = Query({1: {"delete_info": many({"type": "string"})}}, strict_from=75)

CHANGE_VOLUME = Body(
    {
        1: wrapped("volumeAttachment", obj({"volumeId": UUID}, ["volumeId"])),
        85: wrapped("volumeAttachment", obj(_CHANGED, ["volumeId"])),
    }
)

VOLUMES = Query({1: {"limit": many(NUMBER), "offset": many(NUMBER)}}, strict_from=75)

# Events of other services

_NAMES_SINCE: tuple[tuple[int, tuple[str, ...]], ...] = (
    (1, ("network-changed", "network-vif-plugged", "network-vif-unplugged", "network-vif-deleted")),
    (51, ("volume-extended",)),
    (76, ("power-update",)),
    (82, ("accelerator-request-bound",)),
    (93, ("volume-reimaged",)),
)


def _events(minor: int) -> Schema:
    names = [name for since, some in _NAMES_SINCE if minor >= since for name in some]
    event = {
        "server_uuid": UUID,
        "name": {"enum": names},
        "status": {"enum": ["failed", "completed", "in-progress"]},
        "tag": {"type": "string", "maxLength": 255},
    }
    one = obj(event, ["server_uuid", "name"])
    return obj({"events": {"type": "array", "minItems": 1, "items": one}}, ["events"])


EVENTS = Body({minor: _events(minor) for minor, _ in _NAMES_SINCE})
