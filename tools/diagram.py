"""Sequence diagrams of a resize, within a cell and between two: `python -m tools.diagram FILE` (make docs).

They are observed, not drawn by hand: a server with all kinds of devices is moved in the simulated cloud, and the calls
of each step are recorded.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.run import LogEntry, Run
from whimbrel.domain.server_devices import RequestedNic
from whimbrel.moves import requests
from whimbrel.moves.resize import RESIZE
from whimbrel.ports.cloud import Rules
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Step
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create
from whimbrel.sim.cloud.cloud import LARGE, World
from whimbrel.sim.faults.chaos import Chaos, changes
from whimbrel.sim.world.equipment import DIRECT_PORT, NETWORK, with_devices

Cells = Mapping[str, tuple[str, ...]]
"""Cell name -> host names."""

INSIDE: Cells = {"c1": ("h1", "h2")}
ACROSS: Cells = {"c1": ("h1",), "c2": ("h2",)}

BOOKKEEPING = frozenset({"save", "park"})
"""Writes of the engine after every step; one sentence of the page covers them."""

TOLD_READS = frozenset({"capacity", "all_assignments", "look"})
"""Reads that decide or permit something."""

HEAD = """\
# A resize, line by line

Made by `make docs` from what each line of `moves/resize.py` asked of whom in the simulated cloud, for a server with a
local disk, ports with bandwidth, a virtual function and volumes. A cold migration is the same with the flavor
unchanged. Reads are left out, but for those by which a target is chosen, and looks at a guest before another one is
destroyed. After every line the conductor writes into the journal where the run stands; that is left out too. A line of
which the condition does not hold is not there.
"""


@dataclass(frozen=True)
class Seen:
    """One executed step, do or undo, with its calls."""

    step: str
    way: str
    touches: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    title: str
    cells: Cells

    @property
    def crosses(self) -> bool:
        return len(self.cells) > 1


PICTURES = (Picture("Within a cell", INSIDE), Picture("From one cell to another", ACROSS))


# Observation


class Watcher:
    """Moves one server and records its steps."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._chaos = Chaos({})
        self._from = 0
        self._seen: list[Seen] = []

    async def watch(self, verdict: str) -> tuple[list[Seen], list[Seen]]:
        """Return the steps before and after the owner's verdict."""
        rules = Rules(cpu_allocation_ratio=1.0)
        world = await World.build(cells=self._picture.cells, rules=rules, equipped=True, functions=True)
        server_id = await _booted(world)
        cloud = self._chaos.wrap(world.cloud)
        engine = world.engine("conductor", cloud, took_step=self._note)
        server = await lookup.find(world.cloud, server_id)
        await requests.resize(cloud, engine, world.requester(), server, LARGE, leaves_cell=self._picture.crosses)
        there = await self._settled(world, engine)
        server = await lookup.find(world.cloud, server_id)
        say = requests.confirm if verdict == "confirm" else requests.revert
        await say(cloud, engine, world.requester(), server)
        self._from = len(self._chaos.touches)  # calls of the API are not part of a step
        after = await self._settled(world, engine)
        await world.close()
        return there, after

    async def _settled(self, world: World, engine: Engine) -> list[Seen]:
        await world.settle(engine)
        seen, self._seen = self._seen, []
        return seen

    def _note(self, run: Run, entry: LogEntry) -> None:
        touches = tuple(self._chaos.touches[self._from :])
        self._from = len(self._chaos.touches)
        if not self._seen and entry.way == "do" and any("accept" in touch for touch in touches):
            self._seen.append(Seen(_accepted(run).name, "do", ("journal.accept",)))
            touches = touches[touches.index("journal.accept") + 1 :]
        if entry.outcome == "done":
            self._seen.append(Seen(entry.step, entry.way, touches))


def _accepted(run: Run) -> Step:
    """Return the step that is saved together with the run itself."""
    return next(step for step in RESIZE.steps if step.accepted)


async def _booted(world: World) -> ServerId:
    engine = world.engine("setup")
    server = with_devices(world.new_server("s"))
    server = replace(
        server, requested_nics=(*server.requested_nics, RequestedNic(port_id=DIRECT_PORT, network_id=NETWORK))
    )
    await create.accept(world.cloud, engine, world.requester(), [server], HostName("h1"))
    await world.settle(engine)
    return server.id


# Drawing


def participants(picture: Picture) -> dict[str, str]:
    """Return the participants in drawing order, by the prefix of their touches."""
    records = {"c1": "records of the source's cell", "c2": "records of the target's cell"}
    if not picture.crosses:
        records = {"c1": "records of the cell"}
    return {
        "journal": "global database",
        "placement": "Placement",
        "network": "network service",
        "volumes": "volume service",
        "images": "image service",
        "c1": records["c1"],
        "agent h1": "agent of the source",
        **({"c2": records["c2"]} if picture.crosses else {}),
        "agent h2": "agent of the target",
    }


def _who(touch: str) -> str:
    who = touch.rsplit(".", 1)[0].split(".")[0]
    return "journal" if who == "directory" else who


def asked(seen: Seen) -> Iterator[tuple[str, list[str]]]:
    """Yield each called participant with its calls; repeated calls appear once."""
    before, verbs = "", list[str]()
    for touch in seen.touches:
        who, verb = _who(touch), touch.rsplit(".", 1)[1]
        if verb in BOOKKEEPING or not (changes(touch) or verb in TOLD_READS):
            continue
        if who != before and verbs:
            yield before, verbs
            verbs = []
        before = who
        if verb not in verbs:
            verbs.append(verb)
    if verbs:
        yield before, verbs


def _lines(walked: Sequence[Seen], short: Mapping[str, str], indent: str) -> Iterator[str]:
    for seen in walked:
        arrow, name = ("->>", seen.step) if seen.way == "do" else ("-->>", _undo_of(seen.step))
        calls = list(asked(seen))
        if not calls:
            yield f"{indent}C{arrow}C: {name}"
        for who, verbs in calls:
            yield f"{indent}C{arrow}{short[who]}: {name} ({', '.join(verbs)})"


def _undo_of(name: str) -> str:
    undo = RESIZE.step(name).undo
    assert undo, "what was walked up has an undo"
    return undo.__name__


async def draw(picture: Picture) -> str:
    """Draw one move, with both of its verdicts."""
    there, confirmed = await Watcher(picture).watch("confirm")
    _, reverted = await Watcher(picture).watch("revert")
    there_are = participants(picture)
    needed = {who for seen in (*there, *confirmed, *reverted) for who, _ in asked(seen)}
    short = {who: f"P{number}" for number, who in enumerate(who for who in there_are if who in needed)}
    names = [f"    participant {name} as {there_are[who]}" for who, name in short.items()]
    body = [
        "```mermaid",
        "sequenceDiagram",
        "    actor U as owner",
        "    participant C as conductor",
        *names,
        "    U->>C: resize",
        *_lines(there, short, "    "),
        "    Note over C: VERIFY_RESIZE: parked until its owner says what is to be",
        "    alt confirmed: on down the list",
        "        U->>C: confirm",
        *_lines(confirmed, short, "        "),
        "    else reverted: back up the list, each undo dashed",
        "        U->>C: revert",
        *_lines(reverted, short, "        "),
        "    end",
        "```",
    ]
    return f"## {picture.title}\n\n" + "\n".join(body) + "\n"


def table() -> str:
    """Return the list of steps as a table, with conditions and undos."""
    lines = ["## The list", "", "| line | only if | undo | this undo waits for those of |", "|---|---|---|---|"]
    for step in RESIZE.steps:
        condition = step.only_if.__name__ if step.only_if else ""
        undo = step.undo.__name__ if step.undo else ""
        if step.name == RESIZE.forward_only[0].name:
            lines.append("| *from here on only forward* | | | |")
        lines.append(f"| `{step.name}` | {condition} | {undo} | {', '.join(each.__name__ for each in step.after)} |")
    return "\n".join(lines) + "\n"


async def document() -> str:
    """Return the page."""
    return "\n".join([HEAD, *[await draw(picture) for picture in PICTURES], table()])


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(asyncio.run(document()))
