"""Lists of objects on a terminal: one line for each object, whatever the width of the terminal.

Invariant: no word is broken over lines. Where a list does not fit, the reason has a line of its own below its object;
if that is not enough, ids are shortened to unique prefixes, which commands accept as well, and names are cut. In a
pipe each object has one line, however long.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whimbrel.cli.terminal import plain_table
from whimbrel.domain.id_prefixes import short_ids

INDENT = 4
"""Of a reason below its object."""
UNLIMITED = 10_000

Cell = str | Text | None
"""None: it has none."""


class Column(NamedTuple):
    """kind: what becomes of it where the list does not fit: an id is shortened, a name is cut, a word stays as it is,
    `more` is left out, and a reason has a line of its own. narrow: the header there, if it is another one.
    """

    header: str
    kind: Literal["id", "name", "word", "more", "reason"] = "word"
    narrow: str | None = None


class Listing:
    def __init__(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], none: str = "") -> None:
        """none: what is shown if there are no rows."""
        self._columns = columns
        self._rows = [[_text(cell, column) for cell, column in zip(row, columns, strict=True)] for row in rows]
        self._none = none

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._rows and self._none:
            yield Text(self._none)
            return
        table = self._table()
        if (width := _width(console, options, table)) <= options.max_width:
            yield table
        elif console.is_terminal:
            yield from self._with_reasons_below(console, options)
        else:
            yield from console.render(table, options.update(max_width=width))

    def _with_reasons_below(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table(without=("reason",))
        if _width(console, options, table) > options.max_width:
            table = self._table(without=("reason", "more"), is_narrow=True)
        head, *lines = console.render_lines(table, options, new_lines=True)
        yield from head
        for row, line in zip(self._rows, lines, strict=True):
            yield from line
            reasons = [cell.plain for cell, column in zip(row, self._columns, strict=True) if column.kind == "reason"]
            if reason := "; ".join(filter(None, reasons)):
                yield Padding(Text(reason, "dim"), (0, 0, 0, INDENT))

    def _table(self, *, without: Sequence[str] = (), is_narrow: bool = False) -> Table:
        """Make the table. without: kinds of columns that are left out. is_narrow: shorten ids, and cut names."""
        shown = [number for number, column in enumerate(self._columns) if column.kind not in without]
        table = plain_table()
        for number in shown:
            header, kind, narrow = self._columns[number]
            header = narrow if is_narrow and narrow else header
            is_cut = is_narrow and kind == "name"
            table.add_column(_cut(Text(header)) if is_cut else header, no_wrap=not is_cut, overflow="ellipsis")
        short = self._short_ids() if is_narrow else {}
        for row in self._rows:
            table.add_row(*(short.get(row[number].plain, row[number]) for number in shown))
        return table

    def _short_ids(self) -> Mapping[str, Text]:
        found: dict[str, Text] = {}
        for number, column in enumerate(self._columns):
            if column.kind == "id":
                ids = [row[number].plain for row in self._rows]
                found |= {id: Text(short) for id, short in short_ids(ids).items()}
        return found


def _text(cell: Cell, column: Column) -> Text:
    if cell is None:
        return Text("" if column.kind == "reason" else "-")
    text = Text(cell) if isinstance(cell, str) else cell.copy()
    text.plain = " ".join(text.plain.split("\n"))
    return _cut(text) if column.kind == "name" else text


def _cut(text: Text) -> Text:
    """Return a text that is cut if it does not fit, instead of broken over lines."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _width(console: Console, options: ConsoleOptions, table: Table) -> int:
    """Return the width that the table needs."""
    return Measurement.get(console, options.update(max_width=UNLIMITED), table).maximum
