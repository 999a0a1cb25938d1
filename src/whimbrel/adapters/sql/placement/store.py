"""The store of Placement: one method, one transaction. Fulfils the moves' port and what the API needs.

Law: a claim is checked and written in one transaction, and every write of a move passes the fence.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from random import Random

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.database import Database, Tx
from whimbrel.adapters.sql.fixed import fixed
from whimbrel.adapters.sql.placement import changes, providers
from whimbrel.adapters.sql.placement.changes import Mark
from whimbrel.adapters.sql.placement.claims import read_held, read_stocks, rewrite
from whimbrel.adapters.sql.placement.fences import forget_fences, raise_fence
from whimbrel.adapters.sql.placement.names import CLASSES, TRAITS
from whimbrel.adapters.sql.placement.reshape import reshape
from whimbrel.adapters.sql.tables import placement as tables
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, ProjectId, ProviderId, RunId, UserId
from whimbrel.domain.resources import Resources
from whimbrel.placement.errors import Duplicate
from whimbrel.placement.index import Index
from whimbrel.placement.names import standard_traits
from whimbrel.placement.provider import Claim, Consumer, Held, Node, Provider, Shape, Usage
from whimbrel.ports.placement import Allocation, Inventory, Owner, ProviderState

DISABLED = "COMPUTE_STATUS_DISABLED"

MANY = 1000
"""If more providers were changed than this, the index is made anew."""

_a, _c, _i, _p = tables.allocations.c, tables.consumers.c, tables.inventories.c, tables.providers.c

_ROOMS = fixed(
    sa.select(_p.uuid, _i.resource_class, _i.total, _i.reserved, _i.allocation_ratio, _i.used, _i.max_unit).join_from(
        tables.providers, tables.inventories, _i.provider == _p.uuid, isouter=True
    )
)
_ALLOCATIONS = sa.select(_a.consumer, _a.provider, _a.resource_class, _a.amount)
_ALLOCATIONS_OF = _ALLOCATIONS.where(_a.consumer.in_(bindparam("ids", expanding=True)))
_CLAIMS_ON = (
    sa.select(_c.uuid, _c.generation, _c.project, _c.user, _c.type, _a.resource_class, _a.amount)
    .join_from(tables.allocations, tables.consumers, _a.consumer == _c.uuid)
    .where(_a.provider == bindparam("this"))
    .order_by(_c.uuid)
)
_GENERATIONS = sa.select(_p.uuid, _p.generation).where(_p.uuid.in_(bindparam("ids", expanding=True)))
_OWNED = (_c.project == bindparam("of_project"), sa.or_(bindparam("of_user") == "", _c.user == bindparam("of_user")))
_USAGES = (
    sa.select(_c.type, _a.resource_class, sa.func.sum(_a.amount))
    .join_from(tables.consumers, tables.allocations, _a.consumer == _c.uuid)
    .where(*_OWNED)
    .group_by(_c.type, _a.resource_class)
)
_COUNTS = sa.select(_c.type, sa.func.count()).where(*_OWNED).group_by(_c.type)


class SqlPlacement:
    """Fulfils ports.placement.Placement and placement.store.Store."""

    def __init__(self, db: Database, chance: Random | None = None) -> None:
        """chance: decides in which order candidates come."""
        self._db = db
        self._dialect = db.dialect
        self._chance = chance or Random(0)
        self._index: Index | None = None
        self._mark = Mark(seen=0)
        self._refreshing = asyncio.Lock()

    # The moves' port

    async def providers(self) -> list[ProviderState]:
        free: dict[ProviderId, dict[str, int]] = {}
        capacities: dict[ProviderId, dict[str, int]] = {}
        max_units: dict[ProviderId, dict[str, int]] = {}
        async with self._db.read() as tx:
            rows = await tx.rows(_ROOMS)
            traits, aggregates = await providers.read_marks(tx)
        for uuid, name, total, reserved, ratio, used, max_unit in rows:
            if uuid not in free:
                free[uuid], capacities[uuid], max_units[uuid] = {}, {}, {}
            if name is not None:
                room = int((total - reserved) * ratio)
                free[uuid][name] = room - used
                capacities[uuid][name] = room
                max_units[uuid][name] = max_unit
        return [
            ProviderState(
                id=uuid,
                free=free[uuid],
                capacity=capacities[uuid],
                max_unit=max_units[uuid],
                traits=frozenset(traits.get(uuid, ())),
                aggregates=frozenset(aggregates.get(uuid, ())),
            )
            for uuid in free
        ]

    async def claim(
        self, order: Order, consumer: ConsumerId, owner: Owner, provider: ProviderId, want: Resources
    ) -> None:
        amounts = {name: amount for name, amount in want.items() if amount}
        held: Held = {provider: amounts} if amounts else {}
        refusal: Refused | None = None
        async with self._db.write() as tx:
            await raise_fence(tx, self._dialect, order)
            before = await self._locked(tx, [consumer])
            if consumer in before and before[consumer][1] == held:
                return
            claim = Claim(consumer=consumer, owner=owner, held=held, type=_type(order, consumer))
            try:
                await rewrite(tx, self._dialect, [claim], before)
            except Refused as error:
                refusal = error  # nothing was written yet, and the fence is to stay raised
        if refusal:
            raise refusal

    async def hand_over(self, order: Order, giver: ConsumerId, taker: ConsumerId, owner: Owner) -> None:
        async with self._db.write() as tx:
            await raise_fence(tx, self._dialect, order)
            before = await self._locked(tx, [giver, taker])
            if giver not in before or giver == taker:
                return
            claims = [
                Claim(consumer=giver, owner=owner, held={}),
                Claim(consumer=taker, owner=owner, held=before[giver][1], type=_type(order, taker)),
            ]
            await rewrite(tx, self._dialect, claims, before, check_units=False)

    async def release(self, order: Order, consumer: ConsumerId) -> None:
        async with self._db.write() as tx:
            await raise_fence(tx, self._dialect, order)
            await self._drop(tx, consumer)

    async def allocations(self, consumers: Sequence[ConsumerId] | None = None) -> list[Allocation]:
        async with self._db.read() as tx:
            if consumers is None:
                rows = await tx.rows(_ALLOCATIONS)
            else:
                rows = await tx.rows(_ALLOCATIONS_OF, {"ids": list(consumers)})
        held: dict[tuple[ConsumerId, ProviderId], dict[str, int]] = {}
        for consumer, provider, name, amount in rows:
            held.setdefault((consumer, provider), {})[name] = amount
        return [Allocation(consumer=who, provider=where, resources=what) for (who, where), what in held.items()]

    async def forget_fences(self, runs: Sequence[RunId]) -> None:
        async with self._db.write() as tx:
            await forget_fences(tx, runs)

    async def register_host(self, provider: ProviderId, name: str, inventory: dict[str, Inventory]) -> None:
        async with self._db.write() as tx:
            if await tx.row(_GENERATIONS, {"ids": [provider]}):
                await providers.rename(tx, provider, name)
            else:
                await providers.create(tx, self._dialect, provider, name, None)
            await providers.lock(tx, provider)
            stocks = await read_stocks(tx, [provider])
            # What is held of a class that the host no longer has stays held until its owner lets go.
            gone = [name for (_, name), stock in stocks.items() if name not in inventory and not stock.used]
            now = {name: stock.inventory for (_, name), stock in stocks.items()}
            if gone or any(now.get(name) != inventory[name] for name in inventory):
                await providers.delete_inventories(tx, provider, stocks, gone)
                await providers.write_inventories(tx, self._dialect, provider, inventory, now)
                await providers.bump(tx, provider)

    async def set_disabled(self, provider: ProviderId, disabled: bool) -> None:
        async with self._db.write() as tx:
            await providers.lock(tx, provider)
            if await providers.switch_trait(tx, self._dialect, provider, DISABLED, disabled):
                await providers.bump(tx, provider)

    async def set_aggregates(self, provider: ProviderId, aggregates: Sequence[str]) -> None:
        async with self._db.write() as tx:
            await providers.lock(tx, provider)
            now = await providers.read_node(tx, provider)
            if now.aggregates != frozenset(aggregates):
                await providers.write_aggregates(tx, provider, aggregates)
                await providers.bump(tx, provider)

    async def _locked(self, tx: Tx, ids: Collection[ConsumerId]) -> dict[ConsumerId, tuple[Consumer, Held]]:
        return await read_held(tx, self._dialect, ids, lock=True)

    async def _drop(self, tx: Tx, consumer: ConsumerId) -> bool:
        before = await self._locked(tx, [consumer])
        if before:
            nothing = Claim(consumer=consumer, owner=before[consumer][0].owner, held={})
            await rewrite(tx, self._dialect, [nothing], before)
        return bool(before)

    # Providers, for the API

    async def nodes(self) -> list[Node]:
        async with self._db.read() as tx:
            return await providers.read_nodes(tx)

    async def forest(self) -> Index:
        async with self._refreshing:  # what was read earlier must not be applied later
            async with self._db.read() as tx:
                touched: set[ProviderId] | None = None
                if self._index is None:
                    mark = await changes.here(tx)
                else:
                    touched, mark = await changes.since(tx, self._mark)
                few = touched is not None and len(touched) <= MANY
                nodes = await providers.read_nodes(tx, touched if few else None) if touched != set() else []
            if self._index is None or not few:
                self._index = Index(nodes, self._chance)
            elif touched:
                self._index.apply(touched, nodes)
            self._mark = mark
            return self._index

    async def forget_changes(self) -> None:
        async with self._db.write() as tx:
            await changes.forget(tx)

    async def node(self, uuid: ProviderId) -> Node:
        async with self._db.read() as tx:
            return await providers.read_node(tx, uuid)

    async def create_provider(self, uuid: ProviderId, name: str, parent: ProviderId | None) -> Provider:
        async with self._db.write() as tx:
            return await providers.create(tx, self._dialect, uuid, name, parent)

    async def rename_provider(self, uuid: ProviderId, name: str) -> Provider:
        async with self._db.write() as tx:
            return await providers.rename(tx, uuid, name)

    async def move_provider(self, uuid: ProviderId, name: str, parent: ProviderId | None, *, freely: bool) -> Provider:
        async with self._db.write() as tx:
            await providers.move(tx, self._dialect, uuid, parent, freely=freely)
            return await providers.rename(tx, uuid, name)

    async def delete_provider(self, uuid: ProviderId) -> None:
        async with self._db.write() as tx:
            await providers.delete(tx, uuid)

    async def set_inventories(
        self, uuid: ProviderId, generation: int | None, inventories: Mapping[str, Inventory]
    ) -> Node:
        async with self._db.write() as tx:
            await providers.lock(tx, uuid, generation)
            stocks = await read_stocks(tx, [uuid])
            gone = [name for _, name in stocks if name not in inventories]
            await providers.delete_inventories(tx, uuid, stocks, gone)
            now = {name: stock.inventory for (_, name), stock in stocks.items()}
            await providers.write_inventories(tx, self._dialect, uuid, inventories, now)
            await providers.bump(tx, uuid)
            return await providers.read_node(tx, uuid)

    async def add_inventory(self, uuid: ProviderId, resource_class: str, inventory: Inventory) -> Node:
        async with self._db.write() as tx:
            await providers.lock(tx, uuid)
            if (uuid, resource_class) in await read_stocks(tx, [uuid]):
                raise Duplicate(f"Update conflict: {uuid} has an inventory of {resource_class}.")
            await providers.write_inventories(tx, self._dialect, uuid, {resource_class: inventory}, {})
            await providers.bump(tx, uuid)
            return await providers.read_node(tx, uuid)

    async def change_inventory(
        self, uuid: ProviderId, generation: int, resource_class: str, inventory: Inventory
    ) -> Node:
        async with self._db.write() as tx:
            await providers.lock(tx, uuid, generation)
            stock = (await read_stocks(tx, [uuid])).get((uuid, resource_class))
            if stock is None:
                raise Refused(f"No inventory record with resource class {resource_class} on {uuid}.")
            now = {resource_class: stock.inventory}
            await providers.write_inventories(tx, self._dialect, uuid, {resource_class: inventory}, now)
            await providers.bump(tx, uuid)
            return await providers.read_node(tx, uuid)

    async def delete_inventory(self, uuid: ProviderId, resource_class: str) -> None:
        async with self._db.write() as tx:
            await providers.lock(tx, uuid)
            stocks = await read_stocks(tx, [uuid])
            if (uuid, resource_class) not in stocks:
                raise NotFound(f"No inventory of class {resource_class} found for delete on {uuid}.")
            await providers.delete_inventories(tx, uuid, stocks, [resource_class])
            await providers.bump(tx, uuid)

    async def set_traits(self, uuid: ProviderId, generation: int | None, traits: Collection[str]) -> Node:
        async with self._db.write() as tx:
            await providers.lock(tx, uuid, generation)
            await providers.write_traits(tx, self._dialect, uuid, traits)
            await providers.bump(tx, uuid)
            return await providers.read_node(tx, uuid)

    async def put_aggregates(self, uuid: ProviderId, generation: int | None, aggregates: Collection[str]) -> Node:
        async with self._db.write() as tx:
            await providers.lock(tx, uuid, generation)
            await providers.write_aggregates(tx, uuid, aggregates)
            if generation is not None:
                await providers.bump(tx, uuid)
            return await providers.read_node(tx, uuid)

    # Claims, for the API

    async def rewrite(self, claims: Sequence[Claim]) -> None:
        async with self._db.write() as tx:
            before = await self._locked(tx, [claim.consumer for claim in claims])
            await rewrite(tx, self._dialect, claims, before)

    async def reshape(self, shapes: Sequence[Shape], claims: Sequence[Claim]) -> None:
        async with self._db.write() as tx:
            await reshape(tx, self._dialect, shapes, claims)

    async def drop(self, consumer: ConsumerId) -> bool:
        async with self._db.write() as tx:
            return await self._drop(tx, consumer)

    async def claim_of(self, consumer: ConsumerId) -> tuple[Consumer, Held] | None:
        async with self._db.read() as tx:
            return (await read_held(tx, self._dialect, [consumer])).get(consumer)

    async def claims_on(self, uuid: ProviderId) -> tuple[Provider, list[tuple[Consumer, dict[str, int]]]]:
        async with self._db.read() as tx:
            provider = await providers.read(tx, uuid)
            rows = await tx.rows(_CLAIMS_ON, {"this": uuid})
        found: dict[ConsumerId, tuple[Consumer, dict[str, int]]] = {}
        for who, generation, project, user, kind, name, amount in rows:
            consumer = Consumer(id=who, generation=generation, owner=Owner(project, user), type=kind)
            found.setdefault(who, (consumer, {}))[1][name] = amount
        return provider, list(found.values())

    async def generations(self, uuids: Collection[ProviderId]) -> dict[ProviderId, int]:
        async with self._db.read() as tx:
            return {row.uuid: row.generation for row in await tx.rows(_GENERATIONS, {"ids": list(uuids)})}

    async def usages(self, project: ProjectId, user: UserId | None) -> list[Usage]:
        whose = {"of_project": project, "of_user": user or ""}
        sums: dict[str | None, dict[str, int]] = {}
        async with self._db.read() as tx:
            for kind, name, amount in await tx.rows(_USAGES, whose):
                sums.setdefault(kind, {})[name] = int(amount)
            counts = await tx.rows(_COUNTS, whose)
        return [Usage(type=kind, consumers=count, resources=sums.get(kind, {})) for kind, count in counts]

    # Names, for the API

    async def resource_classes(self) -> list[str]:
        async with self._db.read() as tx:
            return await CLASSES.all(tx)

    async def create_resource_class(self, name: str) -> bool:
        async with self._db.write() as tx:
            return await CLASSES.add(tx, self._dialect, name)

    async def rename_resource_class(self, name: str, new_name: str) -> None:
        async with self._db.write() as tx:
            await CLASSES.rename(tx, name, new_name)

    async def delete_resource_class(self, name: str) -> None:
        async with self._db.write() as tx:
            await CLASSES.delete(tx, name)

    async def traits(self, *, associated: bool | None = None) -> list[str]:
        async with self._db.read() as tx:
            if associated is True:
                return sorted(await TRAITS.used(tx))
            names = standard_traits().union(await TRAITS.all(tx))
            return sorted(names - await TRAITS.used(tx) if associated is False else names)

    async def create_trait(self, name: str) -> bool:
        async with self._db.write() as tx:
            return await TRAITS.add(tx, self._dialect, name)

    async def delete_trait(self, name: str) -> None:
        async with self._db.write() as tx:
            await TRAITS.delete(tx, name)


def _type(order: Order, consumer: ConsumerId) -> str:
    """Give Nova's word: what a run holds for itself is a migration's, all else an instance's."""
    return "MIGRATION" if consumer == ConsumerId(order.run) else "INSTANCE"
