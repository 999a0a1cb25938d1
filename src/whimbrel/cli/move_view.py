"""Output of a move on a terminal."""

import time
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from whimbrel.api.views.moves import Move, MoveRow, StepTaken
from whimbrel.cli import transfer_view
from whimbrel.cli.listing import Cell, Column, Listing
from whimbrel.cli.terminal import moment, plain_table, seconds, span

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
BACK = "rolled back"
BECAUSE = {"refused": "refused", "reverted": "reverted", "asked": "on request"}
"""Why a move is rolled back, by its `turned`. None of them is an error: the server is as before."""
SOURCE_UNDO = "stop_on_source"
"""The step whose undo needs the source: a move that owes it can be ended without it."""
AHEAD = 2
"""How many future steps are shown at least if not all steps fit."""

COLUMNS = (
    Column("move", "id"),
    Column("what"),
    Column("server", "name"),
    Column("from", "name"),
    Column("to", "name"),
    Column("state"),
    Column("stands at", "name"),
    Column("standing for", narrow="for"),
    Column("begun", "more"),
    Column("why", "reason"),
)

Row = tuple[str, str | Text, str, str | Text, str | Text]
"""Row of the table of steps: direction, step, duration, outcome, detail or else the step's sentence."""


class Fitted:
    """A move in as many lines as the terminal has: steps are left out, the sentence about its state is not.

    The running step shows its duration at the time of drawing.
    """

    def __init__(self, move: Move) -> None:
        self._move = move

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        progress = [] if self._move.is_over else _progress(self._move)
        above, below = [head(self._move), Text()], [Text(), *map(Text, progress), state(self._move)]
        taken = sum(len(console.render_lines(part, options)) for part in (*above, *below))
        room = console.size.height - taken - 2  # the head of the table, and the line of the cursor
        yield from above
        yield _table(_around_present(self._move, max(room, 1)), one_line=True)
        yield from below


def listing(moves: Sequence[MoveRow]) -> RenderableType:
    """Show moves in a list."""
    now = time.time()
    return Listing(COLUMNS, [_row(move, now) for move in moves], none="no moves")


def _row(move: MoveRow, now: float) -> tuple[Cell, ...]:
    return (
        move.id,
        move.saga,
        move.server_name or move.server_id,
        move.source_path,
        move.target_path,
        _state(move),
        _at(move),
        _time_at_step(move, now),
        moment(move.created_at),
        move.why,
    )


def whole(move: Move) -> RenderableType:
    """Show all details of a move."""
    agreed = [Text(f"It is to {action['sentence']}.") for action in move.facts.get("agreed", ())]
    parts: list[RenderableType] = [head(move), *agreed, *_evidence(move), Text(), _table(_rows(move)), Text()]
    if progress := _progress(move):
        parts += [*map(Text, progress), Text()]
    if move.summary:
        said = [] if move.summary == move.message else [Text(move.summary)]
        parts += [*said, Text(f"Why it chose so: whimbrel move show {move.id} --why", "dim"), Text()]
    return Group(*parts, state(move))


def _progress(move: Move) -> list[str]:
    """Return how far the transfer of the guest, or the copy of a disk, is."""
    transferred = transfer_view.lines(move.transfer) if move.transfer else []
    return [*transferred, *([transfer_view.disk_line(move.disk_copy)] if move.disk_copy else [])]


def _evidence(move: Move) -> list[Text]:
    """Return why the guest on a dead host cannot run."""
    found = move.facts.get("evidence")
    if not found:
        return []
    detail = f": {found['detail']}" if found.get("detail") else ""
    kind = found["kind"].replace("_", " ")
    return [Text(f"Evidence that the guest cannot run: {kind}, {found['origin']}, {moment(found['at'])}{detail}")]


def head(move: Move) -> Text:
    text = Text.assemble((move.saga, "bold"), " of ", (move.server_name or move.server_id, "bold"))
    if move.source or move.target:
        text.append(f"  {move.source_path or 'nowhere'} -> {move.target_path or '?'}")
        text.append("  between cells" if move.cross_cell else "")
    if move.old_flavor and move.new_flavor and move.old_flavor != move.new_flavor:
        text.append(f"  {move.old_flavor} -> {move.new_flavor}")
    text.append(f"  (move {move.id})", "dim")
    return text


def why_head(saga: str, server_id: str, move_id: str) -> Text:
    return Text.assemble((saga, "bold"), " of server ", (server_id, "bold"), (f"  (move {move_id})", "dim"))


def line(step: StepTaken) -> Text:
    """Show one finished step on a line of its own."""
    text = Text.assemble(f"{WAYS.get(step.way, ' ')} {step.step:<18} {seconds(step.took_s):>8}  ")
    text.append(step.outcome, OUTCOMES.get(step.outcome, ""))
    if said := step.detail or step.sentence:
        text.append(f"  {said}")
    return text


def state(move: Move) -> Text:
    """Return the state of the move as a sentence, with the next action if one is needed."""
    text = Text.assemble(_state(move), f" ({_status(move)})")
    if move.is_over:
        if move.finished_at:
            text.append(f" after {seconds(move.finished_at - move.created_at)}")
    elif move.state == "parked":
        text.append(f": waits for a verdict: openstack server resize confirm|revert {move.server_id}")
    else:
        way = "forward" if move.way == "forward" else "back"
        text.append(f": goes {way}, {_driver(move)}, epoch {move.epoch}")
    if move.debts:
        text.append(f"\nstill to be undone: {', '.join(move.debts)}", "bold red")
        if SOURCE_UNDO in move.debts and move.saga in ("resize", "migrate") and move.source != move.target:
            text.append(f"\nIf host {move.source} never returns: whimbrel move give-up-source {move.id}")
    if move.message:
        text.append(f"\n{move.message}")
    if move.problem:
        text.append(f"\nit stopped at a bug; to try again: whimbrel move retry {move.id}\n{move.problem}", "red")
    return text


def _driver(move: Move) -> str:
    """Return the conductor that drives the move; a waiting move has none, which is no error."""
    is_due = move.due_at < time.time()
    if move.owner:
        ran_out = f", whose lease ran out at {moment(move.due_at)}" if is_due and move.due_at else ""
        return f"with conductor {move.owner}{ran_out}"
    if move.problem:
        return "with no conductor"
    return "with no conductor yet" if is_due else f"asked again at {moment(move.due_at)}"


def _table(rows: Sequence[Row], one_line: bool = False) -> Table:
    """Make the table of steps. one_line: cut details that do not fit a line."""
    table = plain_table("", "step", "took", "outcome", "")
    for column in table.columns[:-1]:
        column.no_wrap = True
    for *row, said in rows:
        detail = Text(said, overflow="fold") if isinstance(said, str) else said
        if one_line:
            detail.no_wrap, detail.overflow = True, "ellipsis"
        table.add_row(*row, detail)
    return table


def _sentence(text: str) -> Text:
    return Text(text, "dim", no_wrap=True, overflow="ellipsis")


def _rows(move: Move) -> list[Row]:
    """Return the rows of all steps: finished, current, future."""
    return [*_taken(move), *_to_come(move)]


def _taken(move: Move) -> list[Row]:
    return [
        (
            WAYS.get(step.way, " "),
            step.step,
            seconds(step.took_s),
            Text(step.outcome, OUTCOMES.get(step.outcome, "")),
            step.detail or _sentence(step.sentence),
        )
        for step in move.steps
    ]


def _to_come(move: Move) -> list[Row]:
    """Return the rows of the current step, if there is one, and of the steps after it."""
    rows: list[Row] = []
    if move.state == "open":
        tries = f"asked {move.tries} times" if move.tries else _sentence(move.doing)
        took = seconds(max(time.time() - move.since, 0))
        rows.append((">", Text(move.step, "bold"), took, Text("at it", "yellow"), tries))
    sentences = [*move.ahead_sentences, *[""] * len(move.ahead)]  # an older cloud sends none
    later = zip(move.ahead[1:], sentences[1:], strict=False)
    return [*rows, *(("", Text(name, "dim"), "", "", _sentence(sentence)) for name, sentence in later)]


def _around_present(move: Move, room: int) -> list[Row]:
    """Return at most `room` rows: the current step, as many before it as fit, and a few after it."""
    before, after = _taken(move), _to_come(move)
    if len(before) + len(after) <= room:
        return [*before, *after]
    kept = after[: max(1 + AHEAD, room - len(before))][:room]
    earlier = before[max(len(before) - (room - len(kept)), 0) :]
    return [*earlier, *kept]


def _state(move: MoveRow) -> Text:
    return Text(BACK if move.state == "undone" else move.state, STATES.get(move.state, ""))


def _status(move: MoveRow) -> str:
    """Return the status of its migration; if it was rolled back, the reason, because Nova shows an error there."""
    return BECAUSE.get(move.turned or "", move.status) if move.state == "undone" else move.status


def _time_at_step(move: MoveRow, now: float) -> str:
    return "" if move.at_step_since is None else span(now - move.at_step_since)


def _at(move: MoveRow) -> str:
    if move.state == "parked":
        return "awaits verdict"
    if move.is_over:
        return _status(move)
    if move.at == "debts":
        return f"undo of {move.step}"  # the reason has more
    debts = f", owes {len(move.debts)}" if move.debts else ""
    tries = f", asked {move.tries} times" if move.tries else ""
    return f"{move.at}{' (back)' if move.way == 'back' else ''}{tries}{debts}"
