"""Schemas of actions on a server. They are of the whole body."""

from whimbrel.api.http.schema import Body
from whimbrel.api.schemas.parameters import METADATA, NAME, Schema, obj, wrapped
from whimbrel.api.schemas.servers import DISK_CONFIG, FLAVOR, HOST

_NULL: Schema = {"type": "null"}

ANYTHING = Body({})
"""Actions whose arguments Nova does not check."""

REBOOT = Body(
    {1: wrapped("reboot", obj({"type": {"enum": ["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]}}, ["type"]))}
)

RESIZE = Body({1: wrapped("resize", obj({"flavorRef": FLAVOR, "OS-DCF:diskConfig": DISK_CONFIG}, ["flavorRef"]))})

MIGRATE = Body({56: wrapped("migrate", {"anyOf": [_NULL, obj({"host": {"anyOf": [HOST, _NULL]}})]})})

RESET_STATE = Body({1: wrapped("os-resetState", obj({"state": {"enum": ["active", "error"]}}, ["state"]))})

LOCK = Body(
    {
        73: wrapped(
            "lock",
            {
                "anyOf": [
                    _NULL,
                    obj({"locked_reason": {"type": "string", "minLength": 1, "maxLength": 255}}, ["locked_reason"]),
                ]
            },
        )
    }
)

CREATE_IMAGE = Body({1: wrapped("createImage", obj({"name": NAME, "metadata": METADATA}, ["name"]))})

CONSOLE_OUTPUT = Body(
    {
        1: wrapped(
            "os-getConsoleOutput",
            obj(
                {
                    "length": {
                        "type": ["integer", "string", "null"],
                        "pattern": "^-?[0-9]{1,9}$",
                        "minimum": -1,
                        "maximum": 2**31 - 1,
                    }
                }
            ),
        )
    }
)
