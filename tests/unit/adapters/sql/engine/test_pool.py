"""Who gets a connection, who waits, and what becomes of those that wait when connections or the database go away."""

import asyncio
from typing import cast

import pytest

from tests.simulated_time import anyio_backend
from whimbrel.adapters.sql.engine.pool import TIMEOUT_S, UNUSED_S, Pool
from whimbrel.adapters.sql.engine.wire import Wire
from whimbrel.domain.errors import Unavailable

__all__ = ["anyio_backend"]


class Connection:
    """What the pool uses of a connection."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.schema: str | None = None
        self.used_at = 0.0
        self.is_broken = self.is_lost = self.is_closed = False

    def enter(self, schema: str) -> None:
        self.schema = schema

    def has_ended(self) -> bool:
        return self.is_closed

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.is_closed = True


class Server:
    """Takes a number of connections, and refuses more."""

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.made: list[Connection] = []

    @property
    def open(self) -> int:
        return sum(not each.is_closed for each in self.made)

    async def connect(self) -> Wire:
        await asyncio.sleep(0.1)
        if self.open >= self.limit:
            raise ConnectionError("too many clients")
        self.made.append(Connection(len(self.made)))
        return cast(Wire, self.made[-1])


async def use(pool: Pool, schema: str = "a", seconds: float = 1.0, *, loses: bool = False) -> int:
    """Use a connection for a while; return its number."""
    wire = await pool.take(schema)
    try:
        await asyncio.sleep(seconds)
        connection = cast(Connection, wire)
        assert connection.schema == schema
        connection.is_broken = connection.is_lost = loses
        return connection.number
    finally:
        await pool.take_back(wire)


async def test_there_are_never_more_than_the_limit_and_all_get_their_turn() -> None:
    server = Server()
    pool = Pool(server.connect, 4)
    used = await asyncio.gather(*(use(pool) for _ in range(40)))
    assert set(used) == {0, 1, 2, 3}
    assert server.open == 4


async def test_a_connection_that_is_in_the_schema_already_is_preferred() -> None:
    pool = Pool(Server().connect, 4)
    [a, b] = await asyncio.gather(use(pool, "a"), use(pool, "b"))
    assert [await use(pool, each) for each in "abba"] == [a, b, b, a]


async def test_where_the_server_takes_no_more_the_rest_waits_for_those_that_there_are() -> None:
    server = Server(limit=2)
    await use(Pool(server.connect, 1))  # of another process
    pool = Pool(server.connect, 10)
    assert len(set(await asyncio.gather(*(use(pool) for _ in range(20))))) == 1


async def test_without_any_connection_all_get_an_error_at_once() -> None:
    pool = Pool(Server(limit=0).connect, 2)
    ended = await asyncio.gather(*(use(pool) for _ in range(10)), return_exceptions=True)
    assert all(isinstance(each, Unavailable | ConnectionError) for each in ended)
    assert asyncio.get_running_loop().time() < TIMEOUT_S


async def test_who_waits_opens_one_instead_of_one_that_is_lost() -> None:
    server = Server()
    pool = Pool(server.connect, 1)
    first = asyncio.create_task(use(pool, loses=True))
    await asyncio.sleep(0.05)
    others = await asyncio.gather(*(use(pool) for _ in range(5)))
    assert (await first, set(others), server.open) == (0, {1}, 1)


async def test_nobody_waits_for_ever() -> None:
    pool = Pool(Server().connect, 1)
    long = asyncio.create_task(use(pool, seconds=TIMEOUT_S * 2))
    await asyncio.sleep(1.0)
    with pytest.raises(Unavailable, match="in use"):
        await use(pool)
    await long
    await use(pool)


@pytest.mark.parametrize("after_s", [0.05, 0.5, 1.1, 1.15])
async def test_one_that_is_cancelled_leaves_its_turn_to_the_next(after_s: float) -> None:
    """While it opens a connection, while it waits, and at the moment at which it gets one."""
    server = Server()
    pool = Pool(server.connect, 1)
    tasks = [asyncio.create_task(use(pool)) for _ in range(5)]
    await asyncio.sleep(after_s)
    for each in tasks[:3]:
        each.cancel()
    assert len({await each for each in tasks[3:]}) == 1
    assert server.open == 1
    await use(pool)


async def test_one_that_is_cancelled_while_it_has_one_gives_it_back() -> None:
    pool = Pool(Server().connect, 1)
    task = asyncio.create_task(use(pool))
    await asyncio.sleep(0.5)
    task.cancel()
    assert await use(pool) == 0


async def test_connections_that_are_not_needed_are_closed() -> None:
    server = Server()
    pool = Pool(server.connect, 4)
    await asyncio.gather(*(use(pool) for _ in range(4)))
    assert server.open == 4
    for _ in range(4):
        await use(pool, seconds=UNUSED_S)
    assert server.open == 1
    await pool.close()
    assert server.open == 0
