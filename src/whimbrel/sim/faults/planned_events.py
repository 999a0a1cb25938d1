"""The schedule of a simulated cloud: which requests users send and which faults occur, and when.

Invariant: the list is made from a seed before the run and does not depend on its results, so that a run can be repeated
without parts of it.
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
    "migrate live": 6,
    "abort live": 2,
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
    "shelve": 2,
    "unshelve": 3,
    "pause": 2,
    "unpause": 2,
    "suspend": 2,
    "resume": 2,
    "rebuild": 2,
    "rescue": 1,
    "unrescue": 2,
    "restore server": 1,
}
"""User request -> weight."""

VOLUME_ACTS: Mapping[str, int] = {
    "migrate volume": 4,
    "take volume snapshot": 3,
    "delete volume snapshot": 2,
}
"""What the volume service does with attached volumes, asking the cloud for it -> weight."""

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
"""Fault of a single call -> weight."""

TROUBLES: Mapping[str, int] = {
    "kill": 4,
    "freeze": 4,
    "slow": 2,
    "kill agent": 2,
    "freeze agent": 2,
    "power loss": 1,
    "cut off": 2,
    "outage": 4,
    "dead host": 1,
    "lost host": 1,
    "fence fails": 1,
}
"""Temporary fault of a process, a host or a service -> weight.

dead host: it has no power; its servers are evacuated, and it returns. lost host: it does not answer for so long that
its servers are evacuated, once its fence device has cut the power. fence fails: the device fails, see `FAILURES`.
"""

AWAY_S = 90.0
"""The shortest absence of a dead or a lost host: longer than it takes to notice it."""

FAILURES = ("unanswered", "unheard", "refused", "stuck", "slow")
"""How a fence device fails: it does nothing and does not answer, its answer is lost, it refuses, it leaves the host on
and says so, or it takes long. A device that says "off" of a host that is on is believed: nothing else is known then."""

FAULTS: Mapping[str, int] = {**MESSAGES, **TROUBLES}

RESTORE = "restore"
RESTORES = 1
"""How many of seven consecutive seeds have a restore; `weights` can override it."""

MAINTENANCE = "maintenance"
MAINTENANCES = 1
"""How many of five consecutive seeds have a maintenance, if they have no restore; `weights` can override it."""

VOLUME_SERVICE = "volume service"
VOLUME_SERVICES = 1
"""How many of four consecutive seeds have a volume service that migrates volumes and takes snapshots of files;
`weights` can override it."""

PLANS = ("to its end", "paused", "aborted")
"""What an operator does with a maintenance some time after its start."""

GOALS = ("empty", "empty", "pack", "balance")
"""What a maintenance is for. One host is emptied; all hosts together are packed or balanced."""

SERVICES = ("network", "volumes", "images")
DATABASES = ("global", "placement")  # and one of each cell
BUS = "bus"

ANSWERS = ("500", "409", "nothing")
"""Answers of a service or database during an outage. Databases do not answer 409."""


AT_ONCE = "unavailable"
"""The answer to a lost order whose sender notices it, as on NATS: no agent listens, or the connection was lost while
the agent carries the order out. The sender may repeat the order while the first one is still under way."""


class Act(msgspec.Struct, frozen=True, kw_only=True, tag="act"):
    """A request of a user, or of the volume service. pick: chooses among the servers and other objects at that time."""

    at: float
    what: str
    pick: int


class Mishap(msgspec.Struct, frozen=True, kw_only=True, tag="mishap"):
    """A fault. Of a single call: it hits the first call on that line from then on.

    restore: databases are copied at `at` and replaced by the copies `for_s` later; where: their names, joined by `+`.
    maintenance: no fault; an operator empties a host, or packs or balances hosts (where: "pack h1+h2"); answer: one of
    `PLANS`, `for_s` after the start.
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
"""Long enough that users are sometimes faster."""


class Size(msgspec.Struct, frozen=True, kw_only=True, rename={"endpoints": "doors"}):
    """Size of a simulated cloud, and its load."""

    hosts: int = 4
    servers: int = 5  # servers at the start
    cells: int = 1
    endpoints: int = 2  # processes with API and conductor
    conductors: int = 1  # additional conductor processes
    gap_s: float = 4.0  # mean time between two decisions
    faults: float = 0.5  # fraction of decisions that are faults
    functions: bool = False  # hosts have virtual functions, and there are ports for them
    groups: bool = False  # one server group of each policy exists
    fences: bool = False  # each host has a fence device
    watchdogs: bool = False  # each host fences itself
    clocks: bool = False  # those of processes differ, and those of hosts run faster or slower
    confirm_window_s: float = 0.0  # a resize is confirmed automatically after this time; 0: never
    weights: dict[str, int] = {}  # of requests and faults, where they differ from the defaults

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
    """All input of a run. order: seed of latencies and of the order of ready tasks."""

    seed: int
    size: Size
    decisions: tuple[Decision, ...]
    order: int = 0


def varied(seed: int, size: Size) -> Size:
    """Return the cloud of a seed if no size is given: expensive features are in some of them only."""
    cells = 2 if seed % 3 == 0 and size.hosts > 1 else 1
    window_s = CONFIRM_WINDOW_S if seed % 5 == 2 else 0.0
    return msgspec.structs.replace(
        size,
        cells=cells,
        functions=seed % 4 == 1,
        groups=seed % 4 >= 2,
        fences=seed % 2 == 0,
        watchdogs=seed % 4 == 3,
        clocks=seed % 8 >= 6,
        confirm_window_s=window_s,
    )


def story_of(seed: int, steps: int, size: Size) -> Story:
    """Return the story of a seed. steps: number of decisions."""
    rng = Random(f"decisions {seed}")
    at, made = 0.0, list[Decision]()
    for _ in range(steps):
        # Bursts, then pauses: concurrency is what finds bugs.
        at += 0.0 if rng.random() < 0.3 else rng.expovariate(1 / size.gap_s)
        is_mishap = rng.random() < size.faults
        made.append(_mishap(rng, round(at, 3), size) if is_mishap else _act(rng, round(at, 3), size))
    of_service = _volume_acts(seed, made, size)
    made += [*(_restore(seed, made, size) or _maintenance(seed, made, size)), *of_service]
    made.sort(key=lambda decision: decision.at)
    return Story(seed=seed, size=size, decisions=tuple(made), order=seed)


def _volume_acts(seed: int, made: Sequence[Decision], size: Size) -> list[Decision]:
    """Return what the volume service of a seed does, or nothing. It has its own random numbers, as a restore has."""
    if not made or (seed - 2) % 4 >= size.weights.get(VOLUME_SERVICE, VOLUME_SERVICES):
        return []
    rng, end = Random(f"volume service {seed}"), max(one.at for one in made)
    times = sorted(round(rng.random() * end, 3) for _ in range(1 + len(made) // 5))
    return [Act(at=at, what=_one_of(rng, VOLUME_ACTS, size), pick=rng.getrandbits(30)) for at in times]


def _restore(seed: int, made: Sequence[Decision], size: Size) -> list[Decision]:
    """Return the restore of a seed, or none. It has its own random numbers, so all other decisions stay the same."""
    if not made or not size.faults or (seed - 3) % 7 >= size.weights.get(RESTORE, RESTORES):
        return []
    rng = Random(f"restore {seed}")
    at = rng.random() * max(one.at for one in made)
    names = size.databases
    number = rng.choice((1, 1, rng.randint(1, len(names)), len(names)))
    names = sorted(rng.sample(names, number))
    for_s = round(min(60.0, rng.expovariate(1 / 12)) + 0.5, 1)
    return [Mishap(at=round(at, 3), what=RESTORE, where="+".join(names), for_s=for_s)]


def _maintenance(seed: int, made: Sequence[Decision], size: Size) -> list[Decision]:
    """Return the maintenance of a seed, or none. As a restore it changes no other decision."""
    if not made or size.hosts < 2 or (seed - 1) % 5 >= size.weights.get(MAINTENANCE, MAINTENANCES):
        return []
    rng = Random(f"maintenance {seed}")
    at = rng.random() / 2 * max(one.at for one in made)
    for_s = round(min(60.0, rng.expovariate(1 / 8)) + 0.5, 1)
    where, answer, goal = rng.choice(size.all_hosts), rng.choice(PLANS), rng.choice(GOALS)
    if goal != "empty":
        where = f"{goal} {'+'.join(size.all_hosts)}"
    return [Mishap(at=round(at, 3), what=MAINTENANCE, where=where, for_s=for_s, answer=answer)]


def _act(rng: Random, at: float, size: Size) -> Act:
    return Act(at=at, what=_one_of(rng, ACTS, size), pick=rng.getrandbits(30))


def _mishap(rng: Random, at: float, size: Size) -> Mishap:
    what = _one_of(rng, FAULTS, size)
    at += round(rng.random() / 4, 3)  # while earlier requests are in progress
    for_s = round(min(90.0, rng.expovariate(1 / 8)) + 0.5, 1)
    if what in ("kill", "freeze", "slow"):
        return Mishap(at=at, what=what, where=rng.choice(size.processes), for_s=for_s)
    if what in ("kill agent", "freeze agent", "power loss", "cut off"):
        return Mishap(at=at, what=what, where=rng.choice(size.all_hosts), for_s=for_s)
    if what in ("dead host", "lost host"):
        return Mishap(at=at, what=what, where=rng.choice(size.all_hosts), for_s=AWAY_S + for_s)
    if what == "fence fails":
        answer = rng.choice(FAILURES)
        return Mishap(at=at, what=what, where=rng.choice(size.all_hosts), for_s=AWAY_S + for_s, answer=answer)
    if what == "outage":
        where = rng.choice([*SERVICES, *size.databases])
        answer = rng.choice(ANSWERS if where in SERVICES else ("500", "nothing"))
        return Mishap(at=at, what=what, where=where, for_s=for_s, answer=answer)
    where = rng.choice(_lines(what, size))
    # Calls of services are rare: a fault of one must be scheduled early.
    at = round(at * rng.random(), 3) if where in SERVICES else at
    return Mishap(at=at, what=what, where=where, answer=_noticed(what, where, at))


def _noticed(what: str, where: str, at: float) -> str:
    """Return AT_ONCE for every second lost message on the bus; by its time, so that no other decision changes."""
    is_noticed = where == BUS and what in ("lost request", "lost answer") and round(at * 1000) % 2
    return AT_ONCE if is_noticed else ""


def _lines(what: str, size: Size) -> Sequence[str]:
    """Return the lines on which a call can meet this fault."""
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
    return [*ACTS, *VOLUME_ACTS, *FAULTS, RESTORE, MAINTENANCE, VOLUME_SERVICE]


def to_file(story: Story) -> bytes:
    return msgspec.json.format(msgspec.json.encode({"whimbrel": "story", **msgspec.to_builtins(story)}), indent=1)


def from_document(document: Any) -> Story:
    return msgspec.convert(document, Story)
