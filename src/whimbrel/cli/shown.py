"""How a move looks on a terminal."""

import time
from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from whimbrel.cli.terminal import moment, plain_table, seconds

OUTCOMES = {
    "done": "green",
    "parked": "cyan",
    "asked": "yellow",
    "refused": "red",
    "unanswered": "yellow",
    "debt": "bold red",
}
STATES = {"open": "yellow", "parked": "cyan", "done": "green", "undone": "magenta"}
WAYS = {"do": "v", "undo": "^"}


class StepTaken(msgspec.Struct, kw_only=True):
    step: str
    way: str
    took_s: float
    outcome: str
    detail: str | None = None


class Mend(msgspec.Struct, kw_only=True):
    sentence: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    agreed: tuple[Mend, ...] = ()  # what a repair is to do


class Move(msgspec.Struct, kw_only=True):
    """A move as the API shows it, as far as it is shown here. Times are seconds since 1970."""

    id: str
    saga: str
    server_id: str
    server_name: str | None = None
    source: str | None = None
    target: str | None = None
    source_cell: str | None = None
    target_cell: str | None = None
    cross_cell: bool = False
    old_flavor: str | None = None
    new_flavor: str | None = None
    state: str
    status: str
    way: str
    at: str
    owner: str | None = None
    epoch: int = 1
    tries: int = 0
    steps: list[StepTaken] = []
    ahead: list[str] = []  # the steps that it will take if it goes on as it goes, the present one first
    debts: list[str] = []
    facts: Facts = Facts()
    summary: str | None = None  # of its last choice of a host
    message: str | None = None
    problem: str | None = None
    due_at: float = 0.0  # with an owner: until when its lease holds; else from when on anybody may take it
    since: float = 0.0
    created_at: float
    finished_at: float | None = None

    @property
    def place_before(self) -> str | None:
        """Give the host that it comes from, with the cell where that is another one than the target's."""
        return f"{self.source_cell}/{self.source}" if self.cross_cell else self.source

    @property
    def place_after(self) -> str | None:
        return f"{self.target_cell}/{self.target}" if self.cross_cell else self.target

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "undone")


class Ticking:
    """A move whose running step shows the time that it takes."""

    def __init__(self, move: Move) -> None:
        self._move = move

    def __rich__(self) -> RenderableType:
        return whole(self._move)


def listing(moves: Sequence[Move]) -> RenderableType:
    """Show moves in a table."""
    if not moves:
        return Text("no moves")
    table = plain_table("move", "what", "server", "from", "to", "state", "stands at", "since")
    for move in moves:
        table.add_row(
            move.id,
            move.saga,
            move.server_name or move.server_id,
            move.place_before or "-",
            move.place_after or "-",
            Text(move.state, STATES.get(move.state, "")),
            _at(move),
            moment(move.created_at),
        )
    return table


def whole(move: Move) -> RenderableType:
    """Show everything that there is to know about one move."""
    agreed = [Text(f"It is to {mend.sentence}.") for mend in move.facts.agreed]
    parts: list[RenderableType] = [head(move), *agreed, Text(), _steps(move), Text()]
    if move.summary:
        said = [] if move.summary == move.message else [Text(move.summary)]
        parts += [*said, Text(f"Why it chose so: whimbrel move show {move.id} --why", "dim"), Text()]
    return Group(*parts, standing(move))


def head(move: Move) -> Text:
    text = Text.assemble((move.saga, "bold"), " of ", (move.server_name or move.server_id, "bold"))
    if move.source or move.target:
        text.append(f"  {move.place_before or 'nowhere'} -> {move.place_after or '?'}")
        text.append("  between cells" if move.cross_cell else "")
    if move.old_flavor and move.new_flavor and move.old_flavor != move.new_flavor:
        text.append(f"  {move.old_flavor} -> {move.new_flavor}")
    text.append(f"  (move {move.id})", "dim")
    return text


def why_head(saga: str, server_id: str, move_id: str) -> Text:
    return Text.assemble((saga, "bold"), " of server ", (server_id, "bold"), (f"  (move {move_id})", "dim"))


def line(step: StepTaken) -> Text:
    """Show one step that was taken, as a line by itself."""
    text = Text.assemble(f"{WAYS.get(step.way, ' ')} {step.step:<20} {seconds(step.took_s):>8}  ")
    text.append(step.outcome, OUTCOMES.get(step.outcome, ""))
    if step.detail:
        text.append(f"  {step.detail}")
    return text


def standing(move: Move) -> Text:
    """Say in a sentence how the move stands, and what is to be done if it is anybody's turn."""
    text = Text.assemble((move.state, STATES.get(move.state, "")), f" ({move.status})")
    if move.is_over:
        if move.finished_at:
            text.append(f" after {seconds(move.finished_at - move.created_at)}")
    elif move.state == "parked":
        text.append(f": waits for openstack server resize confirm|revert {move.server_id}")
    else:
        way = "forward" if move.way == "forward" else "back"
        text.append(f": goes {way}, {_driver(move)}, epoch {move.epoch}")
    if move.debts:
        text.append(f"\nstill owed: {', '.join(move.debts)}", "bold red")
    if move.message:
        text.append(f"\n{move.message}")
    if move.problem:
        text.append(f"\nit stands still at a bug; say: whimbrel move retry {move.id}\n{move.problem}", "red")
    return text


def _driver(move: Move) -> str:
    """Say who drives it; while it waits nobody does, and nothing is wrong with that."""
    is_due = move.due_at < time.time()
    if move.owner:
        ran_out = f", whose lease ran out at {moment(move.due_at)}" if is_due and move.due_at else ""
        return f"with conductor {move.owner}{ran_out}"
    if move.problem:
        return "with nobody"
    return "with nobody yet" if is_due else f"asked again at {moment(move.due_at)}"


def _steps(move: Move) -> Table:
    table = plain_table("", "step", "took", "outcome", "")
    for step in move.steps:
        outcome = Text(step.outcome, OUTCOMES.get(step.outcome, ""))
        table.add_row(WAYS.get(step.way, " "), step.step, seconds(step.took_s), outcome, step.detail or "")
    if move.state == "open":
        tries = f"asked {move.tries} times" if move.tries else ""
        took = seconds(max(time.time() - move.since, 0))
        table.add_row(">", Text(move.at, "bold"), took, Text("at it", "yellow"), tries)
    for name in move.ahead[1:]:
        table.add_row("", Text(name, "dim"), "", "", "")
    return table


def _at(move: Move) -> str:
    if move.is_over or move.state == "parked":
        return move.status
    debts = f", owes {len(move.debts)}" if move.debts else ""
    return f"{move.at}{' (back)' if move.way == 'back' else ''}{debts}"
