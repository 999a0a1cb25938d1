"""Output of the history of a server: a line for each event, and the state at a time."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from msgspec import UNSET
from rich.console import Group, RenderableType
from rich.text import Text

from whimbrel.api.views.histories import Entry, History, UnderWay
from whimbrel.cli.listing import Column, Listing
from whimbrel.cli.move_view import OUTCOMES, STATES, WAYS
from whimbrel.cli.terminal import moment, plain_table, seconds
from whimbrel.domain.errors import Invalid

KINDS = {
    "asked": "bold",
    "verdict": "bold",
    "takeover": "yellow",
    "trouble": "red",
    "debt": "bold red",
    "paid": "green",
}

COLUMNS = (Column("when"), Column(""), Column("what"), Column("took", "more"), Column("outcome"),
           Column("who, why", "reason"))  # fmt: skip

_DAY = re.compile(r"\d{4}-(\d\d-|W)|\d{8}")
"""Prefix of a time with a date; a UTC offset has a hyphen too, as in 10:00:00-05:00."""


def time_asked(text: str) -> str:
    """Convert a typed time for the API; without an offset it is UTC, without a date it is today.

    Raises: Invalid.
    """
    now = datetime.now(UTC)
    try:
        when = datetime.fromisoformat(text if _DAY.match(text) else f"{now.date()}T{text}")
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise Invalid(
            f"--at {text} is no time: give one such as 2026-01-31T10:00:00, or 10:00:00 for today, in UTC"
        ) from None


def whole(history: History) -> RenderableType:
    """Show the state if a time was given, else all events."""
    if history.at is not UNSET:
        return Group(*_state(history, history.at))
    if not history.entries:
        return Text("nothing is known of it")
    rows: list[Sequence[Text]] = []
    day = ""
    for entry in history.entries:
        today = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d")
        if today != day:
            rows.append((Text(today, "dim"), *(Text() for _ in COLUMNS[1:])))
            day = today
        rows.append([_styled(cell, KINDS.get(entry.kind, "")) for cell in _row(entry, history.project_id)])
    return Listing(COLUMNS, rows)


def _styled(cell: Text | str, style: str) -> Text:
    text = Text(cell) if isinstance(cell, str) else cell
    text.stylize_before(style)
    return text


def _row(entry: Entry, project_id: str | None) -> Iterator[Text | str]:
    yield datetime.fromtimestamp(entry.at, UTC).strftime("%H:%M:%S.%f")[:-3]
    yield WAYS.get(entry.way or "", "") if entry.kind in ("step", "debt", "paid") else ""
    yield _what(entry)
    yield Text(seconds(entry.took_s) if entry.took_s is not None else "", justify="right")
    outcome = {"debt": "owed", "paid": "paid"}.get(entry.kind, entry.outcome or "")
    yield Text(outcome, OUTCOMES.get(entry.outcome or "", ""))
    yield Text(_why(entry, project_id))


def _what(entry: Entry) -> Text:
    match entry.kind:
        case "asked" | "verdict":
            return Text(entry.what)
        case "takeover":
            return Text("  taken over")
        case "choice":
            return Text("    chose")
        case "agreed":
            return Text(f"    is to {entry.what}")
        case "trouble":
            return Text(f"  waits at {entry.what}")
        case "ended":
            return Text.assemble(f"  {entry.move_kind} is ", (entry.what, STATES.get(entry.what, "")))
    return Text(f"  {entry.what}")


def _why(entry: Entry, project_id: str | None) -> str:
    match entry.kind:
        case "asked" | "verdict":
            project = entry.project_name or entry.project_id
            other = "" if entry.project_id == project_id else f" of project {project}"
            note = f"; {entry.detail}" if entry.detail else ""
            return f"user {entry.user_name or entry.user_id}{other}{note}"
        case "takeover" if entry.before:
            return f"by {entry.after}: the lease of {entry.before} had run out (epoch {entry.epoch})"
        case "takeover":
            return "another conductor goes on with it"
        case "choice":
            return f"{', '.join(entry.chosen)}: {entry.summary}" if entry.chosen else entry.summary or ""
    return entry.detail or ""


def _state(history: History, at: float) -> Iterator[RenderableType]:
    state = history.state
    yield Text.assemble("server ", (history.server_id, "bold"), f" at {moment(at)} UTC")
    if not state:
        yield Text("It was not there yet.")
        return
    lines = {
        "vm_state": state.vm_state or "not known: an administrator set it",
        "flavor": state.flavor,
        "host": state.host and f"{state.host} (cell {state.cell})",
        "zone": state.availability_zone,
    }
    table = plain_table("", "")
    table.show_header = False
    for name, value in lines.items():
        if value:
            table.add_row(name, value)
    for run in state.under_way:
        table.add_row("under way", _under_way(run))
    yield table
    if history.entries:
        last = history.entries[-1]
        yield Text.assemble("The last that had happened: ", _what(last).plain.strip(), f", at {moment(last.at)}.")


def _under_way(run: UnderWay) -> str:
    if run.after_step is None:
        return f"{run.move_kind} (move {run.move_id}), accepted"
    taken = "after" if run.way == "do" else "after the undo of"
    return f"{run.move_kind} (move {run.move_id}), {taken} {run.after_step}"
