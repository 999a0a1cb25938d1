"""The matrix of moves, how far they go, and what the server has: `python -m tools.parity FILE` (make docs).

It is observed, not written by hand: every scenario of the stories is played without faults in the simulated cloud, and
the journal says which moves were made, from where to where, of which server, and how they ended. A scenario is a
dataclass in a sequence of a module of tests/stories; the class that plays it is found beside its definition, by type.
"""

import asyncio
import importlib
import inspect
import pkgutil
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests import stories
from tools.scenarios.incarnations import Incarnations, Result
from whimbrel.domain.ids import ServerId
from whimbrel.domain.pci import ALIAS, DIRECT
from whimbrel.domain.run import Run, has_facts
from whimbrel.domain.server import Server
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.stores.journal import RunFilter

HOST, CELL, FAR = "same host", "same cell", "other cell"
VARIANTS = ("image", "volume", "QoS", "PCI", "group", "zone")

MOVES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "resize": ("resize", (HOST, CELL, FAR)),
    "migrate": ("cold migration", (CELL, FAR)),
    "live_migrate": ("live migration", (CELL, FAR)),
    "evacuate": ("evacuation", (CELL, FAR)),
    "shelve": ("shelve", (HOST,)),
    "shelve_offload": ("offload", (HOST,)),
    "unshelve": ("unshelve", (HOST, CELL, FAR)),
    "rebuild": ("rebuild", (HOST,)),
}
"""List of steps -> the name of the move, and how far it can go by its nature; anywhere else it does not apply."""

NAMED_OTHERWISE = {"unshelve_in_place": "unshelve"}

HEAD = """\
# Which moves work, and how far

Made by `make docs` from the scenarios of the stories: each is played in the simulated cloud, and the journal says what
was moved, where to, and how it ended. A number counts the scenarios in which the move works; nearly all of them are
also played with a crash, a silence, a refusal and a late order at every touch of every port. *refused*: the move ends
as if it had never begun, for the reason that is listed below. *untold*: no scenario has it. -: it does not apply. A
server of a scenario may be in several columns.

| column | the server |
|---|---|
| image | has its root disk on its host, made from an image |
| volume | boots from a volume or has one attached |
| QoS | has a port with guaranteed bandwidth or packet rate |
| PCI | has a device of its host: by its flavor, or for a port of vnic type direct |
| group | is in a server group |
| zone | is pinned to an availability zone |
"""


class Told(NamedTuple):
    """A move in a scenario. refusal: why it was undone; None: it was done."""

    scenario: str
    saga: str
    reach: str
    variants: frozenset[str]
    refusal: str | None


def scenarios() -> list[tuple[Any, type[Incarnations]]]:
    """Return every scenario of tests/stories with the class that plays it."""
    found: dict[str, tuple[Any, type[Incarnations]]] = {}
    for module in pkgutil.iter_modules(stories.__path__):
        values = vars(importlib.import_module(f"{stories.__name__}.{module.name}")).values()
        for one in (one for value in values if isinstance(value, tuple | list) for one in value):
            if is_dataclass(one) and not isinstance(one, type) and (player := player_of(type(one))):
                found.setdefault(f"{type(one).__module__} {one}", (one, player))
    return [found[name] for name in sorted(found)]


def player_of(kind: type) -> type[Incarnations] | None:
    """Return the class that plays scenarios of a kind: the one of the kind's module that takes a scenario and plans."""
    for one in vars(sys.modules[kind.__module__]).values():
        if inspect.isclass(one) and issubclass(one, Incarnations) and one.__module__ == kind.__module__:
            first, *others = inspect.signature(one).parameters.values()
            is_plan = [other.kind is inspect.Parameter.VAR_POSITIONAL for other in others]
            if first.annotation in (kind, kind.__name__) and all(is_plan):
                return one
    return None


async def told() -> list[Told]:
    """Play all scenarios; return their moves."""
    found = []
    for scenario, player in scenarios():
        if getattr(scenario, "refusing", ()):
            continue  # its hosts are told to refuse
        result = await player(scenario).play()
        found += [one async for one in _moves_of(str(scenario), result)]
        await result.world.close()
    return found


async def _moves_of(name: str, result: Result) -> AsyncIterator[Told]:
    cloud, before = result.world.cloud, result.before["servers"].get(result.server.id)
    if before is None:
        return  # it is created, and moved by nobody
    variants = await _variants(result, before)
    for run in await cloud.journal.find(
        RunFilter(subject=ServerId(result.server.id), sagas=(*MOVES, *NAMED_OTHERWISE))
    ):
        refused = run.state == "undone" and run.turned == "refused"
        if run.state in ("done", "parked") or refused or run.turned == "reverted":
            reason = (run.message or "?").replace(run.subject, "ID") if refused else None
            yield Told(name, NAMED_OTHERWISE.get(run.saga, run.saga), _reach(run, before), variants, reason)


async def _variants(result: Result, server: Server) -> frozenset[str]:
    ports = await result.world.cloud.network.ports_of([server.id]) if server.nics else []
    of_volume = server.volumes or not server.has_local_root
    has = {
        "image": server.has_local_root,
        "volume": bool(of_volume),
        "QoS": any(port.requests for port in ports),
        "PCI": ALIAS in server.flavor.extra_specs or any(nic.vnic_type == DIRECT for nic in server.nics),
        "group": server.spec.requested_group is not None,
        "zone": server.spec.zone_pin is not None,
    }
    return frozenset(name for name in VARIANTS if has[name])


def _reach(run: Run, server: Server) -> str:
    """server: before the move; an unshelved one may be in a cell and on no host."""
    if not has_facts(run, MoveFacts):
        return HOST
    if run.facts.target is None:
        return FAR if run.facts.leaves_cell else CELL
    source, target = run.facts.source, run.facts.target
    cell, host = (source.cell, source.host) if source else (server.cell, getattr(server, "shelved_host", None))
    if target.cell != cell:
        return FAR
    return HOST if target.host == host and source else CELL


# The page


def document(moves: Sequence[Told]) -> str:
    return "\n".join([HEAD, *_tables(moves), *_refusals(moves), "", "## The scenarios", "", *_names(moves)]) + "\n"


def _tables(moves: Sequence[Told]) -> Iterator[str]:
    yield f"| move | to | {' | '.join(VARIANTS)} |"
    yield f"|---|---|{'---|' * len(VARIANTS)}"
    for saga, (name, reaches) in MOVES.items():
        for reach in (HOST, CELL, FAR):
            cells = [_cell(moves, saga, reach, one) if reach in reaches else "-" for one in VARIANTS]
            yield f"| {name} | {reach} | {' | '.join(cells)} |"


def _cell(moves: Sequence[Told], saga: str, reach: str, variant: str) -> str:
    here = [one for one in moves if (one.saga, one.reach) == (saga, reach) and variant in one.variants]
    works = sum(one.refusal is None for one in here)
    return f"works ({works})" if works else "refused" if here else "untold"


def _refusals(moves: Sequence[Told]) -> Iterator[str]:
    refused = sorted({(MOVES[one.saga][0], one.reach, one.scenario, one.refusal) for one in moves if one.refusal})
    if refused:
        yield from ("", "## Refusals", "", "| move | to | scenario | reason |", "|---|---|---|---|")
    for line in refused:
        yield f"| {' | '.join(str(part) for part in line)} |"


def _names(moves: Sequence[Told]) -> Iterator[str]:
    by_move: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in moves:
        by_move[one.saga, one.reach].add(one.scenario)
    for saga, (name, reaches) in MOVES.items():
        for reach in reaches:
            if found := sorted(by_move[saga, reach]):
                yield f"* **{name}, {reach}**: {'; '.join(found)}"


def main(path: Path) -> None:
    path.write_text(document(asyncio.run(told())))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
