"""Wake-ups reach the other processes that listen, and none is needed."""

import asyncio

from tests.nats_servers import CloudBus
from whimbrel.adapters.bus.nats_wake_ups import NatsWakeUps
from whimbrel.ports.wake_ups import NoWakeUps, WakeUps


async def test_all_listeners_of_other_processes_are_woken(bus: CloudBus) -> None:
    async with bus.control() as first, bus.control() as second, bus.control() as third:
        several = [NatsWakeUps(each) for each in (first, second, third)]
        rung: asyncio.Queue[int] = asyncio.Queue()
        for number, wake_ups in enumerate(several):
            for _ in range(2):
                wake_ups.listen("fleet", lambda number=number: rung.put_nowait(number))
        for each in (first, second, third):
            await each.connected()
        assert all(each.is_connected for each in several)
        several[0].wake("fleet")
        assert sorted([await rung.get() for _ in range(4)]) == [1, 1, 2, 2]
        several[1].wake("placement")
        several[1].wake("fleet")
        assert sorted([await rung.get() for _ in range(4)]) == [0, 0, 2, 2]
        assert rung.empty()


async def test_a_due_run_wakes_one_conductor(bus: CloudBus) -> None:
    async with bus.control() as first, bus.control() as second, bus.control() as api:
        rung: asyncio.Queue[str] = asyncio.Queue()
        for each in (first, second):
            wake_ups = NatsWakeUps(each)
            wake_ups.listen("conductors", lambda: rung.put_nowait("conductor"))
            wake_ups.listen("fleet", lambda: rung.put_nowait("fleet"))
        for each in (first, second, api):
            await each.connected()
        NatsWakeUps(api).wake("conductors")
        NatsWakeUps(api).wake("fleet")  # arrives after it
        assert sorted([await rung.get() for _ in range(3)]) == ["conductor", "fleet", "fleet"]


async def test_without_a_bus_nothing_happens_and_nothing_fails(bus: CloudBus) -> None:
    bus.servers[0].kill()
    async with bus.control() as lost:
        for wake_ups in (NoWakeUps(), NatsWakeUps(lost)):
            check: WakeUps = wake_ups
            check.listen("fleet", lambda: None)
            check.wake("fleet")
            assert not check.is_connected
