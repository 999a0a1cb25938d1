"""The simulated loop: time jumps, one seed gives one order, frozen processes hold still and dead ones do nothing."""

import asyncio

import pytest

from whimbrel.sim.world.loop import Process, Stuck, at_once, new_loop


def order_of(seed: int) -> list[int]:
    """Start ten tasks at once; return the order in which they come to run."""
    seen: list[int] = []

    async def come(number: int) -> None:
        seen.append(number)

    async def all_of_them() -> None:
        await asyncio.gather(*(come(number) for number in range(10)))

    new_loop(seed).run_until_complete(all_of_them())
    return seen


def test_time_jumps() -> None:
    loop = new_loop(0)
    loop.run_until_complete(asyncio.sleep(1_000_000))
    assert loop.time() == 1_000_000


def test_a_seed_orders_what_is_ready() -> None:
    assert order_of(1) == order_of(1)
    assert sorted(order_of(1)) == list(range(10))
    assert len({tuple(order_of(seed)) for seed in range(5)}) > 1


def test_what_never_happens_is_said() -> None:
    loop = new_loop(0)
    with pytest.raises(Stuck):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_timeouts_and_locks() -> None:
    async def wait() -> float:
        lock, loop = asyncio.Lock(), asyncio.get_running_loop()
        async with lock:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await lock.acquire()
        return loop.time()

    assert new_loop(0).run_until_complete(wait()) == 5


class Ticker:
    """Counts seconds in a process of its own, and notes if it is ended in an orderly way."""

    def __init__(self) -> None:
        self.process = Process("ticker")
        self.ticks = 0
        self.cleaned_up = False

    async def tick(self) -> None:
        try:
            while True:
                await asyncio.sleep(1)
                self.ticks += 1
        finally:
            self.cleaned_up = True


def test_a_frozen_process_holds_still() -> None:
    loop, ticker = new_loop(0), Ticker()
    loop.spawn(ticker.process, ticker.tick())
    loop.run_until_complete(asyncio.sleep(3.5))
    ticker.process.is_frozen = True
    loop.run_until_complete(asyncio.sleep(10))
    assert ticker.ticks == 3
    loop.thaw(ticker.process)
    loop.run_until_complete(asyncio.sleep(0.5))
    assert ticker.ticks == 4
    loop.close()


def test_a_dead_process_does_not_even_clean_up() -> None:
    loop, ticker = new_loop(0), Ticker()
    loop.spawn(ticker.process, ticker.tick())
    loop.run_until_complete(asyncio.sleep(3.5))
    ticker.process.is_dead = True
    loop.run_until_complete(asyncio.sleep(10))
    assert ticker.ticks == 3
    assert not ticker.cleaned_up
    loop.close()


def test_what_a_task_starts_is_of_its_process() -> None:
    loop, process, seen = new_loop(0), Process("parent"), list[str]()

    async def child() -> None:
        await asyncio.sleep(1)
        seen.append("child")

    async def parent() -> None:
        asyncio.get_running_loop().create_task(child())

    loop.spawn(process, parent())
    loop.run_until_complete(asyncio.sleep(0.5))
    process.is_dead = True
    loop.run_until_complete(asyncio.sleep(5))
    assert not seen
    loop.close()


def test_at_once_takes_no_time() -> None:
    async def two() -> int:
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
        return 2

    async def inside() -> tuple[int, float]:
        await asyncio.sleep(1)
        return at_once(two()), asyncio.get_running_loop().time()

    assert new_loop(0).run_until_complete(inside()) == (2, 1.0)
    with pytest.raises(AssertionError, match="waited"):
        at_once(asyncio.sleep(1))


def test_there_is_no_world_outside() -> None:
    async def ask_for_a_thread() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(NotImplementedError):
        new_loop(0).run_until_complete(ask_for_a_thread())
