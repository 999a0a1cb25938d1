"""`whimbrel status`: one screen that says what is wrong in the cloud now."""

import time

import msgspec
from rich.console import Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from whimbrel.api.views.status import Finding, HostCounts, Status, StatusAnswer
from whimbrel.cli import SAYS_NO, terminal
from whimbrel.cli.client import Api
from whimbrel.cli.move import Where
from whimbrel.cli.output_format import Json

URL = "/whimbrel/status"
POLL_S = 2.0
INDENT = 7
COLORS = {"error": "bold red", "warning": "yellow"}
AS_USUAL = Where()
UNITS = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"))


def status(*, watch: bool = False, json: Json = False, where: Where = AS_USUAL) -> int:
    """Show what is wrong in the cloud now, with the command that shows more or corrects it, and how much there is.

    Looked at: processes and their clocks, hosts, cells and their databases, Placement and the other services, the bus,
    moves and operations that do not go on and what they still have to undo, the last proof, and certificates that
    expire.

    Exit code 0: no errors, though there may be warnings; 1: an error, or the cloud does not answer.

    Parameters
    ----------
    watch
        Repeat every 2 seconds until Ctrl-C; with --json one line each.
    """
    with where.api() as api:
        if watch:
            return _watch(api, json)
        found = _read(api)
        if json:
            terminal.write_json({"status": found})
        else:
            terminal.console().print(shown(found))
    return 0 if found.ok else SAYS_NO


def _read(api: Api) -> Status:
    return msgspec.convert(api.get("compute", URL), StatusAnswer).status


def _watch(api: Api, json: bool) -> int:
    found = _read(api)
    try:
        if json:
            while True:
                terminal.write_json({"status": found})
                time.sleep(POLL_S)
                found = _read(api)
        with Live(shown(found), console=terminal.console(), auto_refresh=False) as live:
            while True:
                time.sleep(POLL_S)
                found = _read(api)
                live.update(shown(found), refresh=True)
    except KeyboardInterrupt:
        return 0 if found.ok else SAYS_NO


def shown(found: Status) -> RenderableType:
    table = terminal.plain_table("", "")
    table.show_header = False
    table.add_row("processes", _processes(found))
    for cell, counts in sorted(found.hosts.items()):
        table.add_row(f"hosts of {cell}", _hosts(counts))
    table.add_row("databases", _databases(found))
    if found.services:
        table.add_row("services", _services(found))
    if found.bus is not None:
        table.add_row("bus", found.bus or "connected")
    table.add_row("runs", _runs(found))
    table.add_row("last proof", _proof(found))
    if found.certificates:
        table.add_row("certificates", _certificates(found))
    return Group(_headline(found), table, *(_finding(each, found.at) for each in found.findings))


def _headline(found: Status) -> Text:
    if not found.findings:
        return Text("nothing is wrong", "green")
    errors = sum(each.severity == "error" for each in found.findings)
    counts = ((errors, "error"), (len(found.findings) - errors, "warning"))
    said = ", ".join(terminal.counted(number, noun) for number, noun in counts if number)
    return Text(said, COLORS["error" if errors else "warning"])


def _processes(found: Status) -> str:
    return ", ".join(f"{number} {role}" for role, number in found.processes.items()) or "none is alive"


def _hosts(counts: HostCounts | None) -> str:
    if counts is None:
        return "unknown"
    named = msgspec.structs.asdict(counts)
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in named.items() if number) or "none"


def _databases(found: Status) -> str:
    """Return which databases answer: the global one has, or there would be no status."""
    unreachable = [cell for cell, counts in found.hosts.items() if counts is None]
    cells = f", {terminal.counted(len(found.hosts) - len(unreachable), 'cell')}" if found.hosts else ""
    return f"global{cells}" + (f"; no answer: {', '.join(sorted(unreachable))}" if unreachable else "")


def _services(found: Status) -> str:
    return ", ".join(name if answers else f"{name} (no answer)" for name, answers in found.services.items())


def _runs(found: Status) -> str:
    debts = sum(found.debts.values())
    owed = f", {terminal.counted(debts, 'undo')} outstanding" if debts else ""
    return f"{found.runs_open} open, {found.runs_parked} waiting for a verdict{owed}"


def _certificates(found: Status) -> str:
    first = found.certificates[0]
    days = (first.expires_at - found.at) / 86400
    expires = f"expires in {terminal.counted(int(days), 'day')}" if days > 0 else "has expired"
    return f"{len(found.certificates)}; {first.name} {expires}"


def _proof(found: Status) -> str:
    if found.proof is None:
        return "none yet: whimbrel prove"
    return f"{terminal.moment(found.proof.at)}, {terminal.counted(found.proof.violations, 'violation')}"


def _finding(finding: Finding, now: float) -> RenderableType:
    since = f" ({_span(now - finding.since)})" if finding.since is not None else ""
    head = Text(f"{finding.severity.upper():<{INDENT}}", COLORS[finding.severity])
    body = Text(f"{finding.text}{since}\n").append(finding.command, "cyan")
    table = terminal.plain_table("", "")
    table.show_header = False
    table.add_row(head, body)
    return Padding(table, (1, 0, 0, 0), expand=False)


def _span(seconds: float) -> str:
    """Return a duration in its largest unit, rounded down."""
    for length, unit in UNITS:
        if seconds >= length:
            return f"for {terminal.counted(int(seconds / length), unit)}"
    return f"for {terminal.counted(max(int(seconds), 0), 'second')}"
