"""The fence of one host and its ledger: the newest obeyed order of each run, and the last run to order for each server.

Invariants: an order older than the newest seen is refused, also after a restart; a newer one is durable before it is
obeyed, or, if the effects of orders are in the same store, durable with the first of them and before the answer. Once
another run has ordered something for the server, an order of the same epoch is a late duplicate and is refused too:
runs on a server follow each other, and one that continues after another does so under a new epoch. An order under a
newer epoch with less progress than was obeyed comes from a restored database: it is refused with Behind.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from msgspec.structs import asdict

from whimbrel.domain.errors import Superseded, Unavailable
from whimbrel.domain.guest import Ledger, Obeyed, Order
from whimbrel.domain.ids import HostName, RunId, ServerId
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.key_value_store import KeyValueStore, Staged


class Seen(msgspec.Struct, frozen=True):
    epoch: int
    at: float  # seconds since 1970
    server: ServerId | None = None
    number: int = 0  # sequence number on this host
    progress: int = 0
    incarnation: int = 0


_decode = msgspec.json.Decoder(Seen).decode
_encode = msgspec.json.Encoder().encode

_HIGHEST = "highest"


async def move_ledger(host: HostName, old: KeyValueStore, new: KeyValueStore) -> None:
    """Copy the ledger of a host into a store that has no entries of it. Repeatable."""
    for space in (f"fence/{host}", f"incarnation/{host}"):
        if not await new.scan(space):
            for key, value in (await old.scan(space)).items():
                await new.put(space, key, value)


class Fence:
    def __init__(self, host: HostName, store: KeyValueStore, clock: Clock, *, effects_in_store: bool = False) -> None:
        """effects_in_store: what orders do is in this store, too, and nowhere else, so that one commit has both."""
        self._host = host
        self._space = f"fence/{host}"
        self._incarnation_space = f"incarnation/{host}"
        self._store = store
        self._clock = clock
        self._seen: dict[RunId, Seen] | None = None
        self._effects_in_store = effects_in_store
        self._staged: dict[RunId, Staged] = {}
        self._stored: dict[RunId, bytes] = {}  # the same as read: an older program wrote fewer fields
        self._last: dict[ServerId, RunId] = {}
        self._number = 0
        self._incarnation = 0
        self._changing = asyncio.Lock()  # so that the higher of two epochs is written last

    async def admit(self, order: Order, server: ServerId | None = None) -> None:
        """Admit an order and store it; a known one costs no write. With effects it is durable only with the next write.

        Raises: Superseded, Behind.
        """
        seen = await self._all()
        if self._store.is_shared and not self._is_news(order, server):
            await self._read_again(order.run)  # what is written is compared with what is stored then
        if not self._is_news(order, server):
            return
        async with self._changing:
            while self._is_news(order, server):  # it may have been admitted during the wait
                await self.adopt(order.incarnation)
                self.check(order, server)
                before = seen.get(order.run)
                value = Seen(
                    order.epoch,
                    self._clock.now(),
                    server,
                    self._number + 1,
                    max(order.progress, before.progress if before else 0),
                    max(order.incarnation, before.incarnation if before else 0),
                )
                stored = _encode(value)
                if await self._write(order.run, stored):
                    self._note(seen, order.run, value, stored)
                else:  # another agent of this host has written
                    await self._read_again(order.run)

    def check(self, order: Order, server: ServerId | None = None) -> None:
        """Check again an order that was admitted earlier. Raises: Superseded, Behind."""
        self._is_news(order, server)

    @asynccontextmanager
    async def admitted(self, order: Order, server: ServerId | None = None) -> AsyncIterator[None]:
        """Admit an order; it is durable at the end, before it is answered. Raises: Superseded, Behind, Unavailable."""
        await self.admit(order, server)
        try:
            yield
        finally:
            await self._settle(order.run)

    async def adopt(self, incarnation: int) -> None:
        """Refuse orders of older incarnations of the cloud from now on. Durable; a lower one changes nothing."""
        await self._all()
        while incarnation > self._incarnation:  # another agent of this host may have adopted a higher one
            before = await self._store.get(self._incarnation_space, _HIGHEST)
            highest, value = int(before or 0), str(incarnation).encode()
            if highest >= incarnation:
                self._incarnation = highest
            elif await self._store.replace(self._incarnation_space, _HIGHEST, before, value):
                self._incarnation = incarnation

    async def ledger(self, newest: int = 0) -> Ledger:
        """Return the obeyed orders, the newest first. newest: maximum number of entries; 0: all."""
        seen = await self._all()
        entries = sorted(seen.items(), key=lambda one: -one[1].number)[: newest or None]
        return Ledger(self._incarnation, tuple(Obeyed(run=run, **asdict(value)) for run, value in entries))

    async def prune(self, before: float) -> None:
        """Forget runs without new orders since `before`."""
        seen = await self._all()
        async with self._changing:
            for run in [run for run, last in seen.items() if last.at < before]:
                await self._store.delete(self._space, run)
                server = seen.pop(run).server
                self._staged.pop(run, None)
                del self._stored[run]
                if server and self._last.get(server) == run:
                    del self._last[server]

    async def _write(self, run: RunId, stored: bytes) -> bool:
        """Write the entry of a run if it is there as it was read. Return whether it was."""
        before = self._stored.get(run)
        if not self._effects_in_store:
            return await self._store.replace(self._space, run, before, stored)
        staged = await self._store.stage(self._space, run, before, stored)
        if staged:
            self._staged[run] = staged
        return staged is not None

    async def _settle(self, run: RunId) -> None:
        """Wait until the entry of a run is durable. Raises: Unavailable: it is lost."""
        if staged := self._staged.get(run):
            try:
                await staged.durable()
            except Unavailable:
                await self._read_again(run)
                raise
            finally:
                if self._staged.get(run) is staged:
                    del self._staged[run]

    def _is_news(self, order: Order, server: ServerId | None) -> bool:
        assert self._seen is not None, "an order is checked after it was admitted"
        if order.incarnation and order.incarnation < self._incarnation:
            what = f"of incarnation {order.incarnation} of the cloud, and {self._incarnation} has ordered here"
            raise Superseded(f"the order of run {order.run} is {what}")
        newest = self._seen.get(order.run)
        if newest is None:
            return True
        order.check(f"host {self._host}", newest.epoch, newest.progress)
        if newest.epoch < order.epoch:
            return True
        last = self._last.get(server, order.run) if server else order.run
        if last != order.run:
            raise Superseded(f"run {last} has ordered something of server {server} since run {order.run} did")
        return order.progress > newest.progress or order.incarnation > newest.incarnation

    def _note(self, seen: dict[RunId, Seen], run: RunId, value: Seen, stored: bytes) -> None:
        seen[run] = value
        self._stored[run] = stored
        self._number = max(self._number, value.number)
        self._incarnation = max(self._incarnation, value.incarnation)
        if value.server:
            self._last[value.server] = run

    async def _read_again(self, run: RunId) -> None:
        """Read the entry of this run again: another process may have written it."""
        assert self._seen is not None
        kept = await self._store.get(self._space, run)
        if kept is None:
            self._seen.pop(run, None)
            self._stored.pop(run, None)
        elif kept != self._stored.get(run):
            self._note(self._seen, run, _decode(kept), kept)

    async def _all(self) -> dict[RunId, Seen]:
        if self._seen is None:
            kept = await self._store.scan(self._space)
            highest = await self._store.get(self._incarnation_space, _HIGHEST)
            if self._seen is None:  # another caller may have read them meanwhile
                found = {RunId(run): _decode(value) for run, value in kept.items()}
                self._seen = {}  # only after a complete read: a partial fence would admit stale orders
                self._incarnation = int(highest or 0)
                for run, value in sorted(found.items(), key=lambda one: one[1].number):
                    self._note(self._seen, run, value, kept[run])
        return self._seen
