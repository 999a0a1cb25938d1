"""What happens in a simulated cloud, as a list: who asks for what when, and what goes wrong when.

Law: the list is made from a seed before anything runs and does not depend on what comes of it, so that a run can be
told again with parts left out.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec

ACTS: Mapping[str, int] = {
    "create": 4,
    "delete": 2,
    "resize": 8,
    "migrate": 5,
    "confirm": 5,
    "revert": 5,
    "turn back": 2,
    "attach port": 2,
    "detach port": 2,
    "attach volume": 2,
    "detach volume": 2,
    "stop": 2,
    "start": 1,
    "reboot": 1,
    "snapshot": 2,
}
"""What users ask for -> how often."""

MESSAGES: Mapping[str, int] = {
    "lost request": 3,
    "lost answer": 4,
    "doubled": 4,
    "late": 5,
    "overtaken": 2,
    "held up": 2,
    "refused": 3,
    "conflict": 1,
}
"""What becomes of a single call -> how often."""

TROUBLES: Mapping[str, int] = {
    "kill": 4,
    "freeze": 4,
    "slow": 2,
    "kill agent": 2,
    "freeze agent": 2,
    "power loss": 1,
    "cut off": 2,
    "outage": 4,
}
"""What becomes of a process, a host, or a service for a while -> how often."""

FAULTS: Mapping[str, int] = {**MESSAGES, **TROUBLES}

RESTORE = "restore"
RESTORES = 1
"""Of seven seeds in a row, so many have a restore; `weights` may say otherwise."""

SERVICES = ("network", "volumes", "images")
DATABASES = ("global", "placement")  # and one of each cell
BUS = "bus"

ANSWERS = ("500", "409", "nothing")
"""What a service or a database says while it is out. Databases do not say 409."""


class Act(msgspec.Struct, frozen=True, kw_only=True, tag="act"):
    """A user asks for something. pick: chooses among the servers and things that there are then."""

    at: float
    what: str
    pick: int


class Mishap(msgspec.Struct, frozen=True, kw_only=True, tag="mishap"):
    """Something goes wrong. A single call: the first on that line from then on.

    restore: databases are copied at `at`, and the copies are put back `for_s` later; where: their names, with `+`.
    """

    at: float
    what: str
    where: str  # line, process or host
    for_s: float = 0.0
    answer: str = ""

    def __str__(self) -> str:
        lasts = f" for {self.for_s:.1f} s" if self.for_s else ""
        says = f", answers {self.answer}" if self.answer else ""
        return f"{self.what}: {self.where}{lasts}{says}"


Decision = Act | Mishap


CONFIRM_WINDOW_S = 45.0
"""Long enough for users to be faster, now and then."""


class Size(msgspec.Struct, frozen=True, kw_only=True, rename={"endpoints": "doors"}):
    """How large a simulated cloud is, and how much happens there."""

    hosts: int = 4
    servers: int = 5  # that are there at the start
    cells: int = 1
    endpoints: int = 2  # processes with API and conductor
    conductors: int = 1  # processes besides
    gap_s: float = 4.0  # between two decisions, on average
    faults: float = 0.5  # part of the decisions that are mishaps
    functions: bool = False  # hosts have virtual functions, and there are ports for them
    groups: bool = False  # there are server groups, one of each policy
    confirm_window_s: float = 0.0  # after which a resize is confirmed by itself; 0: never
    weights: dict[str, int] = {}  # of acts and mishaps, where they differ from the usual

    def host_names(self, cell: int) -> list[str]:
        return [f"h{number + 1}" for number in range(self.hosts) if number % self.cells == cell]

    @property
    def cell_names(self) -> list[str]:
        return [f"c{number + 1}" for number in range(self.cells)]

    @property
    def all_hosts(self) -> list[str]:
        return [f"h{number + 1}" for number in range(self.hosts)]

    @property
    def processes(self) -> list[str]:
        return [f"door{n + 1}" for n in range(self.endpoints)] + [f"conductor{n + 1}" for n in range(self.conductors)]

    @property
    def databases(self) -> list[str]:
        return [*DATABASES, *(f"cell_{name}" for name in self.cell_names)]


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run depends on. order: chooses latencies and the order of what is ready."""

    seed: int
    size: Size
    decisions: tuple[Decision, ...]
    order: int = 0


def varied(seed: int, size: Size) -> Size:
    """Give the cloud of a seed where nobody says what is in it: what costs time is in some of them."""
    cells = 2 if seed % 3 == 0 and size.hosts > 1 else 1
    window_s = CONFIRM_WINDOW_S if seed % 5 == 2 else 0.0
    return msgspec.structs.replace(
        size, cells=cells, functions=seed % 4 == 1, groups=seed % 4 >= 2, confirm_window_s=window_s
    )


def story_of(seed: int, steps: int, size: Size) -> Story:
    """Make the story of a seed. steps: how many decisions."""
    rng = Random(f"decisions {seed}")
    at, made = 0.0, list[Decision]()
    for _ in range(steps):
        # Often several at once, then a pause: what happens at once is what is worth looking at.
        at += 0.0 if rng.random() < 0.3 else rng.expovariate(1 / size.gap_s)
        is_mishap = rng.random() < size.faults
        made.append(_mishap(rng, round(at, 3), size) if is_mishap else _act(rng, round(at, 3), size))
    made += _restore(seed, made, size)
    made.sort(key=lambda decision: decision.at)
    return Story(seed=seed, size=size, decisions=tuple(made), order=seed)


def _restore(seed: int, made: Sequence[Decision], size: Size) -> list[Decision]:
    """Return the restore of a seed, or none. It has chances of its own, so that all other decisions stay the same."""
    if not made or not size.faults or (seed - 3) % 7 >= size.weights.get(RESTORE, RESTORES):
        return []
    rng = Random(f"restore {seed}")
    at = rng.random() * max(one.at for one in made)
    names = size.databases
    number = rng.choice((1, 1, rng.randint(1, len(names)), len(names)))
    names = sorted(rng.sample(names, number))
    for_s = round(min(60.0, rng.expovariate(1 / 12)) + 0.5, 1)
    return [Mishap(at=round(at, 3), what=RESTORE, where="+".join(names), for_s=for_s)]


def _act(rng: Random, at: float, size: Size) -> Act:
    return Act(at=at, what=_one_of(rng, ACTS, size), pick=rng.getrandbits(30))


def _mishap(rng: Random, at: float, size: Size) -> Mishap:
    what = _one_of(rng, FAULTS, size)
    at += round(rng.random() / 4, 3)  # in the midst of what was asked for just before
    for_s = round(min(90.0, rng.expovariate(1 / 8)) + 0.5, 1)
    if what in ("kill", "freeze", "slow"):
        return Mishap(at=at, what=what, where=rng.choice(size.processes), for_s=for_s)
    if what in ("kill agent", "freeze agent", "power loss", "cut off"):
        return Mishap(at=at, what=what, where=rng.choice(size.all_hosts), for_s=for_s)
    if what == "outage":
        where = rng.choice([*SERVICES, *size.databases])
        answer = rng.choice(ANSWERS if where in SERVICES else ("500", "nothing"))
        return Mishap(at=at, what=what, where=where, for_s=for_s, answer=answer)
    where = rng.choice(_lines(what, size))
    # Services are called seldom: what waits for a call there has to wait from early on.
    return Mishap(at=round(at * rng.random(), 3) if where in SERVICES else at, what=what, where=where)


def _lines(what: str, size: Size) -> Sequence[str]:
    """List the lines on which a call can meet this."""
    if what in ("doubled", "late", "overtaken"):
        return (BUS, BUS, BUS, *SERVICES, *SERVICES)
    if what == "held up":
        return (BUS,)
    if what == "conflict":
        return (*SERVICES[:2], "placement")
    if what == "refused":
        return (BUS, BUS, *SERVICES, "placement")
    return (BUS, BUS, BUS, *SERVICES, *SERVICES, *size.databases)


def _one_of(rng: Random, table: Mapping[str, int], size: Size) -> str:
    words = list(table)
    return rng.choices(words, [size.weights.get(word, table[word]) for word in words])[0]


def names_of_weights() -> list[str]:
    return [*ACTS, *FAULTS, RESTORE]


def to_file(story: Story) -> bytes:
    return msgspec.json.format(msgspec.json.encode({"whimbrel": "story", **msgspec.to_builtins(story)}), indent=1)


def from_document(document: Any) -> Story:
    return msgspec.convert(document, Story)
