"""Hosts that vanish: evacuated without being asked if a rule says so, and never when too many of a zone are gone."""

from collections.abc import Mapping, Sequence

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.booting import boot_server
from whimbrel.adapters.sql.tables.cell import hosts
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, HostName, ProviderId, ServerId
from whimbrel.ports.cloud import Rules
from whimbrel.reconcilers.dead_hosts import evacuate_dead_hosts, guarded_zones
from whimbrel.servers import lookup
from whimbrel.servers.host_evacuation import in_order
from whimbrel.sim.cloud.cloud import CELL, SMALL, World

NOW = 10_000.0
RULES = Rules(cpu_allocation_ratio=4.0, evacuate_dead_hosts=True, evacuations_at_once=2, accept_forced_down=True)


def host(name: str, *, seen_at: float, forced_down: bool = False) -> Host:
    return Host(
        name=HostName(name), cell=CellName("c1"), id=ProviderId(name), service_id=name, driver="simulated",
        vcpus=1, memory_mib=1, disk_gib=1, seen_at=seen_at, forced_down=forced_down,
    )  # fmt: skip


UP, LOST = NOW - 5.0, NOW - 500.0


@pytest.mark.parametrize(
    ("seen", "guarded"),
    [
        ((UP, UP, UP), False),
        ((LOST, UP, UP), False),
        ((LOST, LOST, UP), True),
        ((LOST, UP), True),
        ((LOST,), True),
        ((LOST, LOST, UP, UP, UP, UP), False),
        ((LOST, LOST, LOST, UP, UP, UP), True),
    ],
)
def test_a_zone_that_lost_more_than_a_share_of_its_hosts_is_guarded(seen: Sequence[float], guarded: bool) -> None:
    known = [host(f"h{number}", seen_at=at) for number, at in enumerate(seen)]
    assert guarded_zones(known, {}, "nova", NOW, 0.34) == (frozenset({"nova"}) if guarded else frozenset())


def test_each_zone_counts_by_itself() -> None:
    known = [host("a", seen_at=LOST), host("b", seen_at=LOST), host("c", seen_at=UP), host("d", seen_at=UP)]
    zones: Mapping[HostName, str] = {one.name: "south" if one.name in "ab" else "north" for one in known}
    assert guarded_zones(known, zones, "nova", NOW, 0.34) == {"south"}


def test_a_host_that_is_forced_down_and_answers_was_not_lost() -> None:
    known = [host("a", seen_at=UP, forced_down=True), host("b", seen_at=UP, forced_down=True), host("c", seen_at=UP)]
    assert guarded_zones(known, {}, "nova", NOW, 0.34) == frozenset()


async def vanish(world: World, *names: str) -> None:
    """Make hosts lose their power; nobody says so, their heartbeats are just old."""
    for name in names:
        await world.lose_host(HostName(name))
        async with world.remains.databases[f"cell_{CELL}"].write() as tx:
            await tx.run(sa.update(hosts).where(hosts.c.name == name).values(seen_at=1.0))


async def inhabited(rules: Rules) -> tuple[World, list[ServerId]]:
    world = await World.build(rules=rules, fenced=True)
    engine, servers = world.engine("setup"), []
    for number in range(3):
        server = world.new_server(f"s{number}")
        await boot_server(world, engine, server, "h1")
        servers.append(server.id)
    return world, servers


async def homes(world: World, servers: Sequence[ServerId]) -> list[str | None]:
    return [(await lookup.find(world.cloud, one)).host for one in servers]


async def test_a_dead_host_is_evacuated_two_servers_at_once() -> None:
    world, servers = await inhabited(RULES)
    engine = world.engine("e")
    await world.cloud.clock.sleep(1000.0)
    await vanish(world, "h1")
    assert await evacuate_dead_hosts(world.cloud, engine) == 2
    assert await evacuate_dead_hosts(world.cloud, engine) == 0
    await world.settle(engine)
    assert await evacuate_dead_hosts(world.cloud, engine) == 1
    await world.settle(engine)
    assert "h1" not in await homes(world, servers)
    await world.close()


async def test_no_more_begin_in_a_minute_than_may() -> None:
    world, servers = await inhabited(replace(RULES, evacuations_at_once=20, evacuations_per_minute=2))
    await world.cloud.clock.sleep(1000.0)
    await vanish(world, "h1")
    assert await evacuate_dead_hosts(world.cloud, world.engine("killed then")) == 2
    engine = world.engine("another process")
    await world.settle(engine)
    assert await evacuate_dead_hosts(world.cloud, engine) == 0
    await world.cloud.clock.sleep(60.0)
    assert await evacuate_dead_hosts(world.cloud, engine) == 1
    await world.settle(engine)
    assert "h1" not in await homes(world, servers)
    await world.close()


@pytest.mark.parametrize("rules", [replace(RULES, evacuate_dead_hosts=False), RULES], ids=["off", "too many gone"])
async def test_nothing_is_evacuated_by_itself(rules: Rules) -> None:
    world, servers = await inhabited(rules)
    await world.cloud.clock.sleep(1000.0)
    await vanish(world, *(("h1", "h2") if rules.evacuate_dead_hosts else ("h1",)))
    assert await evacuate_dead_hosts(world.cloud, world.engine("e")) == 0
    assert await homes(world, servers) == ["h1", "h1", "h1"]
    await world.close()


async def test_the_most_important_go_first() -> None:
    world = await World.build()
    vip = replace(SMALL, flavor_id="v", name="vip", extra_specs={"whimbrel:evacuation_priority": "9"})
    plain, old = world.new_server("plain"), replace(world.new_server("old"), created_at=-1.0)
    said, wrong = world.new_server("said"), world.new_server("wrong")
    said, wrong = (
        replace(said, metadata={"evacuation_priority": "100"}),
        replace(wrong, created_at=1e12, metadata={"evacuation_priority": "high"}),
    )
    of_flavor = replace(world.new_server("flavored"), flavor=vip)
    assert [one.name for one in in_order([wrong, plain, old, said, of_flavor])] == [
        *("flavored", "said", "old", "plain", "wrong"),
    ]
    await world.close()
