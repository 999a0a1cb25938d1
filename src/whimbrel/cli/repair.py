"""`whimbrel repair`: plan and carry out repairs of what violates the invariants of the cloud."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import msgspec
from rich.console import Console, Group, RenderableType
from rich.prompt import Confirm
from rich.text import Text

from whimbrel.api.views.moves import Move
from whimbrel.api.views.proof import Proof
from whimbrel.api.views.repairs import RepairAnswer, RepairFinding, Repairs
from whimbrel.cli import SAYS_NO, prove, terminal
from whimbrel.cli.client import Api
from whimbrel.cli.heal import wait_until_over
from whimbrel.cli.move import Where
from whimbrel.domain.errors import Invalid, NotFound, Refused

URL = "/whimbrel/repairs"
AS_USUAL = Where()
TIMEOUT_S = 60.0
"""How long to wait for one repair; it continues by itself."""


class Outcome(msgspec.Struct, kw_only=True):
    """The result of one repair. message: why it was not repaired."""

    subject: str
    repaired: bool
    move_id: str | None = None
    message: str | None = None


def repair(*, dry_run: bool = False, yes: bool = False, json: bool = False, where: Where = AS_USUAL) -> int:
    """Repair inconsistencies: show the plan, ask, apply it.

    Each repair is a run of its own, which `whimbrel move show` shows. A guest is destroyed only if its server's own
    guest was just read and found as recorded, or the server is deleted. What cannot be decided is reported, with what
    you can do. Exit code 0: every invariant holds at the end; 1: a violation is left, or something was not checked.

    Parameters
    ----------
    dry_run
        Only show what is wrong and the plan.
    yes
        Do not ask.
    json
        Print one JSON document instead of text; needs --yes or --dry-run.
    """
    if not (dry_run or yes) and (json or not sys.stdin.isatty()):
        raise Invalid("there is no terminal to ask on: use --yes to apply the plan, or --dry-run to see it")
    with where.api() as api:
        console = terminal.console()
        found = _survey(api, None if json else console)
        if not json:
            console.print(listing(found))
        wanted = [one for one in found.repairs if one.actions]
        if dry_run or not wanted or not (yes or Confirm.ask("Apply this plan?", console=console, default=False)):
            return _end(json, found, [], None, found.holds)
        outcomes = [_repair(api, one, None if json else console) for one in wanted]
        proof = prove.read(api, None if json else console)
        if not json:
            console.print(prove.report(proof))
    return _end(json, found, outcomes, proof, proof.holds)


def _survey(api: Api, console: Console | None) -> Repairs:
    with console.status("proving the cloud") if console and console.is_terminal else nullcontext():
        return msgspec.convert(next(api.lines("compute", URL)), Repairs)


def _end(json: bool, found: Repairs, outcomes: list[Outcome], proof: Proof | None, holds: bool) -> int:
    if json:
        document = {"repairs": found.repairs, "unseen": found.unseen, "outcomes": outcomes, "proof": proof}
        terminal.write_json(document)
    return 0 if holds else SAYS_NO


def _repair(api: Api, one: RepairFinding, console: Console | None) -> Outcome:
    outcome = _ask(api, one)
    if console:
        console.print(result(outcome))
    return outcome


def _ask(api: Api, one: RepairFinding) -> Outcome:
    try:
        begun = api.post("compute", URL, {"repair": {"subject": one.subject}})
    except (NotFound, Refused) as error:
        return Outcome(subject=one.subject, repaired=False, message=error.reason)
    move_id = msgspec.convert(begun, RepairAnswer).repair.move_id
    move = wait_until_over(api, move_id, TIMEOUT_S)
    message = None if move.state == "done" else _why_not(move)
    return Outcome(subject=one.subject, repaired=move.state == "done", move_id=move_id, message=message)


def _why_not(move: Move) -> str:
    """Return why a repair has failed, or has not ended yet."""
    said = move.message or "no answer yet"
    return said if move.is_over else f"it continues ({said}): whimbrel move show {move.id}"


# Output


def listing(found: Repairs) -> RenderableType:
    """Show the violations, the planned actions, and what is left."""
    if found.holds:
        return Text("Every invariant holds: there is nothing to repair.", "green")
    lines = [line for one in found.repairs for line in _lines(one)]
    unseen = [Text.assemble(("not seen", "bold yellow"), f" {each}") for each in found.unseen]
    return Group(*lines, *unseen, *([Text(prove.NEXT)] if unseen else []))


def _lines(one: RepairFinding) -> Iterator[Text]:
    yield Text(one.subject, "bold")
    for violation in one.violations:
        yield Text.assemble("  ", (f"{violation.invariant:<10}", "red"), violation.sentence)
    yield from _several("would", "cyan", [action.sentence for action in one.actions])
    yield from _several("left", "yellow", one.left)


def _several(word: str, style: str, sentences: Sequence[str]) -> Iterator[Text]:
    for sentence in sentences:
        yield Text.assemble("  ", (f"{word:<10}", style), sentence)


def result(outcome: Outcome) -> Text:
    if outcome.repaired:
        return Text.assemble(("repaired", "green"), f" {outcome.subject}  (move {outcome.move_id})")
    return Text.assemble(("not repaired", "bold red"), f" {outcome.subject}: {outcome.message}")
