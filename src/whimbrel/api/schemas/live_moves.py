"""Schemas of live migrations. The actions' are of the whole body."""

from typing import get_args

from whimbrel.api.http.schema import Body
from whimbrel.api.schemas.parameters import BOOLEAN, Schema, obj, wrapped
from whimbrel.api.schemas.servers import HOST
from whimbrel.domain.live_policy import Rung

_HOST: Schema = {"anyOf": [HOST, {"type": "null"}]}
_BLOCK: Schema = {"anyOf": [BOOLEAN, {"enum": ["auto"]}]}


_AMOUNT: Schema = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_SECONDS: Schema = {"type": "number", "minimum": 0, "maximum": 2**31 - 1}

POLICY = obj(
    {
        "longest_pause_ms": _AMOUNT,
        "longer_pause_ms": _AMOUNT,
        "bandwidth_mib_s": _AMOUNT,
        "deadline_s": _SECONDS,
        "rung_s": {**_SECONDS, "exclusiveMinimum": 0},
        "ladder": {"type": "array", "items": {"enum": list(get_args(Rung))}},
    }
)
"""Fields of `LivePolicy` for one live migration."""


def _migrate(**properties: Schema) -> Schema:
    required = [name for name in properties if name != "force"]
    return wrapped("os-migrateLive", obj(properties, required))


MIGRATE_LIVE = Body(
    {
        1: _migrate(host=_HOST, block_migration=BOOLEAN, disk_over_commit=BOOLEAN),
        25: _migrate(host=_HOST, block_migration=_BLOCK),
        30: _migrate(host=_HOST, block_migration=_BLOCK, force=BOOLEAN),
        68: _migrate(host=_HOST, block_migration=_BLOCK),
    }
)

FORCE_COMPLETE = Body({1: wrapped("force_complete", {"type": "null"})})
