"""A wake-up reaches one conductor of another process, and none is needed."""

import asyncio

from tests.nats_servers import CloudBus
from whimbrel.adapters.bus.nats_wake_ups import NatsWakeUps
from whimbrel.ports.wake_ups import NoWakeUps, WakeUps


async def test_a_due_run_wakes_one_conductor_of_another_process(bus: CloudBus) -> None:
    async with bus.control() as first, bus.control() as second:
        several = [NatsWakeUps(each) for each in (first, second)]
        rung: asyncio.Queue[int] = asyncio.Queue()
        for number, wake_ups in enumerate(several):
            wake_ups.listen(lambda number=number: rung.put_nowait(number))
        for each in (first, second):
            await each.connected()
        assert all(each.is_connected for each in several)
        several[0].wake()
        several[1].wake()
        assert sorted([await rung.get() for _ in range(2)]) == [0, 1]
        async with bus.control() as api:
            await api.connected()
            NatsWakeUps(api).wake()
            await rung.get()
            several[0].wake()  # arrives after it
            assert await rung.get() == 1
        assert rung.empty()


async def test_without_a_bus_nothing_happens_and_nothing_fails(bus: CloudBus) -> None:
    bus.servers[0].kill()
    async with bus.control() as lost:
        for wake_ups in (NoWakeUps(), NatsWakeUps(lost)):
            check: WakeUps = wake_ups
            check.listen(lambda: None)
            check.wake()
            assert not check.is_connected
