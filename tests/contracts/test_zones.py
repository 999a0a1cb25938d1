"""What every store of zones does: an id stays, a name may change, and is one zone's."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.global_.aggregates import SqlAggregates
from whimbrel.adapters.sql.global_.zones import SqlZones
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.host import Zone
from whimbrel.ports.stores.zones import name_of

EAST, WEST = Zone(id="1", name="east", created_at=1.0), Zone(id="2", name="West", created_at=2.0)


@pytest.fixture
async def zones(open_store: Opener) -> AsyncIterator[SqlZones]:
    async with open_store("global") as db:
        yield SqlZones(db)


async def test_gives_what_is_there_in_the_order_of_names(zones: SqlZones) -> None:
    for zone in (EAST, WEST):
        assert await zones.ensure(zone) == zone
    assert await zones.all() == [WEST, EAST]  # capital letters come first, on every database
    assert await zones.get("1") == EAST
    assert await zones.by_name("West") == WEST
    assert await zones.by_name("west") is None
    with pytest.raises(NotFound, match="Availability zone 3"):
        await zones.get("3")


async def test_a_name_is_one_zones(zones: SqlZones) -> None:
    await zones.ensure(EAST)
    assert await zones.ensure(Zone(id="9", name="east", created_at=9.0)) == EAST
    with pytest.raises(Conflict):
        await zones.ensure(Zone(id="1", name="north"))
    await zones.ensure(WEST)
    with pytest.raises(Conflict, match="West"):
        await zones.rename("1", "West")
    assert await zones.all() == [WEST, EAST]


async def test_many_who_name_a_new_zone_at_once_have_the_same(zones: SqlZones) -> None:
    made = await asyncio.gather(*(zones.ensure(Zone(id=str(n), name="new")) for n in range(6)))
    assert [zone.id for zone in await zones.all()] == [made[0].id]
    assert {zone.id for zone in made} == {made[0].id}


async def test_a_zone_is_given_another_name(zones: SqlZones) -> None:
    await zones.ensure(EAST)
    renamed = Zone(id="1", name="sunrise", created_at=1.0)
    assert await zones.rename("1", "sunrise") == renamed
    assert await zones.rename("1", "sunrise") == renamed
    assert await zones.all() == [renamed]
    assert (await name_of(zones, "1"), await name_of(zones, "older")) == ("sunrise", "older")
    assert (await zones.ensure(Zone(id="3", name="east"))).id == "3"  # its old name is free again
    with pytest.raises(NotFound):
        await zones.rename("2", "west")


async def test_a_zone_that_no_aggregate_carries_is_deleted(open_store: Opener) -> None:
    async with open_store("global") as db:
        zones, aggregates = SqlZones(db), SqlAggregates(db)
        await zones.ensure(EAST)
        for name in ("racks", "desks"):
            await aggregates.create(name, f"uuid-{name}", {"availability_zone": EAST.id}, 1.0)
        with pytest.raises(Conflict, match=r"Aggregates carry availability zone 1: desks, racks\."):
            await zones.delete(EAST.id)
        assert await zones.all() == [EAST]
        for aggregate in await aggregates.all():
            await aggregates.delete(aggregate.id)
        await zones.delete(EAST.id)
        assert await zones.all() == []
        with pytest.raises(NotFound):
            await zones.delete(EAST.id)
