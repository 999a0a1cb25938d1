"""Hints that name other servers hold for creates and moves, by the current hosts of the others."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tests.booting import boot_server
from whimbrel.domain.ids import ServerId
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.moves import requests
from whimbrel.moves.needs.hints import hinted_hosts
from whimbrel.ports.cloud import Rules
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import delete
from whimbrel.sim.cloud.cloud import LARGE, World

RULES = Rules(
    cpu_allocation_ratio=1.0,
    scheduler=SchedulerRules(enabled_filters=("ComputeFilter", "SameHostFilter", "DifferentHostFilter")),
)


async def made(world: World, hints: Mapping[str, Any], host: str | None = None) -> Server:
    new = replace(world.new_server("one"), spec=RequestSpec(hints=dict(hints)))
    engine = world.engine("e")
    return await boot_server(world, engine, new, host)


async def moved(world: World, server: Server) -> Server:
    engine = world.engine("e")
    await requests.resize(world.cloud, engine, world.requester(), server, LARGE)
    await world.settle(engine)
    return await lookup.find(world.cloud, server.id)


async def _beside_and_apart() -> None:
    world = await World.build(rules=RULES)
    first = await made(world, {}, "h2")
    beside = await made(world, {"same_host": first.id})
    assert beside.host == "h2"
    apart = await made(world, {"different_host": [first.id, beside.id]})
    assert apart.host in ("h1", "h3")
    third = await made(world, {"different_host": [first.id, apart.id]})
    assert {first.host, apart.host, third.host} == {"h1", "h2", "h3"}
    await world.close()


async def _moves_too() -> None:
    world = await World.build(rules=RULES)
    first = await made(world, {}, "h2")
    apart = await made(world, {"different_host": first.id}, "h1")
    assert (await moved(world, apart)).host == "h3"
    lonely = await made(world, {"same_host": ServerId("of nobody")})
    assert lonely.vm_state == "error"
    assert lonely.fault
    assert "3: none of the servers is there with which it is to be" in str(lonely.fault)
    await world.close()


async def _deleted() -> None:
    world = await World.build(rules=RULES)
    first, engine = await made(world, {}, "h2"), world.engine("e")
    hints = {"same_host": [first.id, "nobody"], "different_host": first.id}
    assert await hinted_hosts(hints, world.cloud) == {first.id: "h2"}
    await delete.accept(world.cloud, engine, world.requester(), first)
    await world.settle(engine)
    assert await hinted_hosts(hints, world.cloud) == {}
    await world.close()


async def test_servers_are_made_beside_others_and_apart() -> None:
    await _beside_and_apart()


async def test_a_move_keeps_them_apart_and_nobody_is_beside_who_is_not_there() -> None:
    await _moves_too()


async def test_who_is_deleted_is_nowhere() -> None:
    await _deleted()
