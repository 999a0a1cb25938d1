"""The live transfers that were ended on one host: an order to start one that comes late must not start it again.

The fence lets an order with the epoch and progress of the newest one pass, because orders are repeated. For a transfer
that was ended under the same epoch and progress this is not enough: its guest would leave after it was seen here.
"""

import msgspec

from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import HostName, RunId
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.key_value_store import KeyValueStore


class _Ended(msgspec.Struct, frozen=True):
    epoch: int
    progress: int
    at: float  # seconds since 1970


_decode = msgspec.json.Decoder(_Ended).decode
_encode = msgspec.json.Encoder().encode


class EndedTransfers:
    def __init__(self, host: HostName, store: KeyValueStore, clock: Clock) -> None:
        self._space = f"ended_transfers/{host}"
        self._store = store
        self._clock = clock

    async def note(self, order: Order) -> None:
        """Refuse from now on to start transfers by this order and earlier ones of its run. Durable."""
        await self._store.put(self._space, order.run, _encode(_Ended(order.epoch, order.progress, self._clock.now())))

    async def check(self, order: Order) -> None:
        """Raises: Refused: a transfer of this order was ended."""
        kept = await self._store.get(self._space, order.run)
        if kept is None:
            return
        ended = _decode(kept)
        if (order.epoch, order.progress) <= (ended.epoch, ended.progress):
            raise Refused("the live transfer was ended")

    async def prune(self, before: float) -> None:
        """Forget transfers that ended before this time."""
        for run, kept in (await self._store.scan(self._space)).items():
            if _decode(kept).at < before:
                await self._store.delete(self._space, RunId(run))
