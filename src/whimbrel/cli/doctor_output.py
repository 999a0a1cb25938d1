"""The output of `whimbrel doctor`: findings by kind, what is in flight, and what was not checked."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import TextWrapper
from typing import Any

from rich.markup import escape

from whimbrel.cli import terminal
from whimbrel.doctor.diagnosis import Diagnosis
from whimbrel.doctor.doctor_finding import TITLES, Command, Finding, InFlight

WIDTH = 80
SQL = (
    "If an UPDATE that is printed changes no row, the state is no longer what was seen: run nothing after it, and look"
    " again."
)
SHOWN = 20
"""How many findings of a kind, and operations in flight, are shown without --json."""


def document(found: Diagnosis, not_checked: Sequence[str]) -> Mapping[str, Any]:
    return {"doctor": {
        "servers": found.servers, "findings": found.findings, "in_flight": found.in_flight,
        "not_confirmed": found.passed, "not_checked": not_checked}}  # fmt: skip


def lines(found: Diagnosis, not_checked: Sequence[str]) -> Iterator[str]:
    for kind, group in groupby(found.findings, key=lambda each: each.kind):
        same = list(group)
        yield f"[bold red]{TITLES[kind]} ({len(same)})[/]"
        for each in same[:SHOWN]:
            yield from _finding(each)
        if len(same) > SHOWN:
            yield f"  ... and {len(same) - SHOWN} more: --json has all of them"
        yield ""
    if found.in_flight:
        yield f"[bold]In flight, not judged ({len(found.in_flight)})[/]"
        yield from (_indented(_in_flight(work), "  ") for work in found.in_flight[:SHOWN])
        yield ""
    if any(command.sql_in for each in found.findings for command in each.commands):
        yield _indented(SQL, "")
    yield _indented(f"Not checked: {', '.join(not_checked)}.", "")
    if found.passed:
        yield f"{terminal.counted(found.passed, 'suspicion')} of the first look did not last."
    servers = terminal.counted(found.servers, "server")
    if found.findings:
        yield f"[bold red]{terminal.counted(len(found.findings), 'finding')}[/] in {servers}"
    else:
        yield f"[bold green]Nothing is wrong[/] in {servers}"


def _finding(each: Finding) -> Iterator[str]:
    since = f" since {terminal.moment(each.since)} UTC" if each.since else ""
    yield _indented(each.text, "  * ")
    yield _indented(f"Unchanged{since}. Probably {each.cause}.", "    ")
    if each.note:
        yield _indented(f"Note: {each.note}.", "    ")
    for command in each.commands:
        yield f"    {escape(_command(command))}"


def _indented(text: str, first: str) -> str:
    """Break a text into lines of WIDTH; ids are not broken."""
    made = TextWrapper(WIDTH, first, "    ", break_long_words=False, break_on_hyphens=False)
    return escape(made.fill(text))


def _command(command: Command) -> str:
    return f"$ {command.line}" if command.sql_in is None else f"SQL, in {command.sql_in}: {command.line}"


def _in_flight(work: InFlight) -> str:
    name = f" ({work.name})" if work.name else ""
    return f"{work.subject}{name}: {work.text}, last write {terminal.moment(work.since)} UTC"
