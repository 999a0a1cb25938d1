"""What every store of placement does when a tree changes its form: inventories and claims move together, or neither."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from tests.contracts.databases import Opener
from tests.contracts.test_placement import HOST, MOVE, OTHER, SECOND, SERVER, claim, held, inventory, two_hosts
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.domain.errors import WorldError
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.errors import InventoryInUse, NoRoom, ProviderNotFound, Stale, UnknownName, UnknownProvider
from whimbrel.placement.provider import Claim, Shape
from whimbrel.ports.placement.placement import Inventory

CHILD = ProviderId("11111111-0000-4000-8000-000000000003")
MEMORY = {"MEMORY_MB": Inventory(total=16384)}
CPUS = {"VCPU": Inventory(total=8, max_unit=6)}
BEFORE = {HOST: {"VCPU": 6, "MEMORY_MB": 512}}
AFTER = {HOST: {"MEMORY_MB": 512}, CHILD: {"VCPU": 6}}


async def shape(store: SqlPlacement, provider: ProviderId, inventories: Mapping[str, Inventory]) -> Shape:
    """Wish for these inventories, seeing the provider as it is."""
    generation = (await store.node(provider)).provider.generation
    return Shape(provider=provider, generation=generation, inventories=inventories)


async def everything(store: SqlPlacement) -> tuple[object, ...]:
    nodes = (await store.provider_index()).nodes
    return nodes, [await store.claim_of(consumer) for consumer in (SERVER, SECOND, MOVE)]


@pytest.fixture
async def store(open_store: Opener) -> AsyncIterator[SqlPlacement]:
    """A store with two servers that hold the host's VCPU; below the host is a child that has nothing yet."""
    async with two_hosts(open_store) as store:
        await store.create_provider(CHILD, "child", HOST)
        await store.rewrite([claim(SERVER, BEFORE), claim(SECOND, {HOST: {"VCPU": 2}})])
        yield store


async def test_what_is_held_moves_with_its_inventory(store: SqlPlacement) -> None:
    shapes = [await shape(store, HOST, MEMORY), await shape(store, CHILD, CPUS)]
    await store.reshape(shapes, [claim(SERVER, AFTER, generation=1), claim(SECOND, {CHILD: {"VCPU": 2}}, generation=1)])
    assert await held(store, SERVER) == AFTER
    nodes = (await store.provider_index()).nodes
    assert {name: stock.used for name, stock in nodes[HOST].stocks.items()} == {"MEMORY_MB": 512}
    assert {name: stock.used for name, stock in nodes[CHILD].stocks.items()} == {"VCPU": 8}
    assert all(nodes[before.provider].provider.generation > before.generation for before in shapes)


async def test_without_claims_it_changes_several_inventories(store: SqlPlacement) -> None:
    shapes = [await shape(store, OTHER, {}), await shape(store, CHILD, inventory(4))]
    await store.reshape(shapes, [])
    assert (await store.node(OTHER)).stocks == {}
    assert {name: stock.inventory for name, stock in (await store.node(CHILD)).stocks.items()} == inventory(4)


async def test_a_claim_can_end_with_its_inventory(store: SqlPlacement) -> None:
    await store.reshape([await shape(store, HOST, {})], [claim(SERVER, {}), claim(SECOND, {})])
    assert (await store.node(HOST)).stocks == {}
    assert await store.claim_of(SERVER) is None


MOVED = (claim(SERVER, AFTER), claim(SECOND, {CHILD: {"VCPU": 2}}))
REFUSED: list[tuple[str, type[WorldError], Mapping[str, Inventory], tuple[Claim, ...]]] = [
    ("a claim is not named", InventoryInUse, CPUS, MOVED[:1]),
    ("too little", NoRoom, {"VCPU": Inventory(total=7)}, MOVED),
    ("too large a piece", NoRoom, {"VCPU": Inventory(total=8, max_unit=5)}, MOVED),
    ("no such class", UnknownName, {**CPUS, "CUSTOM_X": Inventory(total=1)}, MOVED),
    ("no inventory of what is held", NoRoom, {}, MOVED),
    ("held of nobody", UnknownProvider, CPUS, (claim(SERVER, {ProviderId("nobody"): {"VCPU": 1}}), MOVED[1])),
    ("a consumer of the past", Stale, CPUS, (MOVED[0], claim(SECOND, {CHILD: {"VCPU": 2}}, generation=7))),
    ("a consumer that is not new", Stale, CPUS, (MOVED[0], claim(SECOND, {CHILD: {"VCPU": 2}}, generation=None))),
]


@pytest.mark.parametrize(("error", "cpus", "claims"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
async def test_what_is_refused_changes_nothing(
    store: SqlPlacement, error: type[WorldError], cpus: Mapping[str, Inventory], claims: tuple[Claim, ...]
) -> None:
    before = await everything(store)
    shapes = [await shape(store, HOST, MEMORY), await shape(store, CHILD, cpus)]
    with pytest.raises(error):
        await store.reshape(shapes, claims)
    assert await everything(store) == before


async def test_providers_of_the_past_and_unknown_ones(store: SqlPlacement) -> None:
    host, child = await shape(store, HOST, MEMORY), await shape(store, CHILD, CPUS)
    before = await everything(store)
    old = Shape(provider=CHILD, generation=child.generation + 1, inventories=CPUS)
    with pytest.raises(Stale, match="actual: 0, given: 1"):
        await store.reshape([host, old], MOVED)
    with pytest.raises(ProviderNotFound, match="nobody"):
        await store.reshape([host, Shape(provider=ProviderId("nobody"), generation=0, inventories=CPUS)], MOVED)
    assert await everything(store) == before


async def test_of_two_that_saw_the_same_one_wins(store: SqlPlacement) -> None:
    shapes = [await shape(store, HOST, MEMORY), await shape(store, CHILD, CPUS)]
    tries = [store.reshape(shapes[::way], MOVED[::way]) for way in (1, -1, 1, -1)]
    ends = await asyncio.gather(*tries, return_exceptions=True)
    assert sorted(str(type(end).__name__) for end in ends) == ["NoneType", "Stale", "Stale", "Stale"]
    assert await held(store, SERVER) == AFTER
