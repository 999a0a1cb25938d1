"""`whimbrel prove`: check every invariant of the cloud, and show the evidence of violations."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from whimbrel.api.views.proof import InvariantCount, Proof, ProofLine, Violation
from whimbrel.cli import SAYS_NO, terminal
from whimbrel.cli.client import Api
from whimbrel.cli.move import Where
from whimbrel.cli.output_format import Json
from whimbrel.cli.progress_bar import bar
from whimbrel.domain.errors import Unavailable

URL = "/whimbrel/proof"
AS_USUAL = Where()
NEXT = "What does not answer, and since when: whimbrel status. When it answers, repeat this."
"""What to do if not everything could be seen."""


def prove(*, json: Json = False, where: Where = AS_USUAL) -> int:
    """Check the invariants of the cloud.

    Records, guests, claims, ports, volumes, devices and moves are read where they are, and compared. Open moves are
    taken into account, so it can be run at any time. What looks wrong is read again a moment later. Exit code 0: every
    invariant holds, and everything was checked; 1: otherwise. `whimbrel repair` repairs violations.
    """
    with where.api() as api:
        console = terminal.console()
        proof = read(api, None if json else console)
    if json:
        terminal_json(proof)
    else:
        console.print(report(proof))
    return 0 if proof.holds else SAYS_NO


def read(api: Api, console: Console | None = None) -> Proof:
    """Run a proof in the cloud and show its progress. Raises: Unavailable: it could not be done."""
    with bar(console) as shown:
        task = shown.add_task("", total=None)
        for document in api.lines("compute", f"{URL}?progress=true"):
            line = msgspec.convert(document, ProofLine)
            if line.fault:
                raise Unavailable(f"the proof failed: {line.fault}")
            if line.proof:
                return line.proof
            if step := line.progress:
                shown.update(task, description=step.stage, completed=step.done, total=step.total)
    raise Unavailable("the proof failed: the answer was cut off; repeat the command")


def terminal_json(proof: Proof) -> None:
    terminal.write_json({"proof": proof})


# Output


def report(proof: Proof) -> RenderableType:
    """Show each invariant with how much was checked, then the violations with their evidence."""
    return Group(
        invariants(proof.invariants),
        *violations(proof.violations),
        *_not_checked(proof.not_checked),
        *_warned(proof.warnings),
        _verdict(proof),
    )


def invariants(counts: Sequence[InvariantCount]) -> Table:
    table = terminal.plain_table("invariant", "facts", "violations", "name")
    for each in counts:
        wrong = Text(str(each.violations), "bold red") if each.violations else Text("0", "green")
        table.add_row(each.words, str(each.facts), wrong, Text(each.invariant, "dim"))
    return table


def violations(found: Sequence[Violation]) -> Iterator[Text]:
    for each in found:
        yield Text.assemble("\n", (each.invariant, "bold red"), f" {each.sentence}", (f"  ({each.kind})", "dim"))
        for name, value in each.evidence.items():
            yield Text.assemble("   ", (f"{name}: ", "dim"), _words(value))


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(each)}" for name, each in value.items()) or "nothing"
    if isinstance(value, list):
        return "; ".join(_words(each) for each in value) or "nothing"
    return "-" if value is None else str(value)


def _not_checked(sentences: Sequence[str]) -> Iterator[Text]:
    for sentence in sentences:
        yield Text.assemble("\n", ("not seen", "bold yellow"), f" {sentence}")


def _warned(sentences: Sequence[str]) -> Iterator[Text]:
    for sentence in sentences:
        yield Text.assemble("\n", ("warning", "bold yellow"), f" {sentence}")


def _verdict(proof: Proof) -> Text:
    servers, hosts = terminal.counted(proof.servers, "server"), terminal.counted(proof.hosts, "host")
    seen = f"{servers} on {hosts}, in {terminal.seconds(proof.took_s)}"
    if proof.holds:
        return Text.assemble("\n", ("Every invariant holds", "bold green"), f": {seen}.")
    if proof.violations:
        command = "what can be done about it: whimbrel repair --dry-run"
        return Text.assemble(
            "\n", (terminal.counted(len(proof.violations), "violation"), "bold red"), f": {seen}; {command}"
        )
    return Text.assemble("\n", ("Not proved", "bold yellow"), f": not everything could be seen; {seen}.", "\n", NEXT)
