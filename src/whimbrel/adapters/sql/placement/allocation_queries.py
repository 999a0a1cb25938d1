"""Queries on allocations: of consumers, of a provider, of a project; in the caller's transaction."""

from collections import Counter
from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import Insert, inserts
from whimbrel.adapters.sql.tables.placement import allocations, consumers, inventories, providers
from whimbrel.domain.ids import ConsumerId, ProjectId, ProviderId, UserId
from whimbrel.placement.provider import Consumer, Usage
from whimbrel.ports.placement.placement import Allocation, Miscount, Owner

_a, _c, _i, _p = allocations.c, consumers.c, inventories.c, providers.c

_ALL = fixed(sa.select(_a.consumer, _a.provider, _a.resource_class, _a.amount))
_OF_CONSUMERS = fixed(_ALL.where(_a.consumer.in_(bindparam("ids", expanding=True))))
_OF_PROVIDER = (
    sa.select(_c.uuid, _c.generation, _c.project, _c.user, _c.type, _a.resource_class, _a.amount)
    .join_from(allocations, consumers, _a.consumer == _c.uuid)
    .where(_a.provider == bindparam("this"))
    .order_by(_c.uuid)
)
_GENERATIONS = sa.select(_p.uuid, _p.generation).where(_p.uuid.in_(bindparam("ids", expanding=True)))
_OWNED = (_c.project == bindparam("of_project"), sa.or_(bindparam("of_user") == "", _c.user == bindparam("of_user")))
_SUMS = (
    sa.select(_c.type, _a.resource_class, sa.func.sum(_a.amount))
    .join_from(consumers, allocations, _a.consumer == _c.uuid)
    .where(*_OWNED)
    .group_by(_c.type, _a.resource_class)
)
_COUNTS = sa.select(_c.type, sa.func.count()).where(*_OWNED).group_by(_c.type)

_OWNERS = fixed(sa.select(_c.uuid, _c.project, _c.user).where(_c.uuid.in_(bindparam("ids", expanding=True))))
_HOLDS = fixed(sa.select(_a.consumer).where(_a.consumer == bindparam("this")).limit(1))


def _naming(insert: Insert) -> sa.Executable:
    new = insert.excluded
    return insert.on_conflict_do_update(
        index_elements=["uuid"],
        set_={"project": new.project, "user": new.user, "generation": _c.generation + 1},
        where=sa.or_(_c.project != new.project, _c.user != new.user),
    )


_NAME_OWNER = inserts(consumers, _naming)
_HELD = sa.func.coalesce(sa.func.sum(_a.amount), 0)
_MISCOUNTS = fixed(
    sa.select(_i.provider, _p.name, _i.resource_class, _i.used, _HELD.label("held"))
    .join_from(inventories, providers, _p.uuid == _i.provider)
    .join(
        allocations,
        sa.and_(_a.provider == _i.provider, _a.resource_class == _i.resource_class),
        isouter=True,
    )
    .group_by(_i.provider, _p.name, _i.resource_class, _i.used)
    .having(_i.used != _HELD)
    .order_by(_i.provider, _i.resource_class)
)


_UNOFFERED = fixed(
    sa.select(_a.provider, sa.func.coalesce(_p.name, _a.provider), _a.resource_class, sa.func.sum(_a.amount))
    .join_from(allocations, inventories,
               sa.and_(_a.provider == _i.provider, _a.resource_class == _i.resource_class), isouter=True)
    .join(providers, _p.uuid == _a.provider, isouter=True)
    .where(_i.provider.is_(None))
    .group_by(_a.provider, _p.name, _a.resource_class)
    .order_by(_a.provider, _a.resource_class)
)  # fmt: skip
"""Allocations without an inventory: only manual changes cause them, where foreign keys are not enforced."""


_RECOUNT = fixed(
    sa.update(inventories)
    .where(_i.provider == bindparam("this"))
    .values(
        used=sa.select(sa.func.coalesce(sa.func.sum(_a.amount), 0))
        .where(_a.provider == _i.provider, _a.resource_class == _i.resource_class)
        .scalar_subquery()
    )
)


async def owners(tx: Tx, consumers: Sequence[ConsumerId]) -> dict[ConsumerId, Owner]:
    """Return the owners of these consumers."""
    return {uuid: Owner(project, user) for uuid, project, user in await tx.rows(_OWNERS, {"ids": list(consumers)})}


async def name_owner(tx: Tx, consumer: ConsumerId, owner: Owner, kind: str) -> None:
    """Set the owner of a consumer that has allocations, also if its row is missing; a correct row is not changed."""
    if await tx.value(_HOLDS, {"this": consumer}):
        row = {"uuid": consumer, "generation": 1, "project": owner.project, "user": owner.user, "type": kind}
        await tx.run(_NAME_OWNER[tx.dialect], row)


async def miscounts(tx: Tx) -> list[Miscount]:
    """Return inventories with a usage other than the sum of their allocations, both read at the same instant."""
    unoffered = [
        Miscount(provider=provider, name=name, resource_class=what, used=0, held=int(held), is_offered=False)
        for provider, name, what, held in await tx.rows(_UNOFFERED)
    ]
    return unoffered + [
        Miscount(provider=provider, name=name, resource_class=what, used=int(used), held=int(held))
        for provider, name, what, used, held in await tx.rows(_MISCOUNTS)
    ]


async def recount(tx: Tx, provider: ProviderId) -> None:
    """Set the usage of a provider's inventories to the sum of their allocations. The provider must be locked."""
    await tx.tell(_RECOUNT, {"this": provider})


async def of_consumers(tx: Tx, consumers: Sequence[ConsumerId] | None = None) -> list[Allocation]:
    """Return the allocations of these consumers; None: all."""
    rows = await (tx.rows(_ALL) if consumers is None else tx.rows(_OF_CONSUMERS, {"ids": list(consumers)}))
    held: dict[tuple[ConsumerId, ProviderId], dict[str, int]] = {}
    for consumer, provider, name, amount in rows:
        held.setdefault((consumer, provider), {})[name] = amount
    return [Allocation(consumer=who, provider=where, resources=what) for (who, where), what in held.items()]


async def of_provider(tx: Tx, uuid: ProviderId) -> list[tuple[Consumer, dict[str, int]]]:
    """Return the consumers of a provider, and what each holds of it."""
    found: dict[ConsumerId, tuple[Consumer, dict[str, int]]] = {}
    for who, generation, project, user, kind, name, amount in await tx.rows(_OF_PROVIDER, {"this": uuid}):
        consumer = Consumer(id=who, generation=generation, owner=Owner(project, user), type=kind)
        found.setdefault(who, (consumer, {}))[1][name] = amount
    return list(found.values())


async def of_project(tx: Tx, project: ProjectId, user: UserId | None) -> list[Usage]:
    """Return the sums that a project, or one user in it, holds, by consumer type."""
    whose = {"of_project": project, "of_user": user or ""}
    sums: dict[str | None, dict[str, int]] = {}
    for kind, name, amount in await tx.rows(_SUMS, whose):
        sums.setdefault(kind, {})[name] = int(amount)
    return [
        Usage(type=kind, consumers=count, resources=sums.get(kind, {})) for kind, count in await tx.rows(_COUNTS, whose)
    ]


async def held_by(tx: Tx, project: ProjectId, user: UserId | None = None) -> dict[str, int]:
    """Return the sums that a project, or one user in it, holds, by resource class."""
    sums: Counter[str] = Counter()
    for _kind, name, amount in await tx.rows(_SUMS, {"of_project": project, "of_user": user or ""}):
        sums[name] += int(amount)
    return dict(sums)


async def generations(tx: Tx, uuids: Collection[ProviderId]) -> dict[ProviderId, int]:
    """Return the generations of these providers; missing providers are left out."""
    return dict(await tx.rows(_GENERATIONS, {"ids": list(uuids)}))
