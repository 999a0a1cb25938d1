"""Keeps the index of a process in step with the database.

Invariants: the index holds all that was committed before the request for it. An index and its mark change together or
not at all: an old index under a newer mark would never learn what was changed between them. All providers are read in
pieces, each in its own transaction, so that no other request waits for long; what was changed meanwhile is applied
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
"""How many providers are read in one transaction when all are read."""

MANY = 1000
"""So many changed providers are read by themselves, however few there are in all."""

PART = 4
"""If more than one in so many was changed, all are read anew."""


CHECKED = 500
"""How many providers are compared with the database in one check."""


@dataclass
class _View:
    """All providers as they were at a mark."""

    index: Index
    mark: Mark


class Feed:
    def __init__(self, db: Database, rng: Random) -> None:
        self._db = db
        self._rng = rng
        self._view: _View | None = None
        self._checked = ""  # the provider up to which the index was compared with the database
        self._feeding = asyncio.Lock()  # what was read earlier must not be applied later
        self._begun = self._ended = 0  # which look at the database was begun last, and which one ended well

    async def index(self) -> Index:
        """Give the index as the database is now; it holds until the next await."""
        asked = self._begun
        async with self._feeding:
            if self._view is None or self._ended <= asked:  # else a look that was begun since serves all who waited
                self._begun += 1
                if self._view is None or not await self._is_current(self._view):
                    self._view = await self._load()
                self._ended = self._begun
            return self._view.index

    async def check(self, most: int = CHECKED) -> bool:
        """Compare the next so many providers with the database; False: they differed, and all were read anew.

        Check after check comes round to all of them.
        """
        async with self._feeding:
            if self._view is None:
                return True
            async with self._db.read() as tx:
                if not await self._catch_up(tx, self._view, MANY):
                    return True  # who asks next reads all anew
                there, nodes = await count(tx), await read_next(tx, self._checked, most)
            self._checked = nodes[-1].provider.uuid if len(nodes) == most else ""
            known = self._view.index.nodes
            wrong = [node.provider.uuid for node in nodes if known.get(node.provider.uuid) != node]
            if not wrong and there == len(known):
                return True
            log.warning(
                "providers in memory are not those of the database: all are read anew",
                wrong=wrong[:10],
                in_memory=len(known),
                in_database=there,
            )
            self._view = await self._load()
            return False

    async def _is_current(self, view: _View) -> bool:
        if mark := await changes.unchanged(self._db, view.mark):
            view.mark = mark
            return True
        async with self._db.read() as tx:
            return await self._catch_up(tx, view, max(MANY, len(view.index.nodes) // PART))

    async def _load(self) -> _View:
        """Read all providers. However many are changed meanwhile, that is not done twice if it can be avoided."""
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
                await asyncio.sleep(0)  # others may have waited

    async def _catch_up(self, tx: Tx, view: _View, most: int | None) -> bool:
        """Apply what was changed; False: that is not known, or more than `most` providers were."""
        touched, mark = await changes.since(tx, view.mark)
        if touched is None or (most is not None and len(touched) > most):
            return False
        if touched:
            view.index.apply(touched, await read_some(tx, touched))
        view.mark = mark
        return True
