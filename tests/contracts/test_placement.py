"""What every store of placement does: claims are whole, exact and fenced, and nobody gets what is not there."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.adapters.sql.tables import placement as tables
from whimbrel.domain.errors import Conflict, NotFound, Refused, Superseded
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, ProjectId, ProviderId, RunId, UserId
from whimbrel.placement.errors import (
    BadParent,
    Duplicate,
    HasChildren,
    InventoryInUse,
    NameInUse,
    NoRoom,
    ProviderInUse,
    ProviderNotFound,
    Stale,
    UnknownName,
    UnknownProvider,
)
from whimbrel.placement.provider import Claim
from whimbrel.placement.store import Store
from whimbrel.ports.placement.capacity import ProviderState
from whimbrel.ports.placement.placement import Allocation, Inventory, Owner, Placement

OWNER = Owner(ProjectId("project"), UserId("user"))
HOST, OTHER = ProviderId("11111111-0000-4000-8000-000000000001"), ProviderId("11111111-0000-4000-8000-000000000002")
SERVER, SECOND = ConsumerId("22222222-0000-4000-8000-000000000001"), ConsumerId("22222222-0000-4000-8000-000000000002")
RUN = RunId("33333333-0000-4000-8000-000000000001")
MOVE = ConsumerId(RUN)
SMALL = {"VCPU": 1, "MEMORY_MB": 512}
LARGE = {"VCPU": 4, "MEMORY_MB": 2048}
FIRST_EPOCH = Order(RUN, 1)


def order(number: int, epoch: int = 1) -> Order:
    return Order(RunId(f"run-{number}"), epoch)


def inventory(vcpus: int = 8, **fields: Any) -> dict[str, Inventory]:
    return {"VCPU": Inventory(total=vcpus, **fields), "MEMORY_MB": Inventory(total=16384)}


@asynccontextmanager
async def two_hosts(open_store: Opener) -> AsyncIterator[SqlPlacement]:
    async with open_store("placement") as database:
        store = SqlPlacement(database)
        await store.register_host(HOST, "host", inventory())
        await store.register_host(OTHER, "other", inventory())
        yield store
        await check_sums(database)


async def check_sums(database: Database) -> None:
    """Assert what must hold after every test: use is the sum of the claims, and nobody is kept who holds nothing."""
    sums = sa.select(
        tables.allocations.c.provider, tables.allocations.c.resource_class, sa.func.sum(tables.allocations.c.amount)
    ).group_by(tables.allocations.c.provider, tables.allocations.c.resource_class)
    used = sa.select(
        tables.inventories.c.provider, tables.inventories.c.resource_class, tables.inventories.c.used
    ).where(tables.inventories.c.used > 0)
    async with database.read() as tx:
        assert {tuple(row) for row in await tx.rows(sums)} == {tuple(row) for row in await tx.rows(used)}
        holders = {row[0] for row in await tx.rows(sa.select(tables.allocations.c.consumer))}
        assert holders == {row[0] for row in await tx.rows(sa.select(tables.consumers.c.uuid))}


@pytest.fixture
async def store(open_store: Opener) -> AsyncIterator[SqlPlacement]:
    """A store with two hosts, consistent after the test."""
    async with two_hosts(open_store) as store:
        yield store


async def held(store: Placement, consumer: ConsumerId) -> dict[ProviderId, dict[str, int]]:
    return {found.provider: found.resources for found in await store.allocations([consumer])}


async def room(store: Placement, provider: ProviderId) -> ProviderState:
    return next(each for each in await store.providers() if each.id == provider)


@pytest.mark.parametrize("port", [Placement, Store])
def test_one_class_is_the_placement_of_moves_and_the_store_of_the_api(port: type) -> None:
    promised = {name: method for name, method in vars(port).items() if inspect.isfunction(method) and name[0] != "_"}
    assert len(promised) > 10
    for name, method in promised.items():
        kept = getattr(SqlPlacement, name)
        assert inspect.iscoroutinefunction(kept) == inspect.iscoroutinefunction(method), name
        asked, taken = (inspect.signature(each).parameters.values() for each in (method, kept))
        assert [(one.name, one.kind, one.default) for one in asked] == [
            (one.name, one.kind, one.default) for one in taken
        ], name


# The moves' port


async def test_claim_takes_room(store: SqlPlacement) -> None:
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: SMALL})
    assert await held(store, SERVER) == {HOST: SMALL}
    now = await room(store, HOST)
    assert now.free == {"VCPU": 7, "MEMORY_MB": 15872}
    assert now.capacity == {"VCPU": 8, "MEMORY_MB": 16384}
    assert (await room(store, OTHER)).free == {"VCPU": 8, "MEMORY_MB": 16384}


async def test_inventories_are_those_that_were_set(store: SqlPlacement) -> None:
    has = inventory(4, reserved=1, min_unit=1, max_unit=2, step_size=1, allocation_ratio=2.5)
    await store.set_inventories(HOST, None, has)
    found = await store.inventories()
    assert found[HOST] == has
    assert found[OTHER] == inventory()


async def test_a_provider_says_in_which_tree_it_is(store: SqlPlacement) -> None:
    card = ProviderId("11111111-0000-4000-8000-000000000003")
    await store.create_provider(card, "host:agent:eth0", HOST)
    host, below = await room(store, HOST), await room(store, card)
    assert (host.name, host.root, host.parent) == ("host", HOST, None)
    assert (below.name, below.root, below.parent) == ("host:agent:eth0", HOST, HOST)
    await store.move_provider(card, "other:agent:eth0", OTHER, freely=True)
    below = await room(store, card)
    assert (below.name, below.root, below.parent) == ("other:agent:eth0", OTHER, OTHER)


async def test_claim_replaces_any_other_and_can_be_repeated(store: SqlPlacement) -> None:
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: LARGE})
    for _ in range(2):
        await store.claim(FIRST_EPOCH, SERVER, OWNER, {OTHER: SMALL})
    assert await store.allocations() == [Allocation(consumer=SERVER, provider=OTHER, resources=SMALL)]
    assert (await room(store, HOST)).free["VCPU"] == 8
    assert (await room(store, OTHER)).free["VCPU"] == 7


async def test_claim_of_nothing_is_a_release(store: SqlPlacement) -> None:
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: SMALL})
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: {"VCPU": 0}})
    assert await held(store, SERVER) == {}


@pytest.mark.parametrize(
    ("want", "problem"),
    [
        ({"VCPU": 9}, "max_unit|wanted"),
        ({"MEMORY_MB": 20000}, "20000 wanted, 16384 free"),
        ({"VCPU": 1, "DISK_GB": 1}, "no inventory"),
        ({"VCPU": 1, "CUSTOM_NOBODY": 1}, "CUSTOM_NOBODY"),
    ],
)
async def test_claim_without_room_is_refused_and_changes_nothing(
    store: SqlPlacement, want: Mapping[str, int], problem: str
) -> None:
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {OTHER: SMALL})
    with pytest.raises(Refused, match=problem):
        await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: want})
    assert await held(store, SERVER) == {OTHER: SMALL}


async def test_claim_on_an_unknown_provider_is_refused(store: SqlPlacement) -> None:
    with pytest.raises(Refused):
        await store.claim(FIRST_EPOCH, SERVER, OWNER, {ProviderId("nobody"): SMALL})


@pytest.mark.parametrize(
    ("limits", "amount", "problem"),
    [
        ({"max_unit": 4}, 5, "more than max_unit 4"),
        ({"min_unit": 2}, 1, "less than min_unit 2"),
        ({"step_size": 3}, 4, "step_size 3"),
    ],
)
async def test_units(store: SqlPlacement, limits: dict[str, int], amount: int, problem: str) -> None:
    await store.register_host(HOST, "host", inventory(8, **limits))
    with pytest.raises(Refused, match=problem):
        await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: {"VCPU": amount}})


async def test_reserved_and_ratio_make_the_capacity(store: SqlPlacement) -> None:
    await store.register_host(HOST, "host", {"VCPU": Inventory(total=8, reserved=2, allocation_ratio=1.5)})
    assert (await room(store, HOST)).capacity == {"VCPU": 9}
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: {"VCPU": 9}})
    with pytest.raises(Refused):
        await store.claim(FIRST_EPOCH, SECOND, OWNER, {HOST: {"VCPU": 1}})


async def test_two_consumers_on_one_provider_may_exceed_max_unit_together(store: SqlPlacement) -> None:
    """A resize on one host: the move holds the old size, the server the new one."""
    await store.register_host(HOST, "host", inventory(8, max_unit=4, allocation_ratio=4.0))
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: {"VCPU": 3}})
    await store.hand_over(FIRST_EPOCH, SERVER, MOVE, OWNER)
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: {"VCPU": 4}})
    assert await held(store, MOVE) == {HOST: {"VCPU": 3}}
    assert await held(store, SERVER) == {HOST: {"VCPU": 4}}
    await store.release(FIRST_EPOCH, MOVE)
    assert (await room(store, HOST)).free["VCPU"] == 28


async def test_hand_over_moves_everything_in_one_write(store: SqlPlacement) -> None:
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: LARGE})
    for _ in range(2):
        await store.hand_over(FIRST_EPOCH, SERVER, MOVE, OWNER)
    assert await store.allocations() == [Allocation(consumer=MOVE, provider=HOST, resources=LARGE)]


async def test_hand_over_back_drops_what_the_taker_held(store: SqlPlacement) -> None:
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: SMALL})
    await store.hand_over(FIRST_EPOCH, SERVER, MOVE, OWNER)
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {OTHER: LARGE})
    await store.hand_over(FIRST_EPOCH, MOVE, SERVER, OWNER)
    assert await store.allocations() == [Allocation(consumer=SERVER, provider=HOST, resources=SMALL)]
    assert (await room(store, OTHER)).free["VCPU"] == 8


async def test_hand_over_of_nothing_changes_nothing(store: SqlPlacement) -> None:
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: SMALL})
    await store.hand_over(FIRST_EPOCH, MOVE, SERVER, OWNER)
    assert await held(store, SERVER) == {HOST: SMALL}


async def test_hand_over_does_not_ask_what_the_inventory_says_today(store: SqlPlacement) -> None:
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: {"VCPU": 6}})
    await store.register_host(HOST, "host", inventory(2, max_unit=2))
    await store.hand_over(FIRST_EPOCH, SERVER, MOVE, OWNER)
    assert await held(store, MOVE) == {HOST: {"VCPU": 6}}


async def test_who_is_over_capacity_can_shrink_but_not_grow(store: SqlPlacement) -> None:
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: {"VCPU": 6}})
    await store.register_host(HOST, "host", inventory(2))
    assert (await room(store, HOST)).free["VCPU"] == -4
    with pytest.raises(Refused, match="0 free"):
        await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: {"VCPU": 7}})
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: {"VCPU": 5}})
    assert (await room(store, HOST)).free["VCPU"] == -3


async def test_release(store: SqlPlacement) -> None:
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: SMALL})
    for _ in range(2):
        await store.release(FIRST_EPOCH, SERVER)
    assert await store.allocations() == []
    assert (await room(store, HOST)).free["VCPU"] == 8


async def test_allocations_of_some_of_all_and_of_none(store: SqlPlacement) -> None:
    await store.claim(order(1), SERVER, OWNER, {HOST: SMALL})
    await store.claim(order(2), SECOND, OWNER, {HOST: LARGE})
    assert {found.consumer for found in await store.allocations()} == {SERVER, SECOND}
    assert [found.consumer for found in await store.allocations([SECOND])] == [SECOND]
    assert await store.allocations([]) == []


WRITES: dict[str, Callable[[SqlPlacement, Order], Awaitable[None]]] = {
    "claim": lambda store, order: store.claim(order, SERVER, OWNER, {HOST: SMALL}),
    "hand over": lambda store, order: store.hand_over(order, SERVER, MOVE, OWNER),
    "hand over nothing": lambda store, order: store.hand_over(order, SECOND, SERVER, OWNER),
    "release": lambda store, order: store.release(order, SERVER),
    "release nothing": lambda store, order: store.release(order, SECOND),
}


@pytest.mark.parametrize("newer", WRITES)
async def test_a_late_order_is_refused_whatever_it_wants(store: SqlPlacement, newer: str) -> None:
    """Also a write that changed nothing raises the fence."""
    await store.claim(order(9), SERVER, OWNER, {HOST: LARGE})
    await WRITES[newer](store, Order(RUN, 2))
    before = sorted(await store.allocations(), key=str)
    for late in WRITES.values():
        with pytest.raises(Superseded):
            await late(store, Order(RUN, 1))
    assert sorted(await store.allocations(), key=str) == before


async def test_a_refused_claim_raises_the_fence_too(store: SqlPlacement) -> None:
    with pytest.raises(Refused):
        await store.claim(Order(RUN, 2), SERVER, OWNER, {HOST: {"VCPU": 100}})
    with pytest.raises(Superseded):
        await store.claim(Order(RUN, 1), SERVER, OWNER, {HOST: SMALL})


async def test_runs_have_fences_of_their_own(store: SqlPlacement) -> None:
    await store.claim(order(1, epoch=7), SERVER, OWNER, {HOST: SMALL})
    await store.claim(order(2, epoch=1), SECOND, OWNER, {HOST: SMALL})
    assert (await held(store, SERVER), await held(store, SECOND)) == ({HOST: SMALL}, {HOST: SMALL})


async def test_register_host_can_be_repeated_and_keeps_use(store: SqlPlacement) -> None:
    await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: {"VCPU": 2}})
    generation = (await store.node(HOST)).provider.generation
    await store.register_host(HOST, "host", inventory())
    assert (await store.node(HOST)).provider.generation == generation
    await store.register_host(HOST, "renamed", {"DISK_GB": Inventory(total=10)})
    node = await store.node(HOST)
    assert node.provider.name == "renamed"
    assert {name: stock.used for name, stock in node.stocks.items()} == {"VCPU": 2, "DISK_GB": 0}


async def test_a_host_may_offer_custom_classes_and_traits_that_were_not_made_before(store: SqlPlacement) -> None:
    await store.create_trait("CUSTOM_OLD")
    await store.set_traits(HOST, None, ["CUSTOM_OLD"])
    for _ in range(2):
        await store.register_host(HOST, "host", {"CUSTOM_GPU": Inventory(total=2), "VCPU": Inventory(total=4)})
        await store.offer_traits(HOST, ["CUSTOM_SSD", "HW_CPU_X86_AVX2"])
        node = await store.node(HOST)
        assert node.traits == {"CUSTOM_OLD", "CUSTOM_SSD", "HW_CPU_X86_AVX2"}
        assert node.stocks.keys() == {"CUSTOM_GPU", "VCPU"}
    generation = node.provider.generation
    await store.offer_traits(HOST, ["HW_CPU_X86_AVX2", "CUSTOM_SSD"])
    assert (await store.node(HOST)).provider.generation == generation
    assert "CUSTOM_GPU" in await store.resource_classes()
    assert await room(store, HOST) == (await store.capacity((HOST,))).state(0)
    with pytest.raises(NotFound):
        await store.offer_traits(ProviderId("nobody"), ["CUSTOM_SSD"])


async def test_what_a_host_offers_no_more_it_has_no_more_unless_an_operator_set_it(store: SqlPlacement) -> None:
    for trait in ("CUSTOM_OURS", "CUSTOM_OLD"):
        await store.create_trait(trait)
    await store.set_traits(HOST, None, ["CUSTOM_OLD"])
    await store.offer_traits(HOST, ["CUSTOM_OLD", "CUSTOM_SSD", "CUSTOM_FAST"])
    every = ["CUSTOM_OLD", "CUSTOM_SSD", "CUSTOM_FAST", "CUSTOM_OURS"]
    await store.set_traits(HOST, None, every)  # a client says all of them to add one
    generation = (await store.node(HOST)).provider.generation
    await store.offer_traits(HOST, ["CUSTOM_SSD"])
    node = await store.node(HOST)
    assert node.traits == {"CUSTOM_OLD", "CUSTOM_SSD", "CUSTOM_OURS"}
    assert node.provider.generation > generation
    assert (await store.provider_index()).nodes[HOST].traits == node.traits
    await store.set_traits(HOST, None, ["CUSTOM_OURS"])
    await store.set_traits(HOST, None, ["CUSTOM_SSD"])  # taken away and set again it is the operator's
    await store.offer_traits(HOST, [])
    assert (await store.node(HOST)).traits == {"CUSTOM_SSD"}


async def test_two_hosts_cannot_have_one_name(store: SqlPlacement) -> None:
    with pytest.raises(Conflict, match="other"):
        await store.register_host(HOST, "other", inventory())


async def test_a_disabled_host_has_the_trait(store: SqlPlacement) -> None:
    for disabled in (True, True, False, False):
        await store.set_disabled(HOST, disabled)
        assert ((await room(store, HOST)).traits == {"COMPUTE_STATUS_DISABLED"}) == disabled
    with pytest.raises(NotFound):
        await store.set_disabled(ProviderId("nobody"), True)


async def test_aggregates_are_replaced(store: SqlPlacement) -> None:
    await store.set_aggregates(HOST, ["a", "b"])
    await store.set_aggregates(HOST, ["b", "c", "c"])
    assert (await room(store, HOST)).aggregates == {"b", "c"}
    assert (await room(store, OTHER)).aggregates == frozenset()


# Contention


async def race(store: SqlPlacement, numbers: range) -> int:
    """Claim two units concurrently for each; return how many succeeded."""

    async def try_one(number: int) -> bool:
        try:
            await store.claim(order(number), ConsumerId(f"consumer-{number}"), OWNER, {HOST: {"VCPU": 2}})
        except Refused:
            return False
        return True

    return sum(await asyncio.gather(*(try_one(number) for number in numbers)))


async def test_tasks_that_race_for_the_last_unit_never_overcommit(store: SqlPlacement) -> None:
    await store.register_host(HOST, "host", inventory(11))
    assert await race(store, range(8)) == 5
    assert (await room(store, HOST)).free["VCPU"] == 1


@pytest.mark.parametrize("open_store", ["sqlite file", "postgresql"], indirect=True)
async def test_threads_that_race_for_the_last_unit_never_overcommit(store: SqlPlacement, open_store: Opener) -> None:
    """Each with connections of its own, as processes have."""

    async def alone(first: int) -> int:
        async with open_store("placement") as database:
            return await race(SqlPlacement(database), range(first, first + 3))

    await store.register_host(HOST, "host", inventory(11))
    with ThreadPoolExecutor(8) as pool:
        loop = asyncio.get_running_loop()
        starts = [loop.run_in_executor(pool, asyncio.run, alone(10 * number)) for number in range(8)]
        assert sum(await asyncio.gather(*starts)) == 5
    assert (await room(store, HOST)).free["VCPU"] == 1


async def test_swaps_that_cross_do_not_lock_each_other_out(store: SqlPlacement) -> None:
    await store.claim(order(1), SERVER, OWNER, {HOST: SMALL})
    await store.claim(order(2), SECOND, OWNER, {OTHER: SMALL})

    async def swing(number: int, consumer: ConsumerId, provider: ProviderId) -> None:
        for _ in range(5):
            await store.hand_over(order(number), consumer, ConsumerId(f"run-{number}"), OWNER)
            await store.claim(order(number), consumer, OWNER, {provider: SMALL})
            await store.release(order(number), ConsumerId(f"run-{number}"))

    await asyncio.gather(swing(1, SERVER, OTHER), swing(2, SECOND, HOST))
    assert await held(store, SERVER) == {OTHER: SMALL}
    assert await held(store, SECOND) == {HOST: SMALL}


async def succeeded(attempts: Iterable[Awaitable[None]]) -> int:
    """Run them at once; return how many were not too late."""

    async def try_one(attempt: Awaitable[None]) -> bool:
        try:
            await attempt
        except Conflict:
            return False
        return True

    return sum(await asyncio.gather(*map(try_one, attempts)))


async def test_writers_of_one_consumer_wait_for_each_other(store: SqlPlacement) -> None:
    await store.rewrite([claim(SERVER, {HOST: SMALL})])
    asked_for = [claim(SERVER, {provider: {"VCPU": 1 + number}}) for number in range(4) for provider in (HOST, OTHER)]
    assert await succeeded(store.rewrite([resources]) for resources in asked_for) == 8
    assert len(await held(store, SERVER)) == 1


@pytest.mark.parametrize("generation", [None, 1])
async def test_of_writers_that_saw_the_same_generation_one_wins(store: SqlPlacement, generation: int | None) -> None:
    if generation is not None:
        await store.rewrite([claim(SERVER, {HOST: SMALL}), claim(SECOND, {OTHER: SMALL})])
    pair = [claim(SERVER, {OTHER: LARGE}, generation=generation), claim(SECOND, {}), claim(MOVE, {HOST: SMALL})]
    assert await succeeded(store.rewrite(pair[::way]) for way in (1, -1, 1, -1)) == 1
    assert await held(store, SERVER) == {OTHER: LARGE}


# What the API needs


def claim(consumer: ConsumerId, held: dict[ProviderId, dict[str, int]], **fields: Any) -> Claim:
    return Claim(consumer=consumer, owner=OWNER, held=held, **fields)


async def test_rewrite_of_several_is_all_or_nothing(store: SqlPlacement) -> None:
    await store.rewrite([claim(SERVER, {HOST: SMALL}), claim(SECOND, {OTHER: LARGE})])
    with pytest.raises(NoRoom):
        await store.rewrite([claim(SERVER, {OTHER: SMALL}), claim(SECOND, {OTHER: {"VCPU": 8}})])
    assert await held(store, SERVER) == {HOST: SMALL}
    assert await held(store, SECOND) == {OTHER: LARGE}


async def test_a_swap_on_a_full_provider_needs_no_room_for_both(store: SqlPlacement) -> None:
    await store.rewrite([claim(SERVER, {HOST: {"VCPU": 8}})])
    await store.rewrite([claim(SERVER, {}), claim(MOVE, {HOST: {"VCPU": 8}})])
    assert await held(store, MOVE) == {HOST: {"VCPU": 8}}
    assert await store.claim_of(SERVER) is None


async def test_generations_of_consumers(store: SqlPlacement) -> None:
    with pytest.raises(Stale):
        await store.rewrite([claim(SERVER, {HOST: SMALL}, generation=1)])
    await store.rewrite([claim(SERVER, {HOST: SMALL}, generation=None, type="INSTANCE")])
    with pytest.raises(Stale):
        await store.rewrite([claim(SERVER, {HOST: LARGE}, generation=None)])
    await store.rewrite([claim(SERVER, {HOST: LARGE}, generation=1)])
    found = await store.claim_of(SERVER)
    assert found
    assert (found[0].generation, found[0].type, found[1]) == (2, "INSTANCE", {HOST: LARGE})


async def test_what_is_not_there_cannot_be_claimed(store: SqlPlacement) -> None:
    with pytest.raises(UnknownProvider, match="nobody"):
        await store.rewrite([claim(SERVER, {ProviderId("nobody"): SMALL})])
    with pytest.raises(UnknownName, match="CUSTOM_X"):
        await store.rewrite([claim(SERVER, {HOST: {"CUSTOM_X": 1}})])
    with pytest.raises(NoRoom, match="no inventory"):
        await store.rewrite([claim(SERVER, {HOST: {"VGPU": 1}})])


async def test_drop_and_claims_on(store: SqlPlacement) -> None:
    await store.rewrite([claim(SERVER, {HOST: SMALL, OTHER: LARGE})])
    provider, claims = await store.claims_on(HOST)
    assert provider.uuid == HOST
    assert [(consumer.id, amounts) for consumer, amounts in claims] == [(SERVER, SMALL)]
    assert await store.drop(SERVER)
    assert not await store.drop(SERVER)
    assert (await store.claims_on(HOST))[1] == []
    with pytest.raises(ProviderNotFound):
        await store.claims_on(ProviderId("nobody"))


async def test_usages_by_type(store: SqlPlacement) -> None:
    await store.rewrite([claim(SERVER, {HOST: SMALL}, type="INSTANCE"), claim(SECOND, {OTHER: LARGE})])
    found = {usage.type: usage for usage in await store.usages(OWNER.project, None)}
    assert found["INSTANCE"].resources == SMALL
    assert found[None].resources == LARGE
    assert found[None].consumers == 1
    assert len(await store.usages(OWNER.project, OWNER.user)) == 2
    assert await store.usages(OWNER.project, UserId("other")) == []
    assert await store.usages(ProjectId("other"), None) == []
    both = {name: SMALL[name] + LARGE[name] for name in SMALL}
    assert await store.held_by(OWNER.project) == await store.held_by(OWNER.project, OWNER.user) == both
    assert await store.held_by(OWNER.project, UserId("other")) == await store.held_by(ProjectId("other")) == {}


async def test_trees_of_providers(store: SqlPlacement) -> None:
    child, grandchild = ProviderId("child"), ProviderId("grandchild")
    await store.create_provider(child, "child", HOST)
    made = await store.create_provider(grandchild, "grandchild", child)
    assert (made.parent, made.root) == (child, HOST)
    with pytest.raises(HasChildren):
        await store.delete_provider(child)
    with pytest.raises(BadParent):
        await store.move_provider(child, "child", grandchild, freely=True)
    with pytest.raises(BadParent):
        await store.move_provider(child, "child", OTHER, freely=False)
    await store.move_provider(child, "child", OTHER, freely=True)
    assert (await store.node(grandchild)).provider.root == OTHER
    loose = await store.move_provider(child, "loose", None, freely=True)
    assert (loose.name, loose.parent, loose.root) == ("loose", None, child)
    assert (await store.node(grandchild)).provider.root == child
    await store.delete_provider(grandchild)
    await store.delete_provider(child)
    assert (await store.provider_index()).nodes.keys() == {HOST, OTHER}


async def test_a_host_goes_with_all_below_it_or_not_at_all(store: SqlPlacement) -> None:
    child, grandchild = ProviderId("child"), ProviderId("grandchild")
    await store.create_provider(child, "child", HOST)
    await store.create_provider(grandchild, "grandchild", child)
    await store.set_inventories(grandchild, None, {"VCPU": Inventory(total=8)})
    await store.rewrite([claim(SERVER, {grandchild: {"VCPU": 1}})])
    with pytest.raises(ProviderInUse):
        await store.delete_tree(HOST)
    assert (await store.provider_index()).nodes.keys() == {HOST, OTHER, child, grandchild}
    await store.drop(SERVER)
    await store.delete_tree(HOST)
    assert (await store.provider_index()).nodes.keys() == {OTHER}
    with pytest.raises(ProviderNotFound):
        await store.delete_tree(HOST)


async def test_bad_providers(store: SqlPlacement) -> None:
    with pytest.raises(Duplicate, match="name: host"):
        await store.create_provider(ProviderId("new"), "host", None)
    with pytest.raises(Duplicate, match="uuid"):
        await store.create_provider(HOST, "new", None)
    with pytest.raises(BadParent):
        await store.create_provider(ProviderId("new"), "new", ProviderId("nobody"))
    with pytest.raises(BadParent):
        await store.create_provider(ProviderId("new"), "new", ProviderId("new"))
    with pytest.raises(ProviderNotFound):
        await store.rename_provider(ProviderId("nobody"), "new")
    await store.rewrite([claim(SERVER, {HOST: SMALL})])
    with pytest.raises(ProviderInUse):
        await store.delete_provider(HOST)


async def test_inventories_change_under_their_generation(store: SqlPlacement) -> None:
    generation = (await store.node(HOST)).provider.generation
    with pytest.raises(Stale):
        await store.set_inventories(HOST, generation + 1, {})
    node = await store.set_inventories(HOST, generation, {"VCPU": Inventory(total=3), "VGPU": Inventory(total=1)})
    assert node.provider.generation == generation + 1
    assert {name: stock.inventory.total for name, stock in node.stocks.items()} == {"VCPU": 3, "VGPU": 1}
    await store.rewrite([claim(SERVER, {HOST: {"VCPU": 1}})])
    with pytest.raises(InventoryInUse, match="VCPU"):
        await store.set_inventories(HOST, None, {})
    with pytest.raises(InventoryInUse):
        await store.delete_inventory(HOST, "VCPU")
    await store.delete_inventory(HOST, "VGPU")
    with pytest.raises(NotFound):
        await store.delete_inventory(HOST, "VGPU")
    with pytest.raises(Duplicate):
        await store.add_inventory(HOST, "VCPU", Inventory(total=1))
    with pytest.raises(UnknownName):
        await store.add_inventory(HOST, "CUSTOM_X", Inventory(total=1))
    node = await store.add_inventory(HOST, "DISK_GB", Inventory(total=1))
    node = await store.change_inventory(HOST, node.provider.generation, "DISK_GB", Inventory(total=2))
    assert node.stocks["DISK_GB"].inventory == Inventory(total=2)


async def test_names(store: SqlPlacement) -> None:
    assert await store.create_resource_class("CUSTOM_A")
    assert not await store.create_resource_class("CUSTOM_A")
    node = await store.set_inventories(HOST, None, {"CUSTOM_A": Inventory(total=2)})
    await store.rewrite([claim(SERVER, {HOST: {"CUSTOM_A": 1}})])
    await store.rename_resource_class("CUSTOM_A", "CUSTOM_B")
    assert await held(store, SERVER) == {HOST: {"CUSTOM_B": 1}}
    with pytest.raises(NameInUse):
        await store.delete_resource_class("CUSTOM_B")
    with pytest.raises(NotFound):
        await store.delete_resource_class("CUSTOM_A")
    with pytest.raises(UnknownName, match="CUSTOM_FAST"):
        await store.set_traits(HOST, None, ["CUSTOM_FAST"])
    assert await store.create_trait("CUSTOM_FAST")
    node = await store.set_traits(HOST, node.provider.generation + 1, ["CUSTOM_FAST", "HW_CPU_X86_AVX2"])
    assert node.traits == {"CUSTOM_FAST", "HW_CPU_X86_AVX2"}
    assert await store.set_traits(HOST, None, ["HW_CPU_X86_AVX2", "CUSTOM_FAST"]) == node
    assert await store.traits(associated=True) == ["CUSTOM_FAST", "HW_CPU_X86_AVX2"]
    assert "CUSTOM_FAST" not in await store.traits(associated=False)
    assert {"CUSTOM_FAST", "HW_CPU_X86_AVX"} <= set(await store.traits())
    with pytest.raises(NameInUse):
        await store.delete_trait("CUSTOM_FAST")
    await store.set_traits(HOST, None, [])
    await store.delete_trait("CUSTOM_FAST")


async def test_aggregates_with_and_without_generation(store: SqlPlacement) -> None:
    generation = (await store.node(HOST)).provider.generation
    node = await store.put_aggregates(HOST, None, ["a"])
    assert node.provider.generation == generation
    node = await store.put_aggregates(HOST, generation, ["b"])
    assert (node.provider.generation, node.aggregates) == (generation + 1, {"b"})
    with pytest.raises(Stale):
        await store.put_aggregates(HOST, generation, [])


# What the database itself does not allow, whatever a program tries


@pytest.mark.parametrize(
    "statement",
    [
        sa.update(tables.inventories).values(used=-1),
        sa.update(tables.inventories).values(reserved=tables.inventories.c.total + 1),
        sa.update(tables.providers).values(parent=tables.providers.c.uuid),
        sa.update(tables.providers).values(root="nobody"),
        sa.update(tables.providers).where(tables.providers.c.uuid == HOST).values(parent=OTHER),
        sa.update(tables.allocations).values(amount=0),
        sa.update(tables.allocations).values(provider="nobody"),
        sa.delete(tables.consumers),
        sa.delete(tables.inventories),
        sa.delete(tables.providers),
        sa.insert(tables.allocations).values(
            consumer=SERVER, provider=HOST, resource_class="VCPU", amount=1
        ),  # a second time
        sa.insert(tables.provider_traits).values(provider=HOST, trait="CUSTOM_NOBODY"),
    ],
    ids=str,
)
async def test_rules_of_the_database(open_store: Opener, statement: sa.Executable) -> None:
    async with open_store("placement") as database:
        store = SqlPlacement(database)
        await store.register_host(HOST, "host", inventory())
        await store.register_host(OTHER, "other", inventory())
        await store.claim(FIRST_EPOCH, SERVER, OWNER, {HOST: SMALL})
        with pytest.raises(Conflict):
            async with database.write() as tx:
                await tx.run(statement)
        await check_sums(database)


async def test_who_holds_anything_comes_page_by_page(open_store: Opener) -> None:
    async with two_hosts(open_store) as store:
        for number, consumer in enumerate((SERVER, SECOND)):
            await store.claim(order(number), consumer, OWNER, {HOST: SMALL, OTHER: SMALL})
        first = await store.consumers(None, 1)
        assert (first.items, first.after) == ([SERVER], SERVER)
        second = await store.consumers(first.after, 1)
        assert second.items == [SECOND]
        assert (await store.consumers(second.after, 1)).items == []
        assert (await store.consumers(None, 2)).items == [SERVER, SECOND]
