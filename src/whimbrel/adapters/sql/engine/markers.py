"""Pagination: the next page begins after the last record of the previous one."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa


def behind(order: Iterable[tuple[sa.ColumnElement[Any], Any, bool]]) -> sa.ColumnElement[bool]:
    """Return the condition that a row follows a record: equal in the first columns, greater (or smaller) in the next.

    order: (column, the record's value, descending) for each column of the list's order. No value is NULL.
    """
    cases: list[sa.ColumnElement[bool]] = []
    equal: list[sa.ColumnElement[bool]] = []
    for column, value, down in order:
        cases.append(sa.and_(*equal, column < value if down else column > value))
        equal.append(column == value)
    return sa.or_(*cases)
