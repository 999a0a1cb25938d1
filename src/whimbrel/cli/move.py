"""`whimbrel move`: what the moves of a cloud do, and the two things that an operator can say to one."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from cyclopts import App, Parameter

from whimbrel.cli import decision, shown, terminal
from whimbrel.cli.client import Api, find_login
from whimbrel.cli.decision import Decision
from whimbrel.cli.shown import Move
from whimbrel.datadir import ADMIN_CLOUD, default_path
from whimbrel.domain.errors import Invalid

POLL_S = 0.25

app = App(
    name="move", help="Moves: list, show, watch, retry, turn back, export.", default_parameter=Parameter(negative=())
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
    """List moves, the newest first. One between cells has CELL/HOST where it comes from and goes to.

    Parameters
    ----------
    open
        Only those that are still in hand.
    server
        Only those of this server (id).
    json
        One JSON document instead of a table; cross_cell tells whether a move goes from one cell to another.
    """
    query = urlencode(({"open": "true"} if open else {}) | ({"server": server} if server else {}))
    with where.api() as api:
        answer = api.get("compute", f"/whimbrel/moves?{query}")
    if json:
        terminal.write_json(answer)
    else:
        terminal.console().print(shown.listing(msgspec.convert(answer["moves"], list[Move])))


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
) -> None:
    """Show one move: its steps with what each took, its debts, and what its choice of a host came to.

    Parameters
    ----------
    move
        Id of the move: a migration's uuid.
    watch
        Go on until the move is over; with --json one line for each change.
    why
        Show instead among which hosts it chose, each time that it did, and why; creates of servers can be asked too.
    all
        With --why: every host, not only as many as fit a terminal.
    json
        JSON instead of text.
    """
    if why and watch:
        raise Invalid("--why and --watch do not go together: what was decided does not change")
    if all and not why:
        raise Invalid("--all is for --why")
    with where.api() as api:
        if why:
            return _why(api, move, all, json)
        seen = _changes(api, move) if watch else iter([_get(api, move)])
        if json:
            for document in seen:
                terminal.write_json(document)
        elif watch:
            _watch(seen)
        else:
            terminal.console().print(shown.whole(_read(next(seen))))
    return None


def _why(api: Api, move: str, everything: bool, json: bool) -> None:
    answer = api.get("compute", f"/whimbrel/moves/{move}/decisions")
    if json:
        return terminal.write_json(answer)
    console, run = terminal.console(), answer["move"]
    console.print(shown.why_head(run["saga"], run["server_id"], run["id"]))
    if told := msgspec.convert(answer["decisions"], list[Decision]):
        console.print(decision.several(told, everything))
    else:
        console.print(run["message"] or "It has chosen no host.")
    return None


@app.command
def export(move: str, /, *, where: Where = Where()) -> None:
    """Write all that the journal has of one move, as JSON: for `whimbrel sim replay`, and to be kept.

    Parameters
    ----------
    move
        Id of the move: a migration's uuid.
    """
    with where.api() as api:
        terminal.write_json(api.get("compute", f"/whimbrel/moves/{move}/export")["export"])


@app.command
def retry(move: str, /, *, where: Where = Where()) -> None:
    """Have a move that waits, or stands still at a bug, tried again now."""
    with where.api() as api:
        _say(api, move, "retry")
    terminal.console().print(f"move {move} is tried again; watch it: whimbrel move show {move} --watch")


@app.command
def turn_back(move: str, /, *, where: Where = Where()) -> None:
    """Have a move undone: the server stays where it was, as it was."""
    with where.api() as api:
        _say(api, move, "turn_back")
    terminal.console().print(f"move {move} goes back; watch it: whimbrel move show {move} --watch")


def _get(api: Api, move: str) -> Any:
    return api.get("compute", f"/whimbrel/moves/{move}")


def _say(api: Api, move: str, what: str) -> None:
    api.post("compute", f"/whimbrel/moves/{move}/action", {what: None})


def _changes(api: Api, move: str) -> Iterator[Any]:
    """Give the move each time it has changed, until it is over."""
    before = None
    while True:
        document = _get(api, move)
        if document != before:
            yield document
        before = document
        if _read(document).is_over:
            return
        time.sleep(POLL_S)


def _read(document: Any) -> Move:
    return msgspec.convert(document["move"], Move)


def _watch(documents: Iterator[Any]) -> None:
    console = terminal.console()
    if not console.is_terminal:
        return _watch_lines(documents)
    from rich.live import Live

    with Live(console=console, refresh_per_second=8) as live:
        for document in documents:
            move = _read(document)
            live.update(shown.Ticking(move))
    return None


def _watch_lines(documents: Iterator[Any]) -> None:
    """Write each step once, when it has been taken."""
    console, written, move = terminal.console(), 0, None
    for document in documents:
        move = _read(document)
        if not written:
            console.print(shown.head(move))
        for step in move.steps[written:]:
            console.print(shown.line(step))
        written = len(move.steps)
    if move:
        console.print(shown.standing(move))
