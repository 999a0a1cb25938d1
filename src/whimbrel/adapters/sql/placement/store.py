"""The store of Placement: each method is one transaction. Implements the port for moves and the store of the API.

Invariant: a claim is checked and written in one transaction, and every write of a move passes the fence.
"""

from collections.abc import Collection, Mapping, Sequence
from random import Random

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.id_pages import id_page, read_page
from whimbrel.adapters.sql.engine.transactions import looks, reads, writes
from whimbrel.adapters.sql.placement import allocation_queries, changes, fences, group_members, host_zones, providers
from whimbrel.adapters.sql.placement.claims import asked_of, held_of, read_held, rewrite
from whimbrel.adapters.sql.placement.feed import CHECKED, Feed
from whimbrel.adapters.sql.placement.fences import raise_fence
from whimbrel.adapters.sql.placement.host_store import HostStore
from whimbrel.adapters.sql.placement.provider_store import ProviderStore
from whimbrel.adapters.sql.placement.reshape import reshape
from whimbrel.adapters.sql.placement.resource_names import CLASSES, TRAITS, all_traits
from whimbrel.adapters.sql.tables.placement import allocations
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, ProviderId, ServerId
from whimbrel.domain.resources import Resources
from whimbrel.placement.assignments import all_assignments
from whimbrel.placement.capacity import IndexCapacity, state_of
from whimbrel.placement.group_rules import check
from whimbrel.placement.index import Index
from whimbrel.placement.provider import Claim, Consumer, Held, Provider
from whimbrel.ports.placement.assignments import Assignment, ResourceRequest, Shortfall
from whimbrel.ports.placement.capacity import ProviderState
from whimbrel.ports.placement.placement import GroupRule, HostRule, Inventory, Owner
from whimbrel.ports.stores.pages import Page

_CONSUMERS = id_page(allocations.c.consumer)


async def _drop(tx: Tx, consumer: ConsumerId) -> bool:
    return await _empty(tx, consumer, await read_held(tx, [consumer], lock=True))


async def _empty(tx: Tx, consumer: ConsumerId, before: Mapping[ConsumerId, tuple[Consumer, Held]]) -> bool:
    """Drop the claim of a consumer that was read with a lock. Return whether there was one."""
    if before:
        nothing = Claim(consumer=consumer, owner=before[consumer][0].owner, held={})
        await rewrite(tx, [nothing], before)
    return bool(before)


async def _passed(tx: Tx, order: Order, consumers: Collection[ConsumerId]) -> dict[ConsumerId, tuple[Consumer, Held]]:
    """Raise the fence and read these consumers with a lock, in one round trip. Raises: Superseded; Behind; Conflict."""
    answers = await raise_fence(tx, order, *asked_of(tx, consumers, lock=True))
    return held_of(answers)


class SqlPlacement(HostStore, ProviderStore):
    """Implements ports.placement.placement.Placement and placement.store.Store."""

    def __init__(self, db: Database, rng: Random | None = None) -> None:
        """rng: determines the order of candidates."""
        self._db = db
        self._feed = Feed(db, rng or Random(0))

    # The port for moves

    async def providers(self) -> list[ProviderState]:
        index = await self.provider_index()
        return list(index.derived(index.nodes.values(), state_of).values())

    async def inventories(self) -> dict[ProviderId, dict[str, Inventory]]:
        nodes = (await self.provider_index()).nodes
        return {uuid: {name: stock.inventory for name, stock in node.stocks.items()} for uuid, node in nodes.items()}

    async def capacity(self, hosts: Sequence[ProviderId]) -> IndexCapacity:
        return IndexCapacity(await self.provider_index(), hosts)

    async def all_assignments(
        self, resources: ResourceRequest, hosts: Collection[ProviderId], most: int = 4
    ) -> dict[ProviderId, tuple[Assignment, ...] | Shortfall]:
        return all_assignments(await self.provider_index(), resources, hosts, most)

    async def claim(
        self,
        order: Order,
        consumer: ConsumerId,
        owner: Owner,
        want: Mapping[ProviderId, Resources],
        group: GroupRule | None = None,
        host: HostRule | None = None,
    ) -> None:
        given = {provider: {name: n for name, n in amounts.items() if n} for provider, amounts in want.items()}
        held: Held = {provider: amounts for provider, amounts in given.items() if amounts}
        refusal: Refused | None = None
        async with self._db.write() as tx:
            places = None
            if group:  # its row is locked before any consumer
                await raise_fence(tx, order)
                places = await group_members.lock(tx, group)
                before = await read_held(tx, [consumer], lock=True)
            else:
                before = await _passed(tx, order, [consumer])
            if consumer in before and before[consumer][1] == held:
                return
            claim = Claim(consumer=consumer, owner=owner, held=held, type=_type(order, consumer))
            try:
                if group and places:
                    check(group, ServerId(consumer), places)
                await rewrite(tx, [claim], before, host=host)
            except Refused as error:
                refusal = error  # nothing has been written yet, and the raised fence is kept
            else:
                if group:
                    await group_members.put(tx, group, consumer)
        if refusal:
            raise refusal

    async def hand_over(self, order: Order, giver: ConsumerId, taker: ConsumerId, owner: Owner) -> None:
        async with self._db.write() as tx:
            before = await _passed(tx, order, [giver, taker])
            if giver not in before or giver == taker:
                return
            claims = [
                Claim(consumer=giver, owner=owner, held={}),
                Claim(consumer=taker, owner=owner, held=before[giver][1], type=_type(order, taker)),
            ]
            await group_members.hand_over(tx, giver, taker)
            await rewrite(tx, claims, before, check_units=False)

    async def release(self, order: Order, consumer: ConsumerId) -> None:
        async with self._db.write() as tx:
            await _empty(tx, consumer, await _passed(tx, order, [consumer]))

    async def name_owner(self, order: Order, consumer: ConsumerId, owner: Owner) -> None:
        async with self._db.write() as tx:
            await raise_fence(tx, order)
            await allocation_queries.name_owner(tx, consumer, owner, _type(order, consumer))

    async def recount(self, order: Order, provider: ProviderId) -> None:
        async with self._db.write() as tx:
            await raise_fence(tx, order)
            await providers.lock(tx, provider)
            await allocation_queries.recount(tx, provider)
            await changes.note(tx, [provider])

    async def consumers(self, after: str | None, limit: int) -> Page[ConsumerId]:
        return await read_page(self._db, _CONSUMERS, after, limit)

    owners = reads(allocation_queries.owners)
    miscounts = reads(allocation_queries.miscounts)
    allocations = reads(allocation_queries.of_consumers)
    orders_of = reads(fences.orders_of)
    note_order = writes(fences.note_order)
    forget_fences = writes(fences.forget_fences)

    # Server groups, zones of hosts

    group_places = reads(group_members.read)
    move_group = writes(group_members.move)
    end_group_moves = writes(group_members.end_moves)
    forget_group = writes(group_members.forget)
    zone_hosts = writes(host_zones.put)
    zoned_hosts = reads(host_zones.read)
    correct_zone = writes(host_zones.correct)

    # The index

    async def provider_index(self) -> Index:
        return await self._feed.index()

    async def check_index(self, most: int = CHECKED) -> bool:
        """Compare the next providers in memory with the database; False: they differed, and all were read again."""
        return await self._feed.check(most)

    forget_changes = writes(changes.forget)

    # Claims, for the API

    async def rewrite(self, claims: Sequence[Claim]) -> None:
        async with self._db.write() as tx:
            before = await read_held(tx, [claim.consumer for claim in claims], lock=True)
            await rewrite(tx, claims, before)

    async def claim_of(self, consumer: ConsumerId) -> tuple[Consumer, Held] | None:
        async with self._db.read() as tx:
            return (await read_held(tx, [consumer])).get(consumer)

    async def claims_on(self, uuid: ProviderId) -> tuple[Provider, list[tuple[Consumer, dict[str, int]]]]:
        async with self._db.read() as tx:
            return await providers.read(tx, uuid), await allocation_queries.of_provider(tx, uuid)

    reshape = writes(reshape)
    drop = writes(_drop)
    generations = reads(allocation_queries.generations)
    usages = reads(allocation_queries.of_project)
    held_by = reads(allocation_queries.held_by)

    # Names of resource classes and traits

    known_classes = looks(CLASSES.known)
    resource_classes = reads(CLASSES.all)
    create_resource_class = writes(CLASSES.add)
    rename_resource_class = writes(CLASSES.rename)
    delete_resource_class = writes(CLASSES.delete)
    known_traits = looks(TRAITS.known)
    traits = reads(all_traits)
    create_trait = writes(TRAITS.add)
    delete_trait = writes(TRAITS.delete)


def _type(order: Order, consumer: ConsumerId) -> str:
    """Return Nova's consumer type: migration for what a run holds for itself, else instance."""
    return "MIGRATION" if consumer == ConsumerId(order.run) else "INSTANCE"
