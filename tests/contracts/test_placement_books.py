"""Placement's own books: whose consumers are, and whether what is said to be used is what is held."""

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.contracts.databases import Opener
from tests.contracts.test_placement import HOST, OTHER, OWNER, SECOND, SERVER, SMALL, inventory, order
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.adapters.sql.tables.placement import allocations, inventories
from whimbrel.domain.errors import Superseded
from whimbrel.domain.ids import ProjectId
from whimbrel.ports.placement.placement import Miscount


async def test_a_count_that_is_not_the_sum_of_what_is_held_is_found(open_store: Opener) -> None:
    async with open_store("placement") as database:
        store = SqlPlacement(database)
        for host, name in ((HOST, "host"), (OTHER, "other")):
            await store.register_host(host, name, inventory())
        for number, consumer in enumerate((SERVER, SECOND)):
            await store.claim(order(number), consumer, OWNER, {HOST: SMALL})
        assert await store.miscounts() == []
        wrong = sa.update(inventories).where(inventories.c.resource_class == "VCPU")
        async with database.write() as tx:
            await tx.run(wrong.values(used=7))
        assert await store.miscounts() == [
            Miscount(provider=HOST, name="host", resource_class="VCPU", used=7, held=2),
            Miscount(provider=OTHER, name="other", resource_class="VCPU", used=7, held=0),
        ]
        await store.recount(order(3), HOST)
        assert [one.provider for one in await store.miscounts()] == [OTHER]
        await store.recount(order(3), OTHER)
        assert await store.miscounts() == []
        free = {state.id: state.free["VCPU"] for state in await store.providers()}
        assert free == {HOST: 8 - 2 * SMALL["VCPU"], OTHER: 8}


async def test_a_consumer_whose_claims_a_hand_took_away_claims_again(open_store: Opener) -> None:
    async with open_store("placement") as database:
        store = SqlPlacement(database)
        await store.register_host(HOST, "host", inventory())
        await store.claim(order(1), SERVER, OWNER, {HOST: SMALL})
        async with database.write() as tx:
            await tx.run(sa.delete(allocations))
        await store.claim(order(2), SERVER, OWNER, {HOST: SMALL})
        [held] = await store.allocations([SERVER])
        assert held.resources == SMALL


async def test_who_holds_something_has_an_owner(open_store: Opener) -> None:
    async with open_store("placement") as database:
        store = SqlPlacement(database)
        await store.register_host(HOST, "host", inventory())
        await store.claim(order(1), SERVER, OWNER, {HOST: SMALL})
        assert await store.owners([SERVER, SECOND]) == {SERVER: OWNER}


async def test_who_holds_something_can_be_said_to_be_anothers(open_store: Opener) -> None:
    async with open_store("placement") as database:
        store = SqlPlacement(database)
        await store.register_host(HOST, "host", inventory())
        await store.name_owner(order(1), SERVER, OWNER)
        assert await store.owners([SERVER]) == {}  # it holds nothing
        await store.claim(order(1), SERVER, OWNER, {HOST: SMALL})
        another = replace(OWNER, project=ProjectId("another"))
        for owner in (another, OWNER, OWNER):
            await store.name_owner(order(2, epoch=2), SERVER, owner)
            assert await store.owners([SERVER]) == {SERVER: owner}
        claim = await store.claim_of(SERVER)
        assert claim
        consumer, held = claim
        assert held == {HOST: SMALL}
        assert consumer.generation == 3  # what was right already was not written
        with pytest.raises(Superseded):
            await store.name_owner(order(2), SERVER, another)
