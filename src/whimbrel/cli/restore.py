"""`whimbrel restore`: the steps after a database was restored from an older copy."""

import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from cyclopts import App, Parameter
from rich.console import Console, Group, RenderableType
from rich.prompt import Confirm
from rich.text import Text

from whimbrel.api.views.restores import Ending, EndingAnswer, Survey, SurveyAnswer
from whimbrel.cli import SAYS_NO, repair, terminal
from whimbrel.cli.client import Api
from whimbrel.cli.move import Where
from whimbrel.domain.errors import Invalid

URL = "/whimbrel/restore"
AS_USUAL = Where()
BECAUSE = "an operator has restored a database"

app = App(
    name="restore",
    help="After a database was restored: hold all moves, compare with the hosts, go on.",
    default_parameter=Parameter(negative=()),
)

PASSES = 3
"""How often everything is repaired: what one repair restores lets the next pass decide what it could not."""


@app.default
def lead(*, yes: bool = False, where: Where = AS_USUAL) -> int:
    """Go through a restore: compare, begin, repair, end. Each step is shown and has to be confirmed.

    The steps are also commands of their own: `whimbrel restore show`, `begin`, `end`, and `whimbrel repair` between.
    Exit code 0: moves continue; 1: something is left to do.

    Parameters
    ----------
    yes
        Do not ask before each step.
    """
    if not yes and not sys.stdin.isatty():
        raise Invalid("there is no terminal to ask on: use --yes, or: whimbrel restore show, begin, end")
    console = terminal.console()
    with where.api() as api:
        found = _survey(api)
        console.print(shown(found))
        if found.held is None and found.is_settled and not _agreed("Begin a restore all the same?", yes, console):
            return 0
        is_under_way = found.held is not None and found.held.restoring
        question = "Begin the restore: close what was overtaken, hold all else?"
        if not is_under_way and not _agreed(question, yes, console):
            return SAYS_NO
        console.print(shown(_begin(api, BECAUSE)))
    passes = PASSES if yes else 1
    if all(repair.repair(yes=yes, where=where) for _ in range(passes)):
        console.print("Something is left. When it is resolved: whimbrel repair, then whimbrel restore end")
        return SAYS_NO
    if not _agreed("End the restore: let moves go on?", yes, console):
        return SAYS_NO
    return end(where=where)


def _agreed(question: str, yes: bool, console: Console) -> bool:
    return yes or Confirm.ask(question, console=console, default=False)


@app.command
def show(*, json: bool = False, where: Where = AS_USUAL) -> int:
    """Show whether moves are held, and how the journal compares with what the hosts have carried out.

    Exit code 0: nothing is held and everything agrees; 1: otherwise.

    Parameters
    ----------
    json
        One JSON document instead of text.
    """
    with where.api() as api:
        found = _survey(api)
    _write(found, json)
    return 0 if found.held is None and found.is_settled else SAYS_NO


@app.command
def begin(*, because: str = BECAUSE, json: bool = False, where: Where = AS_USUAL) -> int:
    """Hold all moves and operations, and close those of which the hosts have seen more than the journal.

    A new incarnation of the cloud begins: hosts refuse orders of processes that still work on another copy of the
    database. Closed moves leave their servers to `whimbrel repair`. Repeatable; repeat it when hosts that did not
    answer are back. Exit code 0: hosts and journal agree; 1: something was not checked.

    Parameters
    ----------
    because
        The reason, for the log and for the state of the moves that wait.
    json
        One JSON document instead of text.
    """
    with where.api() as api:
        found = _begin(api, because)
    _write(found, json)
    return 0 if found.is_settled else SAYS_NO


@app.command
def end(*, force: bool = False, json: bool = False, where: Where = AS_USUAL) -> int:
    """Resume moves and operations, if hosts and journal agree and the proof holds.

    Exit code 0: they continue; 1: they are still held, for the reason shown.

    Parameters
    ----------
    force
        Resume them although something does not agree. A move that was overtaken may then destroy a disk.
    json
        One JSON document instead of text.
    """
    with where.api() as api:
        ended = msgspec.convert(api.post("compute", URL, {"end": {"force": force}}), EndingAnswer).restore
    if json:
        terminal.write_json({"restore": ended})
    else:
        terminal.console().print(_outcome(ended))
    return 0 if ended.held is None else SAYS_NO


def _survey(api: Api) -> Survey:
    return _read(api.get("compute", URL))


def _begin(api: Api, because: str) -> Survey:
    return _read(api.post("compute", URL, {"begin": {"because": because}}))


def _read(answer: Any) -> Survey:
    return msgspec.convert(answer, SurveyAnswer).restore


# Output


def _write(found: Survey, json: bool) -> None:
    if json:
        terminal.write_json({"restore": found})
    else:
        terminal.console().print(shown(found))


def shown(found: Survey) -> RenderableType:
    return Group(*_lines(found))


def _lines(found: Survey) -> Iterator[Text]:
    if found.held:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.held.at))
        what = "a restore is under way" if found.held.restoring else "all moves are held"
        yield Text.assemble((what, "bold red"), f" since {since}: {found.held.because}")
    else:
        yield Text("nothing is held", "green")
    yield Text(f"incarnation {found.incarnation} of the cloud")
    for name, reason in found.unreachable.items():
        yield Text.assemble(("no answer ", "yellow"), f"{name}: {reason}")
    for each in found.behind:
        yield Text.assemble(("behind ", "red"), each)
    for lost in found.lost:
        yield Text.assemble(("lost ", "red"), f"run {lost.id} of server {lost.server}, seen by {', '.join(lost.hosts)}")
    for run in found.runs:
        style = "green" if run.verdict == "agrees" else "red" if run.verdict == "overtaken" else "yellow"
        because = f": {run.because}" if run.because else ""
        yield Text.assemble((f"{run.verdict} ", style), f"{run.saga} {run.id} of server {run.server_id}{because}")
    for closed in found.closed:
        yield Text.assemble(("closed ", "cyan"), f"run {closed}")
    yield Text(_next(found), "bold")


def _next(found: Survey) -> str:
    if found.held is None:
        return "All that was compared agrees." if found.is_settled else "Next: whimbrel restore begin"
    if not found.held.restoring:
        return "Next: whimbrel restore begin"
    if not found.is_settled:
        return "Next: see that every host answers, then repeat: whimbrel restore begin"
    return "Next: whimbrel repair, then whimbrel restore end"


def _outcome(ended: Ending) -> RenderableType:
    if ended.held is None:
        return Text("Moves and operations go on.", "bold green")
    return Group(
        Text("All moves are still held:", "bold red"),
        *(Text(f"  {reason}") for reason in ended.reasons),
        Text("Resolve these (whimbrel repair), then: whimbrel restore end", "bold"),
    )
