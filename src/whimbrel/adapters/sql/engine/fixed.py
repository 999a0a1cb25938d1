"""Statements that are defined once and run often: each is compiled once and then sent to the database as text.

For a small statement SQLAlchemy takes several times as long as the database, mostly for repeated compilation. A fixed
statement is compiled by SQLAlchemy, with its types, when it first runs, and never again. `run_fixed` executes it on
SQLite, wire.py on PostgreSQL.
"""

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.sql import visitors

Values = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
Statement = TypeVar("Statement", bound=sa.Executable)

_texts: dict[sa.Executable, dict[tuple[str | int, ...], "Text"]] = {}
"""By fixed statement: (dialect, names of its values) -> its text; if values are lists (IN), also by their lengths."""

_SCHEMA = "schema_of_the_statement"
_WITH_SCHEMA = {"schema_translate_map": {None: _SCHEMA}, "render_schema_translate": True}
"""PostgreSQL's statements name the schema of each table: its plans depend on the search path, which need not change."""

_ROOM = 64
"""How many texts are kept per statement; only statements with lists of varying length have several."""


def fixed(statement: Statement) -> Statement:
    """Register a statement that lives as long as its module; only its bound values vary."""
    _texts[statement] = {}
    return statement


def is_fixed(statement: sa.Executable) -> bool:
    return statement in _texts


def run_fixed(
    driver: sqlite3.Connection, dialect: sa.Dialect, statement: sa.Executable, values: Values
) -> "FixedResult":
    """Run a fixed statement; for a sequence of values, run it for each and return no rows. Raises: sqlite3.Error."""
    if values is None or isinstance(values, dict | Mapping):  # a dictionary is recognized much sooner
        one = values or {}
        text = text_of(dialect, statement, one)
        cursor = driver.execute(text.sql, text.bound(one))
        return FixedResult(text.rows(cursor, lambda: cursor.description), cursor.rowcount)
    text = text_of(dialect, statement, values[0])
    return FixedResult([], driver.executemany(text.sql, [text.bound(each) for each in values]).rowcount)


class FixedResult:
    """The result of a fixed statement: the part of SQLAlchemy's result that the stores use."""

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def all(self) -> list[Any]:
        return self._rows

    def first(self) -> Any | None:
        return self._rows[0] if self._rows else None

    def scalar(self) -> Any:
        return self._rows[0][0] if self._rows else None


def text_of(dialect: sa.Dialect, statement: sa.Executable, values: Mapping[str, Any]) -> "Text":
    """Return the text of a fixed statement for values of these names, and lists of these lengths."""
    texts = _texts[statement]
    key: tuple[str | int, ...] = (dialect.name, *values)
    text = texts.get(key)
    if text is None or text.has_lists:
        lengths = [len(value) for value in values.values() if isinstance(value, list | tuple)]
        text = texts.get((*key, *lengths)) or _compiled(dialect, statement, values, key, lengths)
    return text


def _compiled(
    dialect: sa.Dialect,
    statement: sa.Executable,
    values: Mapping[str, Any],
    key: tuple[str | int, ...],
    lengths: list[int],
) -> "Text":
    texts = _texts[statement]
    if len(texts) >= _ROOM:
        texts.clear()
    text = texts[key] = texts[*key, *lengths] = Text(dialect, statement, values)
    return text


class Text:
    """A statement as text, with SQLAlchemy's conversions of bound values and of results."""

    def __init__(self, dialect: sa.Dialect, statement: Any, values: Mapping[str, Any]) -> None:
        if dialect.name == "sqlite":
            statement = _with_literals(statement, values)
        schema = _WITH_SCHEMA if dialect.name == "postgresql" else {}
        assert not (schema and _is_text(statement)), "the schema of its tables is not known"
        compiled = statement.compile(dialect=dialect, column_keys=list(values), **schema)
        constants = compiled.construct_params(_check=False)
        expanded = compiled.construct_expanded_state(constants | values)
        ins = {
            name: bind.type.dialect_impl(dialect).bind_processor(dialect)
            for bind, name in compiled.bind_names.items()
            if not isinstance(bind.type, sa.LargeBinary)  # it would wrap bytes, which both drivers take as they are
        }
        self.sql: str = expanded.statement
        self.order: Sequence[str] = expanded.positiontup or ()
        """The names of positional values in order; empty if the dialect binds by name."""
        self._lists = expanded.parameter_expansion
        self.has_lists = bool(self._lists)
        self._constants = {name: value for name, value in constants.items() if name not in values}
        self._ins = [(name, process) for name, process in ins.items() if process]
        self._is_plain = not (self._constants or self._ins or self._lists)
        self._dialect = dialect
        self._columns = [column.type for column in statement.exported_columns]
        self._make: Callable[[Sequence[Any]], Any] | None = None

    def sql_in(self, schema: str) -> str:
        """Return the text for a schema of PostgreSQL. schema: its quoted name."""
        return self.sql.replace(_SCHEMA, schema)

    def bound(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the driver binds; the values themselves if nothing is added or converted."""
        if self._is_plain and isinstance(values, dict):
            return values
        bound = {**self._constants, **values}
        for name, process in self._ins:
            bound[name] = process(bound[name])
        for name, each in self._lists.items():
            bound.update(zip(each, bound.pop(name), strict=True))
        return bound

    def rows(self, rows: Iterable[Sequence[Any]], describe: Callable[[], Sequence[Sequence[Any]]]) -> list[Any]:
        """Convert the database's rows. describe: returns name and type of each column as reported by the database."""
        if not self._columns:
            return []
        if self._make is None:
            self._make = self._maker(describe())
        return list(map(self._make, rows))

    def _maker(self, described: Sequence[Sequence[Any]]) -> Callable[[Sequence[Any]], Any]:
        plain = namedtuple("plain", [each[0] for each in described], rename=True)  # type: ignore[misc]
        kind: Any = type("Row", (plain,), {"__slots__": (), "_mapping": property(plain._asdict)})
        processes = [
            column.dialect_impl(self._dialect).result_processor(self._dialect, each[1])
            for column, each in zip(self._columns, described, strict=True)
        ]
        if not any(processes):
            return partial(tuple.__new__, kind)  # what kind._make does, without a Python call per row
        return partial(_processed, kind, [(at, process) for at, process in enumerate(processes) if process])


def _is_text(statement: Any) -> bool:
    return any(isinstance(each, sa.TextClause) for each in visitors.iterate(statement))


def _with_literals(statement: Any, values: Mapping[str, Any]) -> Any:
    """Return the statement with its constant texts and numbers in its text instead of bound.

    SQLite compiles a statement anew each time that a value is bound that it compared with the condition of a partial
    index. Source: sqlite3_prepare_v3(), "might influence the choice of query plan".
    """

    def literal(element: Any) -> Any:
        is_constant = isinstance(element, sa.BindParameter) and element.key not in values
        if is_constant and type(element.value) in (str, int, bool) and not element.expanding:
            return element.render_literal_execute()
        return None

    return visitors.replacement_traverse(statement, {}, lambda element, **_: literal(element))


def _processed(kind: Any, outs: Sequence[tuple[int, Callable[[Any], Any]]], row: Sequence[Any]) -> Any:
    """Make a row; `outs`: (index, conversion) of each value that is converted."""
    values = list(row)
    for at, process in outs:
        values[at] = process(values[at])
    return tuple.__new__(kind, values)
