"""Lists that fit a terminal: the formatter of the client breaks words over lines, or exceeds the terminal.

Invariant: a pipe, `-f json`, `-f value` and the other formats get every column, and whole ids.
"""

import argparse
import shutil
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TextIO

from whimbrel.domain.id_prefixes import short_ids

FRAME = 3
"""Width that the frame takes for each column; one more at the end."""
SHORTEST_NAME = 4

Row = tuple[Any, ...]


class Kinds(NamedTuple):
    """Names of columns. left_out: those that there may be no room for, in this order."""

    ids: Sequence[str]
    left_out: Sequence[str]
    names: Sequence[str]


def fitted(
    columns: Sequence[str], rows: Iterable[Row], kinds: Kinds, options: argparse.Namespace, output: TextIO
) -> tuple[Sequence[str], list[Row]]:
    """Return the columns and rows for the table of a list. On a terminal that is too narrow ids are shortened to unique
    prefixes, columns are left out, and names are cut, until it fits.

    options: of the command: its format, and its columns.
    """
    listed = list(rows)
    if options.formatter != "table" or options.fit_width or options.max_width or not output.isatty():
        return columns, listed
    if options.columns:
        kinds = Kinds(*([name for name in names if name in options.columns] for names in kinds))._replace(left_out=())
        chosen = [number for number, name in enumerate(columns) if name in options.columns]
        columns, listed = [columns[number] for number in chosen], [tuple(row[n] for n in chosen) for row in listed]
    return fitted_to(shutil.get_terminal_size().columns, columns, listed, kinds)


def fitted_to(width: int, columns: Sequence[str], rows: list[Row], kinds: Kinds) -> tuple[Sequence[str], list[Row]]:
    """As `fitted`, for a terminal of this width."""
    for name in kinds.ids:
        if _excess(width, columns, rows) > 0:
            rows = _changed(columns, rows, name, short_ids(_words(columns, rows, name)))
    for name in kinds.left_out:
        if _excess(width, columns, rows) > 0:
            at = columns.index(name)
            columns, rows = (*columns[:at], *columns[at + 1 :]), [(*row[:at], *row[at + 1 :]) for row in rows]
    while kinds.names and _excess(width, columns, rows) > 0:
        longest = max(kinds.names, key=lambda name: _length(columns, rows, name))
        length = _length(columns, rows, longest)
        if length <= max(SHORTEST_NAME, len(longest)):
            break
        words = _words(columns, rows, longest)
        rows = _changed(columns, rows, longest, {word: _cut(word, length - 1) for word in words})
    return columns, rows


def _excess(width: int, columns: Sequence[str], rows: list[Row]) -> int:
    return sum(max(len(name), _length(columns, rows, name)) + FRAME for name in columns) + 1 - width


def _length(columns: Sequence[str], rows: list[Row], name: str) -> int:
    return max(map(len, _words(columns, rows, name)), default=0)


def _words(columns: Sequence[str], rows: list[Row], name: str) -> list[str]:
    at = columns.index(name)
    return [str(row[at]) for row in rows]


def _changed(columns: Sequence[str], rows: list[Row], name: str, changes: dict[str, str]) -> list[Row]:
    at = columns.index(name)
    return [(*row[:at], changes[str(row[at])], *row[at + 1 :]) for row in rows]


def _cut(word: str, length: int) -> str:
    return word if len(word) <= length else f"{word[: length - 1]}…"
