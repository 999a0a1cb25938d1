"""Servers of one host that wait for each other: what is read for each does not grow with their number."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from whimbrel.adapters.sql.cell import servers as server_store
from whimbrel.adapters.sql.global_ import journal as run_store
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.domain.live_policy import LiveRules
from whimbrel.domain.server import Server
from whimbrel.moves import live_requests
from whimbrel.moves.facts import moves_of
from whimbrel.moves.steps.live_queue import draw_ticket
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.saga.engine import Engine
from whimbrel.servers.host_evacuation import Pace, evacuate_host
from whimbrel.servers.lifecycle import create
from whimbrel.sim.cloud.cloud import CELL, World
from whimbrel.sim.faults.chaos import Chaos
from whimbrel.sim.world.phases import Times

FEW, MANY = 3, 9
SOURCE = HostName("h1")
RULES = Rules(cpu_allocation_ratio=1.0, live=LiveRules(at_once_per_host=1))


async def inhabited(count: int, rules: Rules = RULES, **plan: Any) -> World:
    """Return a world with so many servers on one of its two hosts."""
    room: dict[str, Any] = {"vcpus": 64, "memory_mib": 65536, "disk_gib": 400}
    world = await World.build(hosts=("h1", "h2"), rules=rules, **room, **plan)
    engine = world.engine("setup")
    for number in range(count):
        server = world.new_server(f"s{number}")
        await create.accept(world.cloud, engine, world.requester(), [server], SOURCE)
    await world.settle(engine)
    return world


async def servers_on(world: World, host: HostName) -> list[Server]:
    return await world.cloud.cell(CELL).servers.find(ServerQuery(host=host))


async def drive_due(world: World, engine: Engine) -> None:
    """Drive at once what is due, as a conductor does."""
    await world.cloud.clock.sleep(engine.lease_s + 1)
    runs = await world.cloud.journal.take(engine.name, world.cloud.clock.now(), 1e6, 1000)
    await asyncio.gather(*(engine.drive(run) for run in runs))


@contextmanager
def counted_rows(patch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count the rows that are decoded meanwhile."""
    counts: Counter[str] = Counter()

    def counting(kind: str, read: Any) -> Any:
        def count(*row: Any, **more: Any) -> Any:
            counts[kind] += 1
            return read(*row, **more)

        return count

    with patch.context() as patched:
        patched.setattr(run_store, "read_run", counting("runs", run_store.read_run))
        patched.setattr(server_store, "read_record", counting("servers", server_store.read_record))
        yield counts


# Live migrations


async def readings_for(
    count: int, at_once: int = 1, readings: Collection[str] = ("journal.find", "journal.get")
) -> int:
    """Migrate so many servers live, so many at once; return how often their conductor read runs."""
    rules = Rules(cpu_allocation_ratio=1.0, live=LiveRules(at_once_per_host=at_once))
    world = await inhabited(count, rules, times=Times(live_mib_s=300.0))
    api, chaos = world.engine("api"), Chaos({})
    for server in await servers_on(world, SOURCE):
        await live_requests.migrate_live(world.cloud, api, world.requester(), server, None)
    await drive_due(world, world.engine("conductor", chaos.wrap(world.cloud)))
    assert not await servers_on(world, SOURCE)
    await world.close()
    return sum(touch in readings for touch in chaos.touches)


async def test_live_migrations_that_wait_read_together() -> None:
    assert await readings_for(MANY) <= MANY / FEW * 1.5 * await readings_for(FEW)


async def test_live_migrations_without_a_limit_read_of_no_others() -> None:
    of_others = ("journal.find",)
    assert await readings_for(FEW, readings=of_others) > 0
    assert await readings_for(FEW, at_once=0, readings=of_others) == 0


async def test_a_ticket_is_drawn_without_reading_all_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await inhabited(FEW)
    api = world.engine("api")
    for server in await servers_on(world, SOURCE):
        await live_requests.migrate_live(world.cloud, api, world.requester(), server, None)
    waiting = moves_of(await world.cloud.journal.find(RunFilter(sagas=("live_migrate",))))
    tickets = []
    for run in waiting:
        with counted_rows(monkeypatch) as counts:
            facts = await draw_ticket(run, world.cloud)
        assert counts["runs"] == 0
        await world.cloud.journal.save(replace(run, facts=facts))
        tickets.append(facts.live and facts.live.ticket)
    assert tickets == [1, 2, 3]
    await world.close()


# Evacuations


async def rows_for(count: int, patch: pytest.MonkeyPatch) -> int:
    """Evacuate a host with so many servers, two at once; return how many rows its requests read."""
    world = await inhabited(count, fenced=True)
    engine = world.engine("one")
    host = await dead(world)
    rows, since = 0, world.cloud.clock.now()
    while True:
        with counted_rows(patch) as counts:
            state = await evacuate_host(
                world.cloud, engine, world.requester(), host, Pace(at_once=2, per_minute=0), since, leaves_cell=False
            )
        rows += counts.total()
        assert state.arrived + state.under_way + state.to_go == count, state
        if state.is_over:
            break
        await drive_due(world, engine)
    assert not state.left
    assert not await servers_on(world, SOURCE)
    await world.close()
    return rows


async def dead(world: World) -> Host:
    hosts = world.cloud.cell(CELL).hosts
    await hosts.set_service(SOURCE, enabled=True, disabled_reason=None, forced_down=True)
    await world.lose_host(SOURCE)
    return await hosts.get(SOURCE)


async def test_an_evacuation_of_a_host_reads_its_servers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await rows_for(MANY, monkeypatch) <= MANY / FEW * 1.5 * await rows_for(FEW, monkeypatch)


async def test_servers_that_cannot_be_evacuated_do_not_stop_the_others() -> None:
    """All but one are refused, and each request may begin one only: that one is evacuated all the same."""
    world = await inhabited(FEW, fenced=True)
    engine, store = world.engine("one"), world.cloud.cell(CELL).servers
    last, *others = await servers_on(world, SOURCE)
    for server in others:
        await store.change(server, {"vm_state": "rescued"})
    host, since = await dead(world), world.cloud.clock.now()
    for _ in range(3):
        state = await evacuate_host(
            world.cloud, engine, world.requester(), host, Pace(at_once=1, per_minute=0), since, leaves_cell=False
        )
        await drive_due(world, engine)
    assert (state.is_over, state.arrived) == (True, 1)
    assert {one.server for one in state.left} == {server.id for server in others}
    assert [server.id for server in await servers_on(world, HostName("h2"))] == [last.id]
    await world.close()
