"""The mutants of the guards of a cloud whose databases were restored."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest import mock

import sqlalchemy as sa

from tests.stories.leaving_out import Mutant, nothing
from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.global_ import journal, run_leases
from whimbrel.adapters.sql.global_.restores import may_go_on, read_state
from whimbrel.adapters.sql.placement import store as placement
from whimbrel.domain.guest import Order
from whimbrel.ports.stores.restores import CloudState
from whimbrel.proof import ledgers
from whimbrel.saga.engine import Engine

RESTORED = "restored"
"""The kind of these mutants: they are told the stories of tests/stories/guards.py."""


def of_restored() -> Iterator[Mutant]:
    yield _mutant("hosts compare no progress", partial(no_progress_at, "host"))
    yield _mutant("cells compare no progress", partial(no_progress_at, "the cell"))
    yield _mutant("placement compares no progress", _no_progress_at_placement)
    yield _mutant("a run is driven without a look at its lock", nothing((Engine, "_check_lock")))
    yield _mutant("no start compares the ledgers", lambda: mock.patch.object(ledgers, "check", _nothing_found))
    yield _mutant("held runs are accepted", lambda: mock.patch.object(journal, "check_not_held", _never_held))
    yield _mutant("held runs are saved", partial(_without_hold, journal, "_save"))
    yield _mutant("held runs are taken", partial(_without_hold, run_leases, "_due"))


def _mutant(name: str, patch: Any) -> Mutant:
    return Mutant(f"{RESTORED}: {name}", patch, kind=RESTORED)


def no_progress_at(where: str) -> AbstractContextManager[Any]:
    check = Order.check

    def careless(self: Order, place: str, epoch: int, progress: int) -> None:
        check(self, place, epoch, 0 if place.startswith(where) else progress)

    return mock.patch.object(Order, "check", careless)


def _no_progress_at_placement() -> AbstractContextManager[Any]:
    raise_fence = placement.raise_fence

    async def careless(tx: Tx, order: Order) -> None:
        await raise_fence(tx, Order(order.run, order.epoch))

    return mock.patch.object(placement, "raise_fence", careless)


async def _nothing_found(*_: Any) -> list[ledgers.Contradiction]:
    return []


async def _never_held(tx: Tx, saga: str) -> CloudState:
    return await read_state(tx)


def _without_hold(module: Any, statement: str) -> AbstractContextManager[Any]:
    """Leave the condition out of a statement that no run is changed while all are held."""
    known: sa.Select[Any] | sa.Update = getattr(module, statement)
    careless = known._generate()
    careless._where_criteria = tuple(one for one in known._where_criteria if one is not may_go_on)
    assert len(careless._where_criteria) < len(known._where_criteria)
    return mock.patch.object(module, statement, fixed(careless))
