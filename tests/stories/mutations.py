"""What is taken away from a resize, one thing at a time: each undo, wait, save, line, fence and guard of it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

from msgspec.structs import replace as with_

from whimbrel.adapters.sql import devices as sql_devices
from whimbrel.adapters.sql import servers as sql_servers
from whimbrel.adapters.sql.directory import SqlDirectory
from whimbrel.adapters.sql.journal import SqlJournal
from whimbrel.adapters.sql.placement import store as placement
from whimbrel.adapters.sql.servers import SqlServers
from whimbrel.agent.fence import Fence
from whimbrel.conductor.book import BOOK
from whimbrel.domain.errors import Superseded
from whimbrel.domain.run import Run
from whimbrel.moves.resize import MIGRATE, RESIZE
from whimbrel.moves.steps import disk, guest, network, record, volumes
from whimbrel.moves.steps.target import choose_target
from whimbrel.ports.journal import Evidence
from whimbrel.reconcilers import rounds
from whimbrel.reconcilers.late_parcels import drop_late_parcels
from whimbrel.reconcilers.latecomers import let_go_latecomers
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Book, Saga, Step
from whimbrel.sim import stories

CONTROL = "nothing left out"
"""Not a mutant: the stories must not complain of it."""

Patch = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Mutant:
    """about: a word of the stories that are likely to notice; they are told first."""

    name: str
    patch: Patch
    about: str = ""


def mutants() -> Iterator[Mutant]:
    yield Mutant(CONTROL, nullcontext)
    for step in RESIZE.undoable:
        if step.undo:
            yield Mutant(f"no undo of {step.name}", _book(step, undo=None), _about(step))
        if step.after:
            yield Mutant(f"the undo of {step.name} waits for nothing", _book(step, after=()), _about(step))
    for step in RESIZE.steps:
        if step.do not in (choose_target, record.await_verdict) and not step.accepted:
            yield Mutant(f"{step.name} does nothing", _book(step, do=_idle(step)), _about(step))
        if step.do is record.switch_home:
            continue  # parking is the next write, and the step may run twice: nothing is lost, nothing can be noticed
        yield Mutant(f"{step.name} is not saved", partial(_unsaved, step.name), _about(step))
    yield from _fences()
    yield from _guards()


def _about(step: Step) -> str:
    """Say which stories have this line."""
    conditions = {"crosses_cells": "cell", "sends_disk": "cell", "wants_pci": "function", "had_pci": "function"}
    devices = {"moves_ports": "ports", "has_ports": "ports", "moves_volumes": "ports"}
    return {**conditions, **devices}.get(step.only_if.__name__ if step.only_if else "", "")


def _fences() -> Iterator[Mutant]:
    yield Mutant("no fence at the servers' records", lambda: _nothing(sql_servers, "pass_fence"))
    yield Mutant("no fence at the servers' records, told of cells", lambda: _nothing(sql_servers, "pass_fence"), "cell")
    yield Mutant("no fence at the devices", lambda: _nothing(sql_devices, "pass_fence"), "function")
    # What it books a resize cannot miss, for it books the same again; the switch between cells it can.
    yield Mutant("no fence at the directory", lambda: _nothing(SqlDirectory, "_fence"), "cell")
    yield Mutant("no fence at placement", lambda: _nothing(placement, "raise_fence"))
    yield Mutant("no fence at the hosts", _open_fence)
    yield Mutant("the journal takes any epoch", _any_epoch)
    yield Mutant("the epoch does not rise after silence", _still_epoch)
    yield Mutant(
        "networks are called without a look at the journal", lambda: _nothing(network, "check_in_hand"), "ports"
    )
    yield Mutant(
        "volumes are called without a look at the journal", lambda: _nothing(volumes, "check_in_hand"), "ports"
    )


def _guards() -> Iterator[Mutant]:
    yield Mutant("destroyed without looking", lambda: _nothing(guest, "_see"))
    yield Mutant("volumes are not had back", lambda: _nothing(volumes, "return_to_source"), "ports")
    yield Mutant("no record is frozen at a switch", _never_frozen, "cell")
    yield Mutant("no record is whole again", _never_whole, "cell")
    yield Mutant("the disk's image is left where it was sent", lambda: _nothing(disk, "drop_parcel"), "cell")
    yield Mutant("what came late to networks and volumes stays", lambda: _without(let_go_latecomers), "ports")
    yield Mutant("an image that came late stays", lambda: _without(drop_late_parcels), "cell")


# How


def _book(step: Step, **fields: Any) -> Patch:
    """Give every move this change of one line."""

    def changed(saga: Saga) -> Saga:
        def change(lines: tuple[Step, ...]) -> tuple[Step, ...]:
            return tuple(replace(one, **fields) if one is step else one for one in lines)

        return replace(saga, undoable=change(saga.undoable), forward_only=change(saga.forward_only))

    others = [saga for saga in BOOK if saga not in (RESIZE, MIGRATE)]
    book = Book(changed(RESIZE), changed(MIGRATE), *others)
    return lambda: mock.patch.object(stories, "BOOK", book)


def _idle(step: Step) -> Callable[..., Any]:
    async def idle(*_: Any) -> None:
        return None

    idle.__name__ = step.name
    return idle


def _unsaved(step: str) -> AbstractContextManager[Any]:
    """Lose what was learned when this step was done, once."""
    save = SqlJournal.save

    async def forgetful(self: SqlJournal, run: Run, raised: bool = False, evidence: Evidence | None = None) -> None:
        if not (run.log and run.log[-1].step == step and run.log[-1].outcome == "done"):
            await save(self, run, raised, evidence)

    return mock.patch.object(SqlJournal, "save", forgetful)


def _nothing(where: Any, name: str) -> AbstractContextManager[Any]:
    async def nothing(*_: Any, **__: Any) -> None:
        return None

    return mock.patch.object(where, name, nothing)


def _open_fence() -> AbstractContextManager[Any]:
    """Have hosts note epochs, and refuse none."""
    is_news = Fence._is_news

    def careless(self: Fence, *order: Any) -> bool:
        try:
            return is_news(self, *order)
        except Superseded:
            return False

    return mock.patch.object(Fence, "_is_news", careless)


def _without(look: Any) -> AbstractContextManager[Any]:
    return mock.patch.object(rounds, "SLOW_ROUNDS", tuple(one for one in rounds.SLOW_ROUNDS if one is not look))


def _never_frozen() -> AbstractContextManager[Any]:
    stand = SqlServers.stand

    async def careless(self: SqlServers, order: Any, server: Any, standing: Any) -> Any:
        return await stand(self, order, server, "shared" if standing == "frozen" else standing)

    return mock.patch.object(SqlServers, "stand", careless)


def _never_whole() -> AbstractContextManager[Any]:
    stand = SqlServers.stand

    async def careless(self: SqlServers, order: Any, server: Any, standing: Any) -> Any:
        return await stand(self, order, server, "shared" if standing == "whole" else standing)

    return mock.patch.object(SqlServers, "stand", careless)


def _any_epoch() -> AbstractContextManager[Any]:
    save = SqlJournal.save

    async def careless(self: SqlJournal, run: Run, raised: bool = False, evidence: Evidence | None = None) -> None:
        known = await self.get(run.id)
        if not known.is_over:
            await save(self, with_(run, epoch=known.epoch), False, evidence)

    return mock.patch.object(SqlJournal, "save", careless)


@contextmanager
def _still_epoch() -> Iterator[None]:
    save = Engine._save

    async def still(self: Engine, run: Run, raised: bool = False, evidence: Evidence | None = None) -> Run:
        return await save(self, with_(run, epoch=run.epoch - raised), False, evidence)

    with mock.patch.object(Engine, "_save", still):
        yield
