"""Journal queries: one statement per set of conditions, compiled once."""

from functools import cache
from typing import Any

import sqlalchemy as sa
from msgspec.structs import asdict
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.global_ import runs
from whimbrel.ports.stores.journal import RunFilter

_WHERE: dict[str, sa.ColumnElement[bool]] = {
    "sagas": runs.c.saga.in_(bindparam("b_sagas", expanding=True)),
    "id_prefix": runs.c.id.startswith(bindparam("b_id_prefix")),
    "subject": runs.c.subject == bindparam("b_subject"),
    "project_id": runs.c.asker_project_id == bindparam("b_project_id"),
    "user_id": runs.c.user_id == bindparam("b_user_id"),
    "statuses": runs.c.status.in_(bindparam("b_statuses", expanding=True)),
    "states": runs.c.state.in_(bindparam("b_states", expanding=True)),
    "changed_since": runs.c.updated_at >= bindparam("b_changed_since"),
    "changed_before": runs.c.updated_at <= bindparam("b_changed_before"),
    "ended_since": runs.c.finished_at >= bindparam("b_ended_since"),
    "ended_before": runs.c.finished_at <= bindparam("b_ended_before"),
    # Older programs leave the column empty.
    "source_host": sa.or_(runs.c.source_host == bindparam("b_source_host"), runs.c.source_host.is_(None)),
    "after": runs.c.number < sa.select(runs.c.number).where(runs.c.id == bindparam("b_after")).scalar_subquery(),
}
"""The condition of each RunFilter field, except the two below."""

# By an expression: SQLite would read all runs of these kinds, and not the index by the time of the end.
_WHERE_ENDED = {**_WHERE, "sagas": runs.c.saga.concat("").in_(bindparam("b_sagas", expanding=True))}


def asked(which: RunFilter) -> tuple[sa.Select[Any], dict[str, Any]]:
    """Return the statement and its values."""
    given = {name: value for name, value in asdict(which).items() if value is not None and name != "only_open"}
    return _listing(tuple(given), which.only_open), {f"b_{name}": value for name, value in given.items()}


@cache
def _listing(given: tuple[str, ...], only_open: bool) -> sa.Select[Any]:
    where = _WHERE_ENDED if "ended_since" in given else _WHERE
    query = sa.select(runs).where(*(where[name] for name in given if name in where))
    if only_open:
        query = query.where(runs.c.finished_at.is_(None))
    if "limit" in given:
        return fixed(query.order_by(runs.c.number.desc()).limit(bindparam("b_limit")))
    # By an expression: SQLite would read all runs in this order, and not the index of those that are open.
    return fixed(query.order_by((runs.c.number + 0).desc()))
