"""`whimbrel repair`: what does not hold of the cloud's books, what would be done about it, and having it done."""

import sys
from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Console, Group, RenderableType
from rich.prompt import Confirm
from rich.text import Text

from whimbrel.api.views.moves import Move
from whimbrel.api.views.proof import Proof, Violation
from whimbrel.cli import SAYS_NO, prove, terminal
from whimbrel.cli.client import Api
from whimbrel.cli.heal import wait_until_over
from whimbrel.cli.move import Where
from whimbrel.domain.errors import Invalid, NotFound, Refused

URL = "/whimbrel/repairs"
AS_USUAL = Where()
PATIENCE_S = 60.0
"""How long is waited for one repair; it goes on by itself."""


class Mend(msgspec.Struct, kw_only=True):
    kind: str
    sentence: str


class Finding(msgspec.Struct, kw_only=True):
    """What does not hold under one id, as the API shows it. left: what nothing is done about, and why."""

    subject: str
    violations: list[Violation]
    mends: list[Mend]
    left: list[str]


class Survey(msgspec.Struct, kw_only=True):
    repairs: list[Finding]
    holds: bool
    unseen: list[str]


class Outcome(msgspec.Struct, kw_only=True):
    """What came of repairing. message: why it was not repaired."""

    subject: str
    repaired: bool
    move_id: str | None = None
    message: str | None = None


def repair(*, dry_run: bool = False, yes: bool = False, json: bool = False, where: Where = AS_USUAL) -> int:
    """Repair what does not hold of the cloud's books, where it can be told what is right.

    First all is proved and the plan is shown, in words; then each part is done as a move of its own, which `whimbrel
    move show` tells of. A guest is destroyed only where it was just seen that its server stands elsewhere, or is
    deleted; what nobody can decide is left, with what a person can do. Exit code 0: every law holds in the end; 1:
    something is left, or could not be seen.

    Parameters
    ----------
    dry_run
        Only say what is wrong and what would be done.
    yes
        Do not ask before it is done.
    json
        One JSON document instead of text; with it, say --yes or --dry-run.
    """
    if not (dry_run or yes) and (json or not sys.stdin.isatty()):
        raise Invalid("there is nobody to ask: say --yes to have it done, or --dry-run to see what would be done")
    with where.api() as api:
        console = terminal.console()
        found = _survey(api, None if json else console)
        if not json:
            console.print(listing(found), soft_wrap=True)
        wanted = [one for one in found.repairs if one.mends]
        if dry_run or not wanted or not (yes or Confirm.ask("Have this done?", console=console, default=False)):
            return _end(json, found, [], None, found.holds)
        outcomes = [_mend(api, one, None if json else console) for one in wanted]
        proof = prove.read(api, None if json else console)
        if not json:
            console.print(prove.report(proof), soft_wrap=True)
    return _end(json, found, outcomes, proof, proof.holds)


def _survey(api: Api, console: Console | None) -> Survey:
    """Have the cloud proved; it takes as long as it takes."""
    if console is None or not console.is_terminal:
        return msgspec.convert(next(api.lines("compute", URL)), Survey)
    with console.status("proving the books"):
        return msgspec.convert(next(api.lines("compute", URL)), Survey)


def _end(json: bool, found: Survey, outcomes: list[Outcome], proof: Proof | None, holds: bool) -> int:
    if json:
        document = {"repairs": found.repairs, "unseen": found.unseen, "outcomes": outcomes, "proof": proof}
        terminal.write_json(document)
    return 0 if holds else SAYS_NO


def _mend(api: Api, one: Finding, console: Console | None) -> Outcome:
    outcome = _ask(api, one)
    if console:
        console.print(result(outcome), soft_wrap=True)
    return outcome


def _ask(api: Api, one: Finding) -> Outcome:
    try:
        begun = api.post("compute", URL, {"repair": {"subject": one.subject}})
    except (NotFound, Refused) as error:
        return Outcome(subject=one.subject, repaired=False, message=error.reason)
    move_id: str = begun["repair"]["move_id"]
    move = wait_until_over(api, move_id, PATIENCE_S)
    message = None if move.state == "done" else _why_not(move)
    return Outcome(subject=one.subject, repaired=move.state == "done", move_id=move_id, message=message)


def _why_not(move: Move) -> str:
    """Say why a repair is not done, or not yet."""
    said = move.message or "nothing answers yet"
    return said if move.is_over else f"it goes on ({said}): whimbrel move show {move.id}"


# How it looks


def listing(found: Survey) -> RenderableType:
    """Show what is wrong, what would be done about it, and what is left."""
    if found.holds:
        return Text("Every law holds: there is nothing to repair.", "green")
    lines = [line for one in found.repairs for line in _lines(one)]
    return Group(*lines, *(Text.assemble(("not seen", "bold yellow"), f" {each}") for each in found.unseen))


def _lines(one: Finding) -> Iterator[Text]:
    yield Text(one.subject, "bold")
    for violation in one.violations:
        yield Text.assemble("  ", (f"{violation.law:<10}", "red"), violation.sentence)
    yield from _several("would", "cyan", [mend.sentence for mend in one.mends])
    yield from _several("left", "yellow", one.left)


def _several(word: str, style: str, sentences: Sequence[str]) -> Iterator[Text]:
    for sentence in sentences:
        yield Text.assemble("  ", (f"{word:<10}", style), sentence)


def result(outcome: Outcome) -> Text:
    if outcome.repaired:
        return Text.assemble(("repaired", "green"), f" {outcome.subject}  (move {outcome.move_id})")
    return Text.assemble(("not repaired", "bold red"), f" {outcome.subject}: {outcome.message}")
