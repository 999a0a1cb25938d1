"""What `whimbrel prove` and the progress of long commands show."""

import io

from rich.console import Console

from whimbrel.api.views.proof import InvariantCount, Proof
from whimbrel.api.views.repairs import Repairs
from whimbrel.cli import prove, repair, terminal
from whimbrel.cli.progress_bar import bar

UNSEEN = "host n1 does not answer: no answer"
NEXT = "whimbrel status"


def shown(proof: Proof) -> str:
    console = terminal.console()
    with console.capture() as captured:
        console.print(prove.report(proof))
    return captured.get()


def a_proof(*not_checked: str) -> Proof:
    counts = [InvariantCount(invariant="I14", words="a refusal has a recorded reason", facts=2, violations=0)]
    return Proof(
        holds=not not_checked, began_at=0.0, servers=1, hosts=1, took_s=0.1, invariants=counts, violations=[],
        not_checked=list(not_checked), warnings=[],
    )  # fmt: skip


def test_an_invariant_is_named_by_its_sentence_first() -> None:
    [line] = [line for line in shown(a_proof()).splitlines() if "I14" in line]
    assert line.split() == ["a", "refusal", "has", "a", "recorded", "reason", "2", "0", "I14"]


def test_what_was_not_seen_comes_with_the_next_command() -> None:
    assert NEXT in shown(a_proof(UNSEEN))
    assert NEXT not in shown(a_proof())
    console = terminal.console()
    with console.capture() as captured:
        console.print(repair.listing(Repairs(repairs=[], holds=False, unseen=[UNSEEN])))
    assert NEXT in captured.get()


def test_progress_has_no_count_before_the_total_is_known() -> None:
    with bar(Console(file=io.StringIO(), force_terminal=True, width=80)) as progress:
        task = progress.add_task("reading", total=None)
        assert "/" not in rendered(progress.get_renderable())
        progress.update(task, completed=3, total=4)
        assert "3/4" in rendered(progress.get_renderable())


def rendered(what: object) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(what)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]
