"""The hosts of a server group's members, written in the transactions of their claims.

Invariant: a claim for a member locks the group's row, before any consumer, before it reads the hosts of the other
members, and holds it until the claim is written; of two claims that together violate the rule one sees the other. A row
belongs to a consumer and is deleted with its last allocation.
"""

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import Insert, inserts, upserts
from whimbrel.adapters.sql.tables.placement import claimed_groups, group_places
from whimbrel.domain.ids import ConsumerId, GroupId, ProviderId
from whimbrel.ports.placement.placement import GroupLocations, GroupRule

_g, _p = claimed_groups.c, group_places.c


def _locking(insert: Insert) -> sa.Executable:
    """Return an update that changes nothing: it creates the row if it is missing, and locks it."""
    return insert.values(group_id=bindparam("group")).on_conflict_do_update(
        index_elements=["group_id"], set_={"group_id": insert.excluded.group_id}
    ).returning(_g.moving_to, _g.moving_since)  # fmt: skip


_LOCK = inserts(claimed_groups, _locking)
_MOVE = upserts(claimed_groups, ["group_id"], ("moving_to", "moving_since"))
_PUT = upserts(group_places, ["consumer"], ("group_id", "server", "root"))
_STATE = fixed(sa.select(_g.moving_to, _g.moving_since).where(_g.group_id == bindparam("group")))
_PLACES = fixed(sa.select(_p.server, _p.root).where(_p.group_id == bindparam("group")))
_HAND_OVER = fixed(sa.update(group_places).where(_p.consumer == bindparam("giver")).values(consumer=bindparam("taker")))
_DROP = fixed(sa.delete(group_places).where(_p.consumer.in_(bindparam("ids", expanding=True))))
_END_MOVE = fixed(
    sa.update(claimed_groups).where(_g.group_id == bindparam("group")).values(moving_to=None, moving_since=None)
)
_OLD_MOVES = fixed(
    sa.select(_g.group_id).where(_g.moving_since < bindparam("before")).order_by(_g.group_id).with_for_update()
)
_FORGET = (
    fixed(sa.delete(group_places).where(_p.group_id == bindparam("group"))),
    fixed(sa.delete(claimed_groups).where(_g.group_id == bindparam("group"))),
)


async def lock(tx: Tx, rule: GroupRule) -> GroupLocations:
    """Lock a group and return the hosts of its members. Ends a move that is over."""
    places = await _read(tx, _LOCK[tx.dialect], rule.group)
    if places.moving_to is None or places.is_moving:
        return places
    await tx.tell(_END_MOVE, {"group": rule.group})
    return GroupLocations(held=places.held)


async def read(tx: Tx, group: GroupId) -> GroupLocations:
    return await _read(tx, _STATE, group)


async def _read(tx: Tx, state: sa.Executable, group: GroupId) -> GroupLocations:
    rows, held = await tx.ask((state, {"group": group}), (_PLACES, {"group": group}))
    moving_to, since = rows[0] if rows else (None, None)
    return GroupLocations(
        held=frozenset((server, root) for server, root in held), moving_to=moving_to, moving_since=since or 0.0
    )


async def put(tx: Tx, rule: GroupRule, consumer: ConsumerId) -> None:
    """Record that a server, which has a claim, is on the rule's host."""
    row = {"consumer": consumer, "group_id": rule.group, "server": consumer, "root": rule.root}
    await tx.tell(_PUT[tx.dialect], row)


async def hand_over(tx: Tx, giver: ConsumerId, taker: ConsumerId) -> None:
    """Transfer the giver's row to the taker, replacing the taker's: both are of the same server."""
    await drop(tx, [taker])
    await tx.tell(_HAND_OVER, {"giver": giver, "taker": taker})


async def drop(tx: Tx, consumers: Collection[ConsumerId]) -> None:
    await tx.tell(_DROP, {"ids": list(consumers)})


async def move(tx: Tx, group: GroupId, to: ProviderId | None, now: float) -> None:
    since = now if to else None
    await tx.tell(_MOVE[tx.dialect], {"group_id": group, "moving_to": to, "moving_since": since})


async def end_moves(tx: Tx, before: float) -> None:
    """End old moves of groups that are on one host."""
    for (group,) in await tx.rows(_OLD_MOVES, {"before": before}):
        roots = {root for _, root in await tx.rows(_PLACES, {"group": group})}
        if len(roots) < 2:
            await tx.tell(_END_MOVE, {"group": group})


async def forget(tx: Tx, group: GroupId) -> None:
    for statement in _FORGET:
        await tx.tell(statement, {"group": group})
