"""Keeps a process's in-memory index of providers in step with the database.

Invariants: the index contains everything committed before it was requested. An index and its mark change together or
not at all: an old index with a newer mark would never learn of the changes between them. All providers are read in
pieces, each in its own transaction, so that other requests do not wait for long; changes made meanwhile are applied
afterwards.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random

import structlog

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.placement import changes
from whimbrel.adapters.sql.placement.changes import Mark
from whimbrel.adapters.sql.placement.provider_queries import count, read_next, read_some
from whimbrel.placement.index import Index
from whimbrel.placement.provider import Node

log = structlog.get_logger(__name__)

PIECE = 1000
"""How many providers are read per transaction when all are read."""

MANY = 1000
"""Up to this number of changed providers are read individually, whatever the total is."""

PART = 4
"""If more than one in PART providers was changed, all are read again."""


CHECKED = 500
"""How many providers one check compares with the database."""


@dataclass
class _View:
    """All providers as of a mark."""

    index: Index
    mark: Mark


class Feed:
    def __init__(self, db: Database, rng: Random) -> None:
        self._db = db
        self._rng = rng
        self._view: _View | None = None
        self._checked = ""  # the last provider that was compared with the database
        self._feeding = asyncio.Lock()  # an earlier read must not be applied after a later one
        self._begun = self._ended = 0  # number of the last read that was started, and of the last that succeeded

    async def index(self) -> Index:
        """Return the index as of now; valid until the next await."""
        asked = self._begun
        async with self._feeding:
            if self._view is None or self._ended <= asked:  # otherwise a read that began since then serves all waiters
                self._begun += 1
                if self._view is None or not await self._is_current(self._view):
                    self._view = await self._load()
                self._ended = self._begun
            return self._view.index

    async def check(self, most: int = CHECKED) -> bool:
        """Compare the next `most` providers with the database; False: they differed, and all were read again.

        Repeated checks cover all providers in turn.
        """
        async with self._feeding:
            if self._view is None:
                return True
            async with self._db.read() as tx:
                if not await self._catch_up(tx, self._view, MANY):
                    return True  # the next request reads all again
                there, nodes = await count(tx), await read_next(tx, self._checked, most)
            self._checked = nodes[-1].provider.uuid if len(nodes) == most else ""
            known = self._view.index.nodes
            wrong = [node.provider.uuid for node in nodes if known.get(node.provider.uuid) != node]
            if not wrong and there == len(known):
                return True
            log.warning(
                "providers in memory differ from the database; all are read again",
                wrong=wrong[:10],
                in_memory=len(known),
                in_database=there,
            )
            self._view = await self._load()
            return False

    async def _is_current(self, view: _View) -> bool:
        async with self._db.urgent.read() as tx:  # all decisions wait for it
            return await self._catch_up(tx, view, max(MANY, len(view.index.nodes) // PART))

    async def _load(self) -> _View:
        """Read all providers, once if possible, however many change meanwhile."""
        await changes.ensure_numbers_rise(self._db)
        while True:
            async with self._db.read() as tx:
                view = _View(Index((), self._rng), await changes.here(tx))
            async for nodes in self._pieces():
                view.index.apply((), nodes)
            async with self._db.read() as tx:
                if await self._catch_up(tx, view, None):
                    return view

    async def _pieces(self) -> AsyncIterator[list[Node]]:
        after, found = "", PIECE
        while found == PIECE:
            async with self._db.read() as tx:
                nodes = await read_next(tx, after, PIECE)
            yield nodes
            found = len(nodes)
            if found == PIECE:
                after = nodes[-1].provider.uuid
                await asyncio.sleep(0)  # let other tasks run

    async def _catch_up(self, tx: Tx, view: _View, most: int | None) -> bool:
        """Apply the changes since the mark; False: they are unknown, or concern more than `most` providers."""
        touched, mark = await changes.since(tx, view.mark)
        if touched is None or (most is not None and len(touched) > most):
            return False
        if touched:
            view.index.apply(touched, await read_some(tx, touched))
        view.mark = mark
        return True
