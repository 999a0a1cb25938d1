"""Pairs of faults in moves to another cell: the second occurs at any step that remains after the first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.faultmap.drawn import cell_of, word_of
from tools.faultmap.outcomes import Mapped, Unfired, cuts_a_copy, first_result, play
from tools.faultmap.points import find
from tools.faultmap.rows import Row, rows_of
from tools.faultmap.troubles import Strike, Strikes, Trouble
from tools.faultmap.variants import DEVICES, MOVABLE_PCI, VERDICTS, AnyVariant, EvacuationVariant, Variant
from tools.scenarios.evacuations import STORIES

RESIZES = tuple(
    Variant("resize", "other cell", root, devices, verdict)
    for root, devices in (("image", "none"), ("volume", DEVICES[1]))
    for verdict in VERDICTS
)
EVACUATIONS = (
    "evacuation to another cell",
    "evacuation with ports and volumes to another cell",
    "evacuation of a server on a volume to another cell",
    "evacuation with a virtual function to another cell",
)
TOLD: tuple[AnyVariant, ...] = (
    *RESIZES,
    Variant("live migration", "other cell", "image", "none", "confirm"),
    Variant("live migration", "other cell", "volume", DEVICES[1], "confirm"),
    Variant("live migration", "other cell", "image", MOVABLE_PCI, "confirm"),
    *(EvacuationVariant(story) for story in STORIES if story.name in EVACUATIONS),
)

FIRST = (
    Trouble.CRASH_BEFORE,
    Trouble.CRASH_AFTER,
    Trouble.REQUEST_LOST,
    Trouble.ANSWER_LOST,
    Trouble.REORDERED,
    Trouble.AGENT_RESTARTS,
    Trouble.CONFLICT,
    Trouble.DATABASE_AWAY,
    Trouble.REFUSED,
)
SECOND = (Trouble.CRASH_BEFORE, Trouble.ANSWER_LOST, Trouble.REORDERED, Trouble.AGENT_RESTARTS, Trouble.REFUSED)
"""The faults that leave most behind: all nine would take twice as long."""


@dataclass(frozen=True)
class First:
    """The first fault."""

    variant: AnyVariant
    row: str
    touch: int
    strike: Strike

    def __str__(self) -> str:
        return f"{self.variant.name} | {self.row} | {self.strike.trouble.value}"


Seconds = dict[str, str]
"""Second fault as text -> outcome of both."""


async def firsts() -> list[First]:
    found = []
    for variant in TOLD:
        rows, touches = await first_result(variant.story)
        for row in rows:
            for trouble in FIRST:
                point = find(row, trouble, touches)
                if not isinstance(point, str):
                    found.append(First(variant, row.name, *point))
    return found


def sample(known: Sequence[First], one_in: int, part: int) -> list[First]:
    """Return one of so many first faults of each kind of move; the parts from 0 on are together all of them."""
    by_kind: dict[str, list[First]] = {}
    for first in known:
        by_kind.setdefault(first.variant.name, []).append(first)
    return [first for firsts in by_kind.values() for first in firsts[part % one_in :: one_in]]


async def draw(first: First) -> Seconds:
    """Run a first fault with each possible second one."""
    story, struck, drawn = first.variant.story, {first.touch: first.strike}, Seconds()
    for name, incarnation, touch, strike in await _seconds(first):
        try:
            outcome, _ = await play(story, *_with(struck, incarnation, {touch: strike}))
        except Unfired:
            continue  # the second fault does not occur any more: it is no pair
        drawn[name] = cell_of(outcome)
    return drawn


async def _seconds(first: First) -> list[tuple[str, int, int, Strike]]:
    """Return the possible second faults: name, incarnation after the first fault, touch, fault.

    If a copy is interrupted, disk copies take time, and leases are renewed meanwhile: the touches differ.
    """
    found = []
    for copying in (False, True):
        _, trial = await play(first.variant.story, {first.touch: first.strike}, copying=copying)
        incarnation = len(trial.incarnations) - 1
        touches = trial.incarnations[incarnation].touches
        for number, row in enumerate(_left(trial, incarnation, first.touch)):
            for trouble in SECOND:
                point = find(row, trouble, touches)
                if not isinstance(point, str) and cuts_a_copy(point[1]) == copying:
                    found.append((f"{number} {row.name} | {trouble.value}", incarnation, *point))
    return found


def _left(trial: Mapped, incarnation: int, touch: int) -> list[Row]:
    """Return the steps after the first fault."""
    rows = rows_of(trial.incarnations[incarnation].touches, trial.marking.incarnations[incarnation])
    return [row for row in rows if incarnation or row.first > touch]


def _with(first: Strikes, incarnation: int, second: Strikes) -> tuple[Strikes, ...]:
    return (first, second) if incarnation else ({**first, **second},)


# Output

Drawn = Mapping[First, Seconds]


def number_of(drawn: Drawn) -> int:
    return sum(map(len, drawn.values()))


def reds(drawn: Drawn) -> list[str]:
    return [
        f"{first}, then {second} | {cell}"
        for first, seconds in drawn.items()
        for second, cell in seconds.items()
        if word_of(cell) == "red"
    ]


def to_markdown(drawn: Drawn, page: str = "") -> str:
    """Return a table for each kind of move: outcomes of the pairs by step and fault of the first.

    page: an earlier page, whose tables stand for kinds that were not drawn.
    """
    tables = _tables_of(page) | {name: _table(drawn, name) for name in _names(drawn)}
    known = {variant.name: tables[variant.name] for variant in TOLD if variant.name in tables}
    pairs = sum(int(line.split("|")[3]) for lines in known.values() for line in lines)
    head = [
        "# Pairs of faults\n",
        "Generated by `make faultmap PAIRS=1`; the words are those of [the fault map](fault-map.md).\n",
        f"{pairs:,} pairs in moves to another cell: a fault, then one at any step that was left.",
    ]
    for name, lines in known.items():
        head += [f"\n## {name}\n", "| first at | fault | pairs | how they ended |", "|---|---|---|---|", *lines]
    return "\n".join(head) + "\n"


def names_on(page: str) -> set[str]:
    """Return the names of the kinds of moves that a page has."""
    return set(_tables_of(page))


def _tables_of(page: str) -> dict[str, list[str]]:
    """Return the lines of each kind's table, without its two lines of heading."""
    sections = (section.splitlines() for section in page.split("\n## ")[1:])
    return {name: [line for line in lines if line.startswith("|")][2:] for name, *lines in sections}


def _names(drawn: Drawn) -> set[str]:
    return {first.variant.name for first in drawn}


def _table(drawn: Drawn, name: str) -> list[str]:
    lines = []
    for first, seconds in drawn.items():
        if first.variant.name == name:
            counts = Counter(word_of(cell) for cell in seconds.values())
            ends = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
            lines.append(f"| {first.row} | {first.strike.trouble.value} | {len(seconds)} | {ends} |")
    return lines
