"""Output for people: colours on a terminal, plain lines in a pipe."""

import codecs
import json
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from whimbrel.domain.nouns import counted as counted

PICTURE_WIDTH = 112
PIPE_WIDTH = 10_000  # a pipe has no width; nothing may be cut

SPANS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def console(picture: bool = False, *, of_errors: bool = False) -> Console:
    """Make a console. picture: it records its output for an export. of_errors: it writes to standard error."""
    width = PICTURE_WIDTH if picture else None
    made = Console(highlight=False, soft_wrap=False, record=picture, width=width, stderr=of_errors)
    if not made.is_terminal and not picture:
        made.width = PIPE_WIDTH
    return made


def plain_table(*columns: str) -> Table:
    """Make a table without lines: readable in a pipe too."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column == "took" else "left")
    return table


def write_json(document: Any) -> None:
    """Write one JSON document on one line and flush it: a program may be reading.

    JSON is UTF-8; where standard output has another encoding, letters beyond ASCII are escaped.
    """
    text = msgspec.json.encode(document)
    if not text.isascii() and sys.stdout and codecs.lookup(sys.stdout.encoding or "ascii").name != "utf-8":
        print(json.dumps(json.loads(text), separators=(",", ":")), flush=True)
    else:
        print(text.decode(), flush=True)


def seconds(took_s: float) -> str:
    """Return a duration with its significant digits."""
    return f"{took_s * 1000:.0f} ms" if took_s < 1 else f"{took_s:.1f} s"


def span(took_s: float) -> str:
    """Return a long duration in its largest unit, rounded down."""
    for length, unit in SPANS:
        if took_s >= length:
            return f"{int(took_s / length)} {unit}"
    return f"{max(int(took_s), 0)} s"


def moment(when: float | None) -> str:
    """Return a time in UTC, with the day only if it is not today."""
    if when is None:
        return "-"
    at = datetime.fromtimestamp(when, UTC)
    return at.strftime("%H:%M:%S" if at.date() == datetime.now(UTC).date() else "%Y-%m-%d %H:%M:%S")
