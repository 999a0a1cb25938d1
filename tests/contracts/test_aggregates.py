"""What every store of aggregates does: a host is in at most one zone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.global_.aggregates import SqlAggregates
from whimbrel.adapters.sql.global_.zones import SqlZones
from whimbrel.domain.errors import Conflict, NotFound, Refused
from whimbrel.domain.host import Aggregate, Zone
from whimbrel.domain.ids import HostName
from whimbrel.ports.stores.catalog import Zoning, zone_of

A, B = HostName("a"), HostName("b")


@pytest.fixture
async def aggregates(open_store: Opener) -> AsyncIterator[SqlAggregates]:
    async with open_store("global") as db:
        yield SqlAggregates(db)


def zone(name: str) -> dict[str, str]:
    return {"availability_zone": name}


async def test_gives_what_was_created(aggregates: SqlAggregates) -> None:
    east = await aggregates.create("racks-east", "uuid-1", zone("east"), 1.0)
    fast = await aggregates.create("fast", "uuid-2", {"ssd": "true"}, 2.0)
    assert east == Aggregate(id=east.id, uuid="uuid-1", name="racks-east", metadata=zone("east"), created_at=1.0)
    await aggregates.add_host(fast.id, B, 3.0)
    fast = await aggregates.add_host(fast.id, A, 4.0)
    assert (fast.hosts, fast.updated_at, fast.zone) == ([A, B], 4.0, None)
    assert await aggregates.all() == [east, fast]
    assert await aggregates.get(fast.id) == fast
    with pytest.raises(NotFound, match=r"Aggregate 99 could not be found\."):
        await aggregates.get(99)


async def test_gives_the_names_of_all_zones_with_the_aggregates(open_store: Opener) -> None:
    async with open_store("global") as db:
        aggregates, zones = SqlAggregates(db), SqlZones(db)
        east = await aggregates.create("racks-east", "uuid-1", zone("z1"), 1.0)
        await zones.ensure(Zone(id="z1", name="east"))
        await zones.ensure(Zone(id="z2", name="without hosts"))
        assert await aggregates.with_zone_names() == ([east], {"z1": "east", "z2": "without hosts"})


async def test_a_name_is_taken_once(aggregates: SqlAggregates) -> None:
    one = await aggregates.create("one", "uuid-1", {}, 1.0)
    two = await aggregates.create("two", "uuid-2", {}, 1.0)
    with pytest.raises(Conflict, match=r"Aggregate one already exists\."):
        await aggregates.create("one", "uuid-3", {}, 1.0)
    with pytest.raises(Conflict):
        await aggregates.rename(two.id, "one", 2.0, zone("east"))
    assert await aggregates.get(two.id) == two
    assert (await aggregates.rename(one.id, "one", 2.0)).name == "one"


async def test_metadata_is_merged_and_none_removes(aggregates: SqlAggregates) -> None:
    one = await aggregates.create("one", "uuid-1", {"ssd": "true", "gpu": "no"}, 1.0)
    changed = await aggregates.set_metadata(one.id, {"ssd": None, "rack": "7", "missing": None}, 2.0)
    assert changed.metadata == {"gpu": "no", "rack": "7"}
    changed = await aggregates.rename(one.id, "uno", 3.0, zone("east"))
    assert (changed.name, changed.zone, changed.updated_at) == ("uno", "east", 3.0)
    assert await aggregates.get(one.id) == changed


async def test_a_host_is_in_one_zone(aggregates: SqlAggregates) -> None:
    east = await aggregates.create("east", "uuid-1", zone("east"), 1.0)
    west = await aggregates.create("west", "uuid-2", zone("west"), 1.0)
    also_east = await aggregates.create("also east", "uuid-3", zone("east"), 1.0)
    fast = await aggregates.create("fast", "uuid-4", {}, 1.0)
    await aggregates.add_host(east.id, A, 2.0)
    await aggregates.add_host(also_east.id, A, 2.0)
    await aggregates.add_host(fast.id, A, 2.0)
    with pytest.raises(Conflict, match="already in availability"):
        await aggregates.add_host(west.id, A, 3.0)
    with pytest.raises(Refused):
        await aggregates.set_metadata(fast.id, zone("west"), 3.0)
    with pytest.raises(Conflict, match="already has host a"):
        await aggregates.add_host(fast.id, A, 3.0)
    everything = await aggregates.all()
    assert zone_of(A, everything) == "east"
    assert zone_of(B, everything) is None


async def test_a_host_is_in_one_zone_also_when_many_add_it_at_once(aggregates: SqlAggregates) -> None:
    zones = [await aggregates.create(f"z{n}", f"uuid-{n}", zone(f"z{n}"), 1.0) for n in range(6)]
    tries = [aggregates.add_host(aggregate.id, A, 2.0) for aggregate in zones]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(answer, Conflict) for answer in answers) == 5
    assert sum(A in aggregate.hosts for aggregate in await aggregates.all()) == 1


async def test_only_an_empty_one_is_deleted(aggregates: SqlAggregates) -> None:
    one = await aggregates.create("one", "uuid-1", {}, 1.0)
    await aggregates.add_host(one.id, A, 2.0)
    with pytest.raises(Refused, match="not empty"):
        await aggregates.delete(one.id)
    assert (await aggregates.remove_host(one.id, A, 3.0)).hosts == []
    with pytest.raises(NotFound, match="has no host a"):
        await aggregates.remove_host(one.id, A, 3.0)
    await aggregates.delete(one.id)
    with pytest.raises(NotFound):
        await aggregates.delete(one.id)


# What placement was told before


async def refuse(change: Awaitable[object]) -> None:
    with pytest.raises(Conflict, match="changed by another request"):
        await change


async def test_a_change_of_zones_is_made_as_placement_was_notified(open_store: Opener) -> None:
    async with open_store("global") as db:
        aggregates = SqlAggregates(db)
        await SqlZones(db).ensure(Zone(id="west", name="west"))
        east = await aggregates.create("east", "uuid-1", zone("east"), 1.0)
        plain = await aggregates.create("plain", "uuid-2", {}, 1.0)
        await refuse(aggregates.add_host(east.id, A, 2.0, told()))
        await refuse(aggregates.add_host(east.id, A, 2.0, told(a="west")))
        await refuse(aggregates.add_host(plain.id, A, 2.0, told(a="east")))
        assert [each.hosts for each in await aggregates.all()] == [[], []]
        await aggregates.add_host(plain.id, A, 2.0, told())
        await aggregates.add_host(plain.id, B, 2.0, told())
        await refuse(aggregates.set_metadata(plain.id, zone("west"), 3.0, told(a="west")))
        await refuse(aggregates.rename(plain.id, "far", 3.0, zone("west"), told(a="west", b="east")))
        await aggregates.set_metadata(plain.id, zone("west"), 3.0, told(a="west", b="west"))
        await aggregates.rename(plain.id, "far", 3.0, {"ssd": "true"}, told())
        with pytest.raises(Conflict, match="deleted by another request"):
            await aggregates.set_metadata(plain.id, zone("gone"), 3.0, told(a="gone", b="gone"))
        await refuse(aggregates.remove_host(plain.id, A, 4.0, told()))
        assert (await aggregates.remove_host(plain.id, A, 4.0, told(a=""))).hosts == [B]


async def test_a_change_that_was_begun_before_zones_were_put_right_is_refused(aggregates: SqlAggregates) -> None:
    east = await aggregates.create("east", "uuid-1", zone("east"), 1.0)
    assert await aggregates.zone_mends() == 0
    await aggregates.repair_zones()
    await refuse(aggregates.add_host(east.id, A, 2.0, told(a="east")))
    await aggregates.repair_zones()
    assert await aggregates.zone_mends() == 2
    await aggregates.add_host(east.id, A, 2.0, told(2, a="east"))


def told(mends: int = 0, **zones: str) -> Zoning:
    return Zoning(zones={HostName(host): zone for host, zone in zones.items()}, repairs=mends)
