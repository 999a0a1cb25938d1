"""An agent that delays orders between the two checks of the fence, so that newer orders overtake them.

The real agent carries out orders in the order of arrival, so the second check hardly ever refuses one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from whimbrel.agent.agent import HostAgent
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.hypervisor import Hypervisor
from whimbrel.ports.services.images import Images
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.fault_state import FaultState


class HoldingAgent(HostAgent):
    def __init__(
        self, host: HostName, hypervisor: Hypervisor, images: Images, world: World, fault_state: FaultState
    ) -> None:
        super().__init__(host, hypervisor, world.remains.store, images, world.cloud.clock)
        self._fault_state = fault_state

    def _lock(self, key: GuestKey) -> AbstractAsyncContextManager[Any]:
        return _after(self._fault_state.held_up.pop(self.host, 0.0), super()._lock(key))


@asynccontextmanager
async def _after(wait_s: float, lock: AbstractAsyncContextManager[Any]) -> AsyncIterator[None]:
    if wait_s:
        await asyncio.sleep(wait_s)
    async with lock:
        yield
