"""Where a page of a list goes on: behind the record that was the last one of the page before it."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa


def behind(order: Iterable[tuple[sa.ColumnElement[Any], Any, bool]]) -> sa.ColumnElement[bool]:
    """Say what comes behind a record: equal in the first columns, and further in the next.

    order: the columns of the list's order, with what the record has there, and whether they go down. None has NULLs.
    """
    cases: list[sa.ColumnElement[bool]] = []
    equal: list[sa.ColumnElement[bool]] = []
    for column, value, down in order:
        cases.append(sa.and_(*equal, column < value if down else column > value))
        equal.append(column == value)
    return sa.or_(*cases)
