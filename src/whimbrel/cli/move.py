"""`whimbrel move`: list, show and export moves; retry one, or roll it back."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from cyclopts import App, Parameter

from whimbrel.api.views.moves import Decisions, Move, MoveAnswer, Moves
from whimbrel.cli import SAYS_NO, decision_table, move_view, name_lookup, terminal
from whimbrel.cli.client import Api, find_login
from whimbrel.domain.errors import Invalid
from whimbrel.settings.datadir import ADMIN_CLOUD, default_path

POLL_S = 0.25

app = App(
    name="move", help="Moves: list, show, watch, retry, roll back, export.", default_parameter=Parameter(negative=())
)


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    data_dir: Path | None = None
    "Directory of the cloud; its clouds.yaml says how to log in. Default: that of OS_CLIENT_CONFIG_FILE."
    os_cloud: str = ADMIN_CLOUD
    "Which entry of clouds.yaml to log in with."

    def api(self) -> Api:
        return Api(find_login(self.data_dir or default_path(), self.os_cloud, self.data_dir is not None))


@app.command(name="list")
def list_moves(*, open: bool = False, server: str | None = None, json: bool = False, where: Where = Where()) -> None:
    """List moves, the newest first. For a move between cells the source and the target are CELL/HOST.

    Parameters
    ----------
    open
        Only moves that have not ended.
    server
        Only moves of this server: its id or name; the id if it is deleted.
    json
        One JSON document instead of a table; cross_cell: whether a move goes from one cell to another.
    """
    with where.api() as api:
        query = {"open": "true"} if open else {}
        if server:
            query["server"] = name_lookup.server_id(api, server)
        answer = api.get("compute", f"/whimbrel/moves?{urlencode(query)}")
    if json:
        terminal.write_json(answer)
    else:
        terminal.console().print(move_view.listing(msgspec.convert(answer, Moves).moves))


@app.command
def show(
    move: str,
    /,
    *,
    watch: bool = False,
    why: bool = False,
    all: bool = False,
    json: bool = False,
    where: Where = Where(),
) -> int:
    """Show one move: its steps with their durations, its debts, and the result of its choice of a host.

    Parameters
    ----------
    move
        Id of the move, a migration's uuid, or the beginning of it.
    watch
        Continue until the move has ended, waits for a verdict, or is stopped by a bug (exit code 1); with --json
        one line for each change.
    why
        Show instead each decision: the hosts that were considered, and the reasons. Works for creates of servers too.
    all
        With --why: every host, not only as many as fit the terminal.
    json
        JSON instead of text.
    """
    if why and watch:
        raise Invalid("--why and --watch do not go together: what was decided does not change")
    if all and not why:
        raise Invalid("--all is for --why")
    with where.api() as api:
        found = name_lookup.move_id(api, move)
        if why:
            _why(api, found, all, json)
            return 0
        if watch:
            last = _watch_json(_changes(api, found)) if json else _watch(_changes(api, found))
            return SAYS_NO if last.problem else 0
        document = _get(api, found)
        if json:
            terminal.write_json(document)
        else:
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
def export(move: str, /, *, where: Where = Where()) -> None:
    """Write everything that the journal has of one move, as JSON: for `whimbrel sim replay`, or to keep it.

    Parameters
    ----------
    move
        Id of the move, a migration's uuid, or the beginning of it.
    """
    with where.api() as api:
        terminal.write_json(api.get("compute", f"/whimbrel/moves/{name_lookup.move_id(api, move)}/export")["export"])


@app.command
def retry(move: str, /, *, where: Where = Where()) -> None:
    """Retry a move now that waits for its next attempt, or was stopped by a bug.

    Parameters
    ----------
    move
        Id of the move, or the beginning of it.
    """
    with where.api() as api:
        found = _say(api, move, "retry")
    print(f"move {found} is tried again; watch it: whimbrel move show {found} --watch")


@app.command
def turn_back(move: str, /, *, where: Where = Where()) -> None:
    """Roll a move back: the server stays where it was, as it was.

    Parameters
    ----------
    move
        Id of the move, or the beginning of it.
    """
    with where.api() as api:
        found = _say(api, move, "turn_back")
    print(f"move {found} is rolled back; watch it: whimbrel move show {found} --watch")


def _get(api: Api, move: str) -> Any:
    return api.get("compute", f"/whimbrel/moves/{move}")


def _say(api: Api, move: str, what: str) -> str:
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
    """Show a move as it changes, then all of it; return its final state."""
    console = terminal.console()
    if not console.is_terminal:
        return _watch_lines(documents)
    from rich.live import Live

    with Live(console=console, refresh_per_second=8, transient=True) as live:
        for document in documents:
            move = _read(document)
            live.update(move_view.Fitted(move))
    console.print(move_view.whole(move))
    return move


def _watch_lines(documents: Iterator[Any]) -> Move:
    """Write each finished step once, the reason if the move stops, and the final state."""
    console, written = terminal.console(), -1
    told: tuple[str, ...] = ()
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
    console.print(move_view.state(move))
    return move
