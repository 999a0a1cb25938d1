"""The fence of one host: the newest epoch seen of each run.

Law: an order older than the newest seen is refused, also after a restart; a newer one is durable before it is obeyed.
"""

import asyncio

import msgspec

from whimbrel.domain.errors import Superseded
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import HostName, RunId
from whimbrel.ports.clock import Clock
from whimbrel.ports.keep import Keep


class Seen(msgspec.Struct, frozen=True):
    epoch: int
    at: float  # seconds since 1970


_decode = msgspec.json.Decoder(Seen).decode
_encode = msgspec.json.Encoder().encode


class Fence:
    def __init__(self, host: HostName, keep: Keep, clock: Clock) -> None:
        self._space = f"fence/{host}"
        self._keep = keep
        self._clock = clock
        self._seen: dict[RunId, Seen] | None = None
        self._changing = asyncio.Lock()  # so that of two rising epochs the higher one is written last

    async def admit(self, order: Order) -> None:
        """Let an order in and remember its epoch; equal epochs cost no write. Raises: Superseded."""
        seen = await self._all()
        if not self._is_news(order):
            return
        async with self._changing:
            if self._is_news(order):  # nobody was faster while we waited
                value = Seen(order.epoch, self._clock.now())
                await self._keep.put(self._space, order.run, _encode(value))
                seen[order.run] = value

    def check(self, order: Order) -> None:
        """Look again at an order that was let in a while ago. Raises: Superseded."""
        self._is_news(order)

    async def prune(self, before: float) -> None:
        """Forget the runs of which nothing new was seen since `before`."""
        seen = await self._all()
        async with self._changing:
            for run in [run for run, last in seen.items() if last.at < before]:
                await self._keep.delete(self._space, run)
                del seen[run]

    def _is_news(self, order: Order) -> bool:
        assert self._seen is not None, "an order is checked after it was admitted"
        newest = self._seen.get(order.run)
        if newest and newest.epoch > order.epoch:
            raise Superseded(f"run {order.run} is in newer hands: epoch {newest.epoch}, not {order.epoch}")
        return newest is None or newest.epoch < order.epoch

    async def _all(self) -> dict[RunId, Seen]:
        if self._seen is None:
            kept = await self._keep.scan(self._space)
            if self._seen is None:  # nobody was faster while we read
                self._seen = {RunId(run): _decode(value) for run, value in kept.items()}
        return self._seen
