"""Output of a decision about a host: a line for each host, the best first, and the result."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from whimbrel.api.views.decisions import Considered, Decision, Reason
from whimbrel.cli.terminal import moment, plain_table

MOST_LINES = 26
"""How many hosts are shown by default; with the text around them they fit a terminal."""

VERDICTS = {"chosen": "bold green", "next": "green", "in": "", "out": "dim"}


def whole(decision: Decision, everything: bool) -> RenderableType:
    """Show the hosts, then the sentences. everything: all hosts, else as many as fit a terminal."""
    return Group(*_parts(decision, everything))


def several(decisions: Sequence[Decision], everything: bool) -> RenderableType:
    """Show the decisions of a run in order, each with its time."""
    parts: list[RenderableType] = []
    for number, decision in enumerate(decisions, 1):
        parts += [Text(f"choice {number} of {len(decisions)}, at {moment(decision.at)}", "bold"), Text()]
        parts += [*_parts(decision, everything), Text()]
    return Group(*parts[:-1])


def _parts(decision: Decision, everything: bool) -> Iterator[RenderableType]:
    if decision.considered:
        inside = [one for one in decision.considered if one.reason is None]
        outside = [one for one in decision.considered if one.reason is not None]
        shown_in, shown_out = _shares(len(inside), len(outside), everything)
        yield _table(decision, [*inside[:shown_in], *outside[:shown_out]])
        yield from _left_out(len(inside) - shown_in, len(outside) - shown_out, decision.untold)
        yield Text()
    yield from sentences(decision)


def _shares(inside: int, outside: int, everything: bool) -> tuple[int, int]:
    """Return the numbers of lines for accepted and excluded hosts: half each, or what the others leave free."""
    if everything:
        return inside, outside
    half = MOST_LINES // 2
    shown_in = min(inside, max(half, MOST_LINES - outside))
    return shown_in, min(outside, MOST_LINES - shown_in)


def _table(decision: Decision, hosts: Sequence[Considered]) -> Table:
    """Show a line for each host, without empty columns."""
    columns = {
        "host": [one.host for one in hosts],
        "verdict": [_verdict(one, decision.chosen) for one in hosts],
        "weight": ["" if one.weight is None else f"{one.weight:.3f}" for one in hosts],
        "why": [_why(one, decision) for one in hosts],
        "asked/free": [_amounts(one.reason) for one in hosts],
    }
    columns = {name: column for name, column in columns.items() if any(column)}
    table = plain_table(*columns)
    for name, column in zip(columns, table.columns, strict=True):
        column.no_wrap, column.overflow = name != "why", "ellipsis" if name == "host" else "fold"
        column.justify = "right" if name in ("weight", "asked/free") else "left"
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row, style=VERDICTS[row[1]])
    return table


def _verdict(one: Considered, chosen: Sequence[str]) -> str:
    if one.reason is not None:
        return "out"
    if one.host not in chosen:
        return "in"
    return "chosen" if one.host == chosen[0] else "next"


def _why(one: Considered, decision: Decision) -> str:
    if one.reason is not None:
        return one.reason.words.replace(f" ({decision.availability_zone_because})", "")  # shown once, below
    return ", ".join(f"{name.removesuffix('Weigher')} {part:.2f}" for name, part in one.weights.items())


def _amounts(reason: Reason | None) -> str:
    if reason is None or reason.asked is None or reason.free is None:
        return ""
    return f"{reason.asked}/{reason.free}"


def _left_out(inside: int, outside: int, untold: int) -> Iterator[Text]:
    if inside or outside:
        some = [f"{number} more {what}" for number, what in ((inside, "that fit"), (outside, "that do not")) if number]
        yield Text(f"and {' and '.join(some)}: --all shows them", "dim")
    if untold:
        yield Text(f"and {untold} more, of which only the counts below are kept", "dim")


def sentences(decision: Decision) -> Iterator[Text]:
    """Yield the result, the zone that was kept, what was overridden, and what would help."""
    yield Text(decision.summary, "" if decision.found else "red")
    if decision.availability_zone_because and decision.availability_zone_because not in decision.summary:
        yield Text(f"Zone: {decision.availability_zone_because}.")
    if decision.overridden:
        yield Text(f"Forced, although {'; '.join(one.words for one in decision.overridden)}.")
    if decision.change:
        yield Text(decision.change, "bold")
    if decision.hosts and not decision.considered:
        yield Text("Which hosts these are, administrators are shown.", "dim")
