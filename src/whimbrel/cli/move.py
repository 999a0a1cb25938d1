"""`whimbrel move`: list, show and export moves; retry one, roll it back, or complete a live one."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from cyclopts import App, Parameter

from whimbrel.api.views.moves import Decisions, Move, MoveAnswer, Moves
from whimbrel.cli import SAYS_NO, decision_table, move_view, name_lookup, terminal
from whimbrel.cli.client import Api, find_login
from whimbrel.cli.output_format import Output
from whimbrel.domain.errors import Invalid
from whimbrel.settings.datadir import default_path

POLL_S = 0.25
STATES = {"open": "open", "parked": "parked", "done": "done", "rolled-back": "undone"}
"""State of a move as commands call it -> as the API does."""
Which = Annotated[
    str,
    Parameter(
        help="Id of the move, a migration's uuid, or the beginning of it; or name or id of a server: its newest move."
    ),
]
HostArgument = Annotated[str, Parameter(help="Name of the host.")]
AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400}

app = App(
    name="move",
    help="Moves: list, show, watch, retry, roll back, complete, export.",
    default_parameter=Parameter(negative=()),
)


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    data_dir: Path | None = None
    "Directory of the cloud; its clouds.yaml says how to log in. Default: that of OS_CLIENT_CONFIG_FILE."
    os_cloud: str | None = None
    "Which entry of clouds.yaml to log in with. Default: that of OS_CLOUD, or the administrator of `whimbrel up`."

    def api(self) -> Api:
        return Api(find_login(self.data_dir or default_path(), self.os_cloud, self.data_dir is not None))


@app.command(name="list")
def list_moves(
    *,
    open: bool = False,
    state: tuple[Literal["open", "parked", "done", "rolled-back"], ...] = (),
    server: str | None = None,
    host: str | None = None,
    since: str | None = None,
    kind: Literal["move", "all"] = "move",
    output: Output = Output(),
    where: Where = Where(),
) -> None:
    """List moves, the newest first. For a move between cells the source and the target are CELL/HOST.

    "standing for": how long it has been at its step, or has waited to be confirmed or reverted; "why": what keeps it
    there, or what was refused.

    Parameters
    ----------
    open
        Only moves that have not ended: open or parked.
    state
        Only moves in this state; may be repeated. parked: it waits to be confirmed or reverted.
    server
        Only moves of this server: its id or name; the id if it is deleted.
    host
        Only moves from or to this host.
    since
        Only moves that have changed since then: 30m, 2h, 7d, or a time such as 2026-01-31T10:00:00 (UTC).
    kind
        all: also creates, deletes, and operations on servers that stay on their hosts.
    """
    query: list[tuple[str, str]] = [("state", STATES[each]) for each in state]
    if open:
        query.append(("open", "true"))
    if host:
        query.append(("host", host))
    if since:
        query.append(("changes-since", _moment_of(since, time.time())))
    if kind == "all":
        query.append(("kind", "any"))
    with where.api() as api:
        if server:
            query.append(("server", name_lookup.server_id(api, server)))
        answer = api.get("compute", f"/whimbrel/moves?{urlencode(query)}")
    if not output.wrote(answer, "moves"):
        terminal.console().print(move_view.listing(msgspec.convert(answer, Moves).moves))


def _moment_of(word: str, now: float) -> str:
    """Return a time of the API: an age such as 2h before now, or the word itself."""
    if not (found := re.fullmatch(r"(\d+)([smhd])", word)):
        return _time(word)
    try:
        return datetime.fromtimestamp(now - int(found[1]) * AGES[found[2]], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        raise Invalid(f"--since {word} is too long ago") from None


def _time(word: str) -> str:
    """Return a time of the API unchanged. Raises: Invalid: it is none."""
    try:
        datetime.fromisoformat(word)
    except ValueError:
        raise Invalid(
            f"--since {word} is no time: give an age such as 30m, 2h or 7d, or a time such as 2026-01-31T10:00:00 (UTC)"
        ) from None
    return word


@app.command
def show(
    move: Which,
    /,
    *,
    watch: bool = False,
    why: bool = False,
    all: bool = False,
    output: Output = Output(),
    where: Where = Where(),
) -> int:
    """Show one move: its steps with their durations, its debts, and the result of its choice of a host.

    Parameters
    ----------
    watch
        Continue until the move has ended, waits for a verdict, or is stopped by a bug (exit code 1); with --json
        one line for each change. The last line says which of these it is.
    why
        Show instead each decision: the hosts that were considered, and the reasons. Works for creates of servers too.
    all
        With --why: every host, not only as many as fit the terminal.
    """
    if why and watch:
        raise Invalid("--why and --watch do not go together: what was decided does not change")
    if all and not why:
        raise Invalid("--all is for --why")
    if watch:
        output.check_watchable()
    if why and (output.column or output.format == "value"):
        raise Invalid("--column and --format value show the move as it is now: without --why")
    with where.api() as api:
        found = name_lookup.move_id(api, move)
        if why:
            _why(api, found, all, output.is_json)
            return 0
        if watch:
            last = _watch_json(_changes(api, found)) if output.is_json else _watch(_changes(api, found))
            return SAYS_NO if last.problem else 0
        document = _get(api, found)
        if not output.wrote(document, "move"):
            terminal.console().print(move_view.whole(_read(document)))
    return 0


def _why(api: Api, move: str, everything: bool, json: bool) -> None:
    answer = api.get("compute", f"/whimbrel/moves/{move}/decisions")
    if json:
        return terminal.write_json(answer)
    console, found = terminal.console(), msgspec.convert(answer, Decisions)
    console.print(move_view.why_head(found.move.saga, found.move.server_id, found.move.id))
    if found.decisions:
        console.print(decision_table.several(found.decisions, everything))
    else:
        console.print(found.move.message or "It has chosen no host.")
    return None


@app.command
def export(move: Which, /, *, where: Where = Where()) -> None:
    """Write everything that the journal has of one move, as JSON: for `whimbrel sim replay`, or to keep it."""
    with where.api() as api:
        terminal.write_json(api.get("compute", f"/whimbrel/moves/{name_lookup.move_id(api, move)}/export")["export"])


@app.command
def retry(move: Which, /, *, where: Where = Where()) -> None:
    """Retry a move now that waits for its next attempt, or was stopped by a bug."""
    with where.api() as api:
        found = _send_action(api, move, "retry")
    print(f"move {found} is tried again; watch it:\nwhimbrel move show {found} --watch")


@app.command
def turn_back(move: Which, /, *, where: Where = Where()) -> None:
    """Roll a move back: the server stays where it was, as it was. A live migration is aborted."""
    with where.api() as api:
        found = _send_action(api, move, "turn_back")
    print(f"move {found} is rolled back; watch it:\nwhimbrel move show {found} --watch")


@app.command
def give_up_source(move: Which, /, *, where: Where = Where()) -> None:
    """End a move that waits, on its way back, for a source host that never returns.

    It has to be evident that the host is dead, as for whimbrel host forget. If the server's guest is whole on the
    target, the server stays there, with the new flavor: its disks on the source are lost. If nothing of it is on the
    target, the record names the dead host again: evacuate the server.
    """
    with where.api() as api:
        found = _send_action(api, move, "give_up_source")
    print(f"move {found} goes on without its source; watch it:\nwhimbrel move show {found} --watch")


@app.command
def complete(move: Which, /, *, where: Where = Where()) -> None:
    """Force a live migration to complete.

    By post-copy if its policy allows it, else the guest pauses until it arrives.
    """
    with where.api() as api:
        found = _send_action(api, move, "complete")
    print(f"move {found} is to be completed; watch it:\nwhimbrel move show {found} --watch")


def _get(api: Api, move: str) -> Any:
    return api.get("compute", f"/whimbrel/moves/{move}")


def _send_action(api: Api, move: str, what: str) -> str:
    """Find a move by the prefix of its id, send it an action, and return its id."""
    found = name_lookup.move_id(api, move)
    api.post("compute", f"/whimbrel/moves/{found}/action", {what: None})
    return found


def _changes(api: Api, move: str) -> Iterator[Any]:
    """Yield the move after each change, until it is over or needs an operator."""
    before = None
    while True:
        document = _get(api, move)
        if document != before:
            yield document
        before = document
        seen = _read(document)
        if seen.is_over or seen.needs_person:
            return
        time.sleep(POLL_S)


def _read(document: Any) -> Move:
    return msgspec.convert(document, MoveAnswer).move


def _watch_json(documents: Iterator[Any]) -> Move:
    for document in documents:
        terminal.write_json(document)
    return _read(document)


def _watch(documents: Iterator[Any]) -> Move:
    """Show a move as it changes, then all of it, also if that is interrupted; return its final state."""
    console = terminal.console()
    if not console.is_terminal:
        return _watch_lines(documents)
    from rich.live import Live

    move = _read(next(documents))
    try:
        with Live(move_view.Fitted(move), console=console, refresh_per_second=8, transient=True) as live:
            for document in documents:
                move = _read(document)
                live.update(move_view.Fitted(move))
    finally:
        console.print(move_view.whole(move))
    return move


def _watch_lines(documents: Iterator[Any]) -> Move:
    """Write each finished step once, the reason if the move stops, and the final state, also if interrupted."""
    console, written = terminal.console(), -1
    told: tuple[str, ...] = ()
    move: Move | None = None
    try:
        for document in documents:
            move = _read(document)
            if written < 0:
                console.print(move_view.head(move))
            for step in move.steps[max(written, 0) :]:
                console.print(move_view.line(step))
            is_left = written < 0 and not move.owner
            written = len(move.steps)
            if move.is_over or move.needs_person:
                break
            if is_left or move.trouble not in ((), told):
                console.print(move_view.state(move))
            told = move.trouble
    finally:
        if move:
            console.print(move_view.state(move))
    assert move, "a move was asked for"
    return move
