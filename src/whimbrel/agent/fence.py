"""The fence of one host: the newest epoch seen of each run, and which run was the last to order something of a server.

Laws: an order older than the newest seen is refused, also after a restart; a newer one is durable before it is obeyed.
Once another run has ordered something of the server, an order of the same epoch is a double that comes late, and is
refused too: runs on a server follow each other, and one that goes on after another does so under a new epoch.
"""

import asyncio

import msgspec

from whimbrel.domain.errors import Superseded
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import HostName, RunId, ServerId
from whimbrel.ports.clock import Clock
from whimbrel.ports.keep import Keep


class Seen(msgspec.Struct, frozen=True):
    epoch: int
    at: float  # seconds since 1970
    server: ServerId | None = None
    number: int = 0  # in which order epochs came to this host


_decode = msgspec.json.Decoder(Seen).decode
_encode = msgspec.json.Encoder().encode


class Fence:
    def __init__(self, host: HostName, keep: Keep, clock: Clock) -> None:
        self._space = f"fence/{host}"
        self._keep = keep
        self._clock = clock
        self._seen: dict[RunId, Seen] | None = None
        self._last: dict[ServerId, RunId] = {}
        self._number = 0
        self._changing = asyncio.Lock()  # so that of two rising epochs the higher one is written last

    async def admit(self, order: Order, server: ServerId | None = None) -> None:
        """Let an order in and remember its epoch; equal epochs cost no write. Raises: Superseded."""
        seen = await self._all()
        if not self._is_news(order, server):
            return
        async with self._changing:
            if self._is_news(order, server):  # nobody was faster while we waited
                self._number += 1
                value = Seen(order.epoch, self._clock.now(), server, self._number)
                await self._keep.put(self._space, order.run, _encode(value))
                self._note(seen, order.run, value)

    def check(self, order: Order, server: ServerId | None = None) -> None:
        """Look again at an order that was let in a while ago. Raises: Superseded."""
        self._is_news(order, server)

    async def prune(self, before: float) -> None:
        """Forget the runs of which nothing new was seen since `before`."""
        seen = await self._all()
        async with self._changing:
            for run in [run for run, last in seen.items() if last.at < before]:
                await self._keep.delete(self._space, run)
                server = seen.pop(run).server
                if server and self._last.get(server) == run:
                    del self._last[server]

    def _is_news(self, order: Order, server: ServerId | None) -> bool:
        assert self._seen is not None, "an order is checked after it was admitted"
        newest = self._seen.get(order.run)
        if newest and newest.epoch > order.epoch:
            raise Superseded(f"run {order.run} is in newer hands: epoch {newest.epoch}, not {order.epoch}")
        if newest is None or newest.epoch < order.epoch:
            return True
        last = self._last.get(server, order.run) if server else order.run
        if last != order.run:
            raise Superseded(f"run {last} has ordered something of server {server} since run {order.run} did")
        return False

    def _note(self, seen: dict[RunId, Seen], run: RunId, value: Seen) -> None:
        seen[run] = value
        self._number = max(self._number, value.number)
        if value.server:
            self._last[value.server] = run

    async def _all(self) -> dict[RunId, Seen]:
        if self._seen is None:
            kept = await self._keep.scan(self._space)
            if self._seen is None:  # nobody was faster while we read
                found = {RunId(run): _decode(value) for run, value in kept.items()}
                self._seen = {}  # once all of it could be read: half a fence would admit what is old
                for run, value in sorted(found.items(), key=lambda one: one[1].number):
                    self._note(self._seen, run, value)
        return self._seen
