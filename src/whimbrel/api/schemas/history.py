"""Schemas of the queries of lists (actions, migrations, moves) and of a server's history."""

from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.parameters import ANY, BOOLEAN_WORD, NUMBER, TIME, UUID, Schema, many, obj, single

_PAGE: dict[str, Schema] = {"limit": single(NUMBER), "marker": single(ANY), "changes-since": single(TIME)}
_BEFORE: dict[str, Schema] = {"changes-before": single(TIME)}

ACTIONS = Query({1: {}, 58: _PAGE, 66: _PAGE | _BEFORE}, strict_from=58)

_MIGRATIONS: dict[str, Schema] = {
    key: many(ANY) for key in ("hidden", "host", "instance_uuid", "source_compute", "status", "migration_type")
}
_MIGRATIONS_PAGED = _MIGRATIONS | _PAGE | {"marker": single(UUID)}

MIGRATIONS = Query(
    {
        1: _MIGRATIONS,
        59: _MIGRATIONS_PAGED,
        66: _MIGRATIONS_PAGED | _BEFORE,
        80: _MIGRATIONS_PAGED | _BEFORE | {"user_id": single(ANY), "project_id": single(ANY)},
    },
    strict_from=59,
)

MOVES = Query(
    {
        1: {
            "open": single(BOOLEAN_WORD),
            "server": single(ANY),
            "server_id": single(ANY),  # the same
            "id_prefix": single({"type": "string", "pattern": "^[0-9a-f-]{1,36}$"}),
            "limit": single(NUMBER),
            "kind": single({"enum": ["move", "any"]}),
            "state": many({"enum": ["open", "parked", "done", "undone"]}),
            "host": single(ANY),  # source or target
            "changes-since": single(TIME),
        }
    },
    strict_from=1,
)
SERVER = Query({1: {"at": single(TIME)}}, strict_from=1)
_NOTHING: Schema = {"type": "null"}
RETRY = Body({1: obj({"retry": _NOTHING}, ["retry"])})
GIVE_UP_SOURCE = Body({1: obj({"give_up_source": _NOTHING}, ["give_up_source"])})
TURN_BACK = Body({1: obj({"turn_back": _NOTHING}, ["turn_back"])})
COMPLETE = Body({1: obj({"complete": _NOTHING}, ["complete"])})
