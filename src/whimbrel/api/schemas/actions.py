"""Schemas of actions on a server. They are of the whole body."""

from collections.abc import Mapping

from whimbrel.api.http.schema import Body
from whimbrel.api.schemas import servers
from whimbrel.api.schemas.parameters import BOOLEAN, DESCRIPTION, METADATA, NAME, UUID, Schema, obj, whole, wrapped
from whimbrel.api.schemas.servers import DISK_CONFIG, FLAVOR, HOST

_NULL: Schema = {"type": "null"}

ANYTHING = Body({})
"""Actions whose arguments Nova does not check."""

REBOOT = Body(
    {1: wrapped("reboot", obj({"type": {"enum": ["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]}}, ["type"]))}
)

RESIZE = Body({1: wrapped("resize", obj({"flavorRef": FLAVOR, "OS-DCF:diskConfig": DISK_CONFIG}, ["flavorRef"]))})

MIGRATE = Body({56: wrapped("migrate", {"anyOf": [_NULL, obj({"host": {"anyOf": [HOST, _NULL]}})]})})

_TARGET: dict[str, Schema] = {"host": HOST}
_PASSWORD: dict[str, Schema] = {"adminPass": servers.PASSWORD}
EVACUATE = Body(
    {
        1: wrapped("evacuate", obj({**_TARGET, "onSharedStorage": BOOLEAN, **_PASSWORD}, ["onSharedStorage"])),
        14: wrapped("evacuate", obj({**_TARGET, **_PASSWORD})),
        29: wrapped("evacuate", obj({**_TARGET, "force": BOOLEAN, **_PASSWORD})),
        68: wrapped("evacuate", obj({**_TARGET, **_PASSWORD})),
    }
)

_ZONE: Schema = {"type": "string", "minLength": 1, "maxLength": 255}

UNSHELVE = Body(
    {
        77: wrapped("unshelve", {"anyOf": [_NULL, obj({"availability_zone": NAME}, ["availability_zone"])]}),
        91: wrapped(
            "unshelve", {"anyOf": [_NULL, obj({"availability_zone": {"anyOf": [_ZONE, _NULL]}, "host": HOST})]}
        ),
    }
)

RESET_STATE = Body({1: wrapped("os-resetState", obj({"state": {"enum": ["active", "error"]}}, ["state"]))})

LOCK = Body(
    {
        73: wrapped(
            "lock",
            {
                "anyOf": [
                    _NULL,
                    obj({"locked_reason": {"type": "string", "minLength": 1, "maxLength": 255}}),
                ]
            },
        )
    }
)

CHANGE_PASSWORD = Body({1: wrapped("changePassword", obj({"adminPass": servers.PASSWORD}, ["adminPass"]))})

_RESCUE = obj({"adminPass": servers.PASSWORD, "rescue_image_ref": UUID})
RESCUE = Body({1: wrapped("rescue", {"anyOf": [_NULL, _RESCUE]})})

_REBUILD: Mapping[str, Schema] = {
    "name": NAME,
    "imageRef": UUID,
    "adminPass": servers.PASSWORD,
    "metadata": METADATA,
    "preserve_ephemeral": BOOLEAN,
    "OS-DCF:diskConfig": DISK_CONFIG,
    "accessIPv4": servers.ADDRESS_V4,
    "accessIPv6": servers.ADDRESS_V6,
}

# (first minor, key, its schema) of keys that later versions added
_REBUILD_SINCE: tuple[tuple[int, str, Schema], ...] = (
    (19, "description", DESCRIPTION),
    (54, "key_name", {"anyOf": [NAME, _NULL]}),
    (57, "user_data", {"anyOf": [servers.USER_DATA, _NULL]}),
    (63, "trusted_image_certificates", servers.CERTIFICATES),
    (90, "hostname", servers.HOSTNAME),
    (94, "hostname", servers.DOMAIN_NAME),
)


def _rebuild(minor: int) -> Schema:
    keys = dict(_REBUILD) if minor >= 57 else {**_REBUILD, "personality": servers.FILES}
    keys |= {key: schema for since, key, schema in _REBUILD_SINCE if minor >= since}
    return wrapped("rebuild", obj(keys, ["imageRef"]))


REBUILD = Body({minor: _rebuild(minor) for minor in (1, 19, 54, 57, 63, 90, 94)})

MOST = 2**63 - 1

CREATE_IMAGE = Body({1: wrapped("createImage", obj({"name": NAME, "metadata": METADATA}, ["name"]))})

CRASH_DUMP = Body({1: wrapped("trigger_crash_dump", _NULL)})

_BACKUP = obj(
    {"name": NAME, "backup_type": {"type": "string"}, "rotation": whole(0, MOST), "metadata": METADATA},
    ["name", "backup_type", "rotation"],
)
CREATE_BACKUP = Body({1: wrapped("createBackup", _BACKUP)})

CONSOLE_OUTPUT = Body(
    {
        1: wrapped(
            "os-getConsoleOutput",
            obj(
                {
                    "length": {"anyOf": [whole(-1, MOST), _NULL]},
                }
            ),
        )
    }
)
