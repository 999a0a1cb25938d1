"""Writes claims: every change of allocations goes through `rewrite`, in the caller's transaction.

Invariant: what is checked is locked before it is read, consumers first, then providers, each by uuid, so that two
writers wait for each other without deadlock (SQLite: there is one writer at a time anyway). The amounts that all claims
of one write take and release are summed: capacity is checked only where the sum rises, so that a swap needs no capacity
for both, and a consumer over capacity can shrink.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Told, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.placement import group_members
from whimbrel.adapters.sql.placement.allocation_rows import add_allocations, use
from whimbrel.adapters.sql.placement.changes import note
from whimbrel.adapters.sql.tables.placement import (
    allocations,
    consumers,
    host_zones,
    inventories,
    provider_traits,
    providers,
    resource_classes,
)
from whimbrel.domain.errors import Conflict, Refused
from whimbrel.domain.ids import ConsumerId, ProviderId
from whimbrel.placement.errors import NoRoom, Stale, UnknownName, UnknownProvider
from whimbrel.placement.inventory import Stock, unit_problem
from whimbrel.placement.provider import ANY_GENERATION, Claim, Consumer, Held
from whimbrel.placement.resource_names import STANDARD_CLASSES
from whimbrel.ports.placement.placement import DISABLED, HostRule, Inventory, Owner

Stocked = tuple[ProviderId, str]
"""A provider and a resource class: the key of an inventory."""

_a, _c, _i, _p = allocations.c, consumers.c, inventories.c, providers.c

_LOCK_CONSUMERS = fixed(
    sa.select(_c.uuid)
    .where(_c.uuid.in_(bindparam("ids", expanding=True)))
    .order_by(_c.uuid)
    .with_for_update(key_share=True)
)
LOCK_PROVIDERS = fixed(
    sa.select(_p.uuid)
    .where(_p.uuid.in_(bindparam("ids", expanding=True)))
    .order_by(_p.uuid)
    .with_for_update(key_share=True)
)
_HELD = fixed(
    sa.select(_c.uuid, _c.generation, _c.project, _c.user, _c.type, _a.provider, _a.resource_class, _a.amount)
    .join_from(consumers, allocations, _a.consumer == _c.uuid)
    .where(_c.uuid.in_(bindparam("ids", expanding=True)))
)
_STOCK = fixed(
    sa.select(
        *(_i.provider, _i.resource_class, _i.total, _i.reserved, _i.min_unit, _i.max_unit, _i.step_size),
        *(_i.allocation_ratio, _i.used),
    ).where(_i.provider.in_(bindparam("ids", expanding=True)))
)
_BUMP = fixed(
    sa.update(providers).where(_p.uuid.in_(bindparam("ids", expanding=True))).values(generation=_p.generation + 1)
)
_ADD_CONSUMER = fixed(sa.insert(consumers))
_CHANGE_CONSUMER = fixed(
    sa.update(consumers)
    .where(_c.uuid == bindparam("id"))
    .values(
        generation=_c.generation + 1,
        project=bindparam("new_project"),
        user=bindparam("new_user"),
        type=sa.func.coalesce(bindparam("new_type"), _c.type),
    )
)
_FORGET_EMPTY = fixed(
    sa.delete(consumers).where(
        _c.uuid.in_(bindparam("ids", expanding=True)), ~sa.exists().where(_a.consumer == _c.uuid)
    )
)
"""A consumer without allocations has no row, except after manual changes; the next claim must not find that row."""
_DELETE_CONSUMERS = fixed(sa.delete(consumers).where(_c.uuid.in_(bindparam("ids", expanding=True))))
_DELETE_ALLOCATIONS = fixed(sa.delete(allocations).where(_a.consumer.in_(bindparam("ids", expanding=True))))
_is_disabled = sa.exists().where(provider_traits.c.provider == bindparam("host"), provider_traits.c.trait == DISABLED)
_zone = sa.select(host_zones.c.zone).where(host_zones.c.root == bindparam("host")).scalar_subquery()
_STATE_OF_HOST = fixed(sa.select(_is_disabled.label("is_disabled"), _zone.label("zone")))
_PROVIDERS_THERE = fixed(sa.select(_p.uuid).where(_p.uuid.in_(bindparam("ids", expanding=True))))
_CLASSES_THERE = fixed(
    sa.select(resource_classes.c.name).where(resource_classes.c.name.in_(bindparam("names", expanding=True)))
)


async def read_held(
    tx: Tx, ids: Collection[ConsumerId], *, lock: bool = False
) -> dict[ConsumerId, tuple[Consumer, Held]]:
    """Return the allocations of these consumers, of those that have any. lock: nothing else may change them meanwhile.

    Raises: Conflict: a consumer was created between the lock, which found no row, and the read.
    """
    return held_of(await tx.ask(*asked_of(tx, ids, lock=lock)))


def asked_of(
    tx: Tx, ids: Collection[ConsumerId], *, lock: bool = False
) -> list[tuple[sa.Executable, Mapping[str, Any] | None]]:
    """Return the statements of `read_held`, to be sent with others."""
    these = {"ids": sorted(ids)}
    locks = [(_LOCK_CONSUMERS, these)] if lock and tx.dialect == "postgresql" else []
    return [*locks, (_HELD, these)]


def held_of(answers: Sequence[Sequence[Any]]) -> dict[ConsumerId, tuple[Consumer, Held]]:
    """Return what `read_held` does, of the answers to its statements. Raises: as `read_held`."""
    *locks, rows = answers
    locked = {row[0] for row in locks[0]} if locks else None
    found: dict[ConsumerId, tuple[Consumer, Held]] = {}
    for uuid, generation, project, user, kind, provider, name, amount in rows:
        if uuid not in found:
            found[uuid] = Consumer(id=uuid, generation=generation, owner=Owner(project, user), type=kind), {}
        found[uuid][1].setdefault(provider, {})[name] = amount
    if locked is not None and (new := sorted(found.keys() - locked)):
        raise Conflict(f"consumer {new[0]} was created by another request")
    return found


async def rewrite(
    tx: Tx,
    claims: Sequence[Claim],
    before: Mapping[ConsumerId, tuple[Consumer, Held]],
    *,
    check_units: bool = True,
    host: HostRule | None = None,
) -> None:
    """Make each claim the only claim of its consumer. before: the result of `read_held` with a lock for all of them.

    Refusals are raised before anything is written.
    check_units False: amounts that are handed over unchanged are accepted, whatever the inventories' units are now.
    host: the conditions on the claimed host.
    Raises: NoRoom; Stale; UnknownProvider; UnknownName; Conflict: the same consumer was created concurrently; Refused:
    the host is disabled or in another zone now.
    """
    claims = sorted(claims, key=lambda claim: claim.consumer)  # new consumers are inserted in lock order too
    check_generations(claims, before)
    changes = _changes(claims, [held for _, held in before.values()])
    taken = {provider for claim in claims for provider in claim.held}
    if tx.dialect == "postgresql":
        roots = {host.root} if host else set()
        await tx.tell(LOCK_PROVIDERS, {"ids": sorted(taken | roots | {provider for provider, _ in changes})})
    is_checked = bool(taken) and (check_units or any(more > 0 for more in changes.values()))
    say = tx.tell if is_checked else tx.run
    state_of_host = await say(_STATE_OF_HOST, {"host": host.root}) if host else None
    stocks = await read_stocks(tx, taken) if is_checked else {}
    if host and state_of_host:
        _check_host(host, state_of_host)
    if is_checked:
        await _check_room(tx, claims, changes, stocks)
    left = {provider for claim in claims if claim.bumps_left and not claim.held for provider in _held(claim, before)}
    await _write(tx, claims, before, changes, bumped=taken | left)
    await note(tx, taken | {provider for provider, _ in changes})


def _check_host(rule: HostRule, told: Told) -> None:
    """Raises: Refused."""
    [(is_disabled, zone)] = told.all()
    if is_disabled and not rule.may_be_disabled:
        raise Refused("The host is disabled by now.")
    if zone is not None and zone not in rule.zones:
        raise Refused("The host is in another availability zone by now, or on its way to one.")


def _held(claim: Claim, before: Mapping[ConsumerId, tuple[Consumer, Held]]) -> Held:
    return before[claim.consumer][1] if claim.consumer in before else {}


def check_generations(claims: Sequence[Claim], before: Mapping[ConsumerId, tuple[Consumer, Held]]) -> None:
    """Raises: Stale."""
    for claim in claims:
        now = before[claim.consumer][0].generation if claim.consumer in before else None
        if claim.generation in (ANY_GENERATION, now):
            continue
        expected = "null" if now is None else now
        raise Stale(
            f"consumer generation conflict - expected {expected} but got {claim.generation} (consumer {claim.consumer})"
        )


def _stocked(held: Held) -> Iterable[tuple[Stocked, int]]:
    for provider, amounts in held.items():
        for name, amount in amounts.items():
            yield (provider, name), amount


def _changes(claims: Sequence[Claim], before: Iterable[Held]) -> dict[Stocked, int]:
    """Return the total change of usage per inventory, without zeros."""
    sums: Counter[Stocked] = Counter()
    for claim in claims:
        for stocked, amount in _stocked(claim.held):
            sums[stocked] += amount
    for held in before:
        for stocked, amount in _stocked(held):
            sums[stocked] -= amount
    return {stocked: more for stocked, more in sums.items() if more}


async def _check_room(
    tx: Tx, claims: Sequence[Claim], changes: Mapping[Stocked, int], stocks: Mapping[Stocked, Stock]
) -> None:
    wanted = [each for claim in claims for each in _stocked(claim.held)]
    for stocked, _ in wanted:
        if stocked not in stocks:
            raise await _why_no_stock(tx, claims, *stocked)
    for stocked, amount in wanted:
        if problem := unit_problem(stocks[stocked].inventory, amount):
            raise _no_room(stocked, f"The requested amount would violate inventory constraints: {problem}")
    for stocked, more in changes.items():
        if more > 0 and stocks[stocked].used + more > stocks[stocked].capacity:
            free = max(stocks[stocked].capacity - stocks[stocked].used, 0)
            raise _no_room(stocked, f"The requested amount would exceed the capacity: {more} wanted, {free} free")


def _no_room(stocked: Stocked, problem: str) -> NoRoom:
    return NoRoom(f"Unable to create allocation for '{stocked[1]}' on resource provider '{stocked[0]}'. {problem}")


async def read_stocks(tx: Tx, ids: Collection[ProviderId]) -> dict[Stocked, Stock]:
    stocks: dict[Stocked, Stock] = {}
    if ids:
        for provider, name, total, reserved, low, high, step, ratio, used in await tx.rows(_STOCK, {"ids": list(ids)}):
            inventory = Inventory(
                total=total, reserved=reserved, min_unit=low, max_unit=high, step_size=step, allocation_ratio=ratio
            )
            stocks[provider, name] = Stock(inventory, used)
    return stocks


async def _why_no_stock(tx: Tx, claims: Sequence[Claim], provider: ProviderId, name: str) -> Exception:
    """Find out why there is no inventory: unknown provider, unknown class, or no inventory of this class."""
    wanted = {stocked for claim in claims for stocked, _ in _stocked(claim.held)}
    ids = {stocked[0] for stocked in wanted}
    there = {row[0] for row in await tx.rows(_PROVIDERS_THERE, {"ids": list(ids)})}
    if missing := sorted(ids - there):
        return UnknownProvider(f"Allocation for resource provider '{missing[0]}' that does not exist.")
    names = {stocked[1] for stocked in wanted} - set(STANDARD_CLASSES)
    known = {row[0] for row in await tx.rows(_CLASSES_THERE, {"names": list(names)})}
    if unknown := sorted(names - known):
        return UnknownName(f"No such resource class {unknown[0]}.")
    return NoRoom(
        f"Inventory for '{name}' on resource provider '{provider}' invalid: it has no inventory of this class"
    )


async def _write(
    tx: Tx,
    claims: Sequence[Claim],
    before: Mapping[ConsumerId, tuple[Consumer, Held]],
    changes: Mapping[Stocked, int],
    *,
    bumped: Collection[ProviderId],
) -> None:
    """Write the claims, in an order that satisfies the foreign keys."""
    if emptied := [claim.consumer for claim in claims if claim.consumer in before]:
        await tx.tell(_DELETE_ALLOCATIONS, {"ids": emptied})
    if gone := [claim.consumer for claim in claims if not claim.held and claim.consumer in before]:
        await tx.tell(_DELETE_CONSUMERS, {"ids": gone})
        await group_members.drop(tx, gone)
    if new := [claim for claim in claims if claim.held and claim.consumer not in before]:
        await tx.tell(_FORGET_EMPTY, {"ids": [claim.consumer for claim in new]})
        await tx.tell(_ADD_CONSUMER, [_new_consumer(claim) for claim in new])
    if changed := [claim for claim in claims if claim.held and claim.consumer in before]:
        await tx.tell(_CHANGE_CONSUMER, [_changed_consumer(claim) for claim in changed])
    if changes:
        used = [{"at": at, "of": of, "more": more} for (at, of), more in sorted(changes.items())]
        await use(tx, used)
    if any(claim.held for claim in claims):
        rows = [
            {"consumer": claim.consumer, "provider": provider, "resource_class": name, "amount": amount}
            for claim in claims
            for (provider, name), amount in _stocked(claim.held)
        ]
        await add_allocations(tx, rows)
    if bumped:
        await tx.tell(_BUMP, {"ids": list(bumped)})


def _new_consumer(claim: Claim) -> dict[str, object]:
    owner = claim.owner
    return {
        "uuid": claim.consumer, "generation": 1, "project": owner.project, "user": owner.user, "type": claim.type
    }  # fmt: skip


def _changed_consumer(claim: Claim) -> dict[str, object]:
    owner = claim.owner
    return {
        "id": claim.consumer, "new_project": owner.project, "new_user": owner.user, "new_type": claim.type
    }  # fmt: skip
