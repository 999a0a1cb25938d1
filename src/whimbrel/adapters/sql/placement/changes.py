"""The change log of providers: appended to by every write, read by the in-memory index of every process.

Invariant: a reader misses no change and reads none twice. On SQLite there is one writer at a time, and numbers rise in
commit order. On PostgreSQL they do not: a transaction that took its number early may commit late. There a reader
remembers the numbers below its highest that it has not seen, and queries them too, until all transactions that could
have taken them have ended.

A reader's mark is valid for one PostgreSQL server. After a fail-over or a restore it is invalid, which the reader
detects by the server's start time and by the last change that it saw: it then reads all providers again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import bindparam
from sqlalchemy.dialects.postgresql import ARRAY

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.placement import changes
from whimbrel.domain.ids import ProviderId

KEPT = 100_000
"""How many changes are kept for readers that are behind; a reader that is further behind reads everything again."""

WIDE = 1000
"""A gap of more numbers is read as a range, others number by number: for these PostgreSQL always uses the index."""

_c = changes.c
_SELF: sa.ColumnElement[Any] = sa.literal_column("pg_current_xact_id()::text::bigint", sa.BigInteger)
# The transaction gets its id before its change gets a number (hence OFFSET): otherwise a reader that sees a higher
# number could take the transaction for one that has ended.
_own = (
    sa.select(sa.cast(bindparam("provider"), sa.String).label("provider"), _SELF.label("xid"))
    .offset(sa.literal_column("0"))
    .subquery()
)

NOTE = {
    "sqlite": fixed(sa.insert(changes).values(provider=bindparam("provider"), xid=0)),
    "postgresql": fixed(sa.insert(changes).from_select(["provider", "xid"], sa.select(_own.c.provider, _own.c.xid))),
}
_ordered = sa.select(_c.number, _c.provider, _c.xid).order_by(_c.number)
_FROM = {
    "sqlite": fixed(_ordered.where(_c.number >= bindparam("seen"))),
    # Without an upper bound PostgreSQL estimates a third of the table, and reads and sorts all of it.
    "postgresql": fixed(_ordered.where(_c.number.between(bindparam("seen"), bindparam("most")))),
}
_IN_GAP = fixed(sa.select(_c.number, _c.provider).where(_c.number.between(bindparam("first"), bindparam("last"))))
_IN_GAPS = fixed(
    sa.select(_c.number, _c.provider).where(_c.number == sa.any_(sa.cast(bindparam("numbers"), ARRAY(sa.BigInteger))))
)
_newest = sa.select(_c.number, _c.xid).order_by(_c.number.desc()).limit(1)
_NEWEST = fixed(_newest)
_STATE = fixed(
    sa.select(
        sa.literal_column("pg_postmaster_start_time()::text", sa.String).label("server"),
        sa.literal_column("pg_snapshot_xmin(pg_current_snapshot())::text::bigint", sa.BigInteger).label("oldest"),
        sa.func.coalesce(_newest.with_only_columns(_c.number).scalar_subquery(), 0).label("seen"),
        sa.func.coalesce(_newest.with_only_columns(_c.xid).scalar_subquery(), 0).label("xid"),
    )
)
_OWN_ID = fixed(sa.select(_SELF))
_OLDEST = fixed(sa.select(sa.func.coalesce(sa.func.min(_c.number), 1)))
_numbered = sa.select(_c.number, sa.func.lead(_c.number).over(order_by=_c.number).label("next")).subquery()
_GAPS = fixed(
    sa.select(_numbered.c.number + 1, _numbered.c.next - 1)
    .where(_numbered.c.next > _numbered.c.number + 1)
    .order_by(_numbered.c.number)
)
_SEQUENCE = "pg_get_serial_sequence('changes', 'number')"
_IS_BEHIND = sa.select(  # not fixed: fixed statements are not executed in the schema of their tables
    sa.literal_column(f"coalesce(pg_sequence_last_value({_SEQUENCE}), 0)")
    < sa.func.coalesce(sa.select(sa.func.max(_c.number)).scalar_subquery(), 0)
)
_LOCK = sa.text("LOCK TABLE changes IN SHARE ROW EXCLUSIVE MODE")
_ADVANCE = sa.text(f"SELECT setval({_SEQUENCE}, max(number)) FROM changes")
_FORGET = sa.delete(changes).where(_c.number <= bindparam("until"))


class Gap(msgspec.Struct, frozen=True):
    """Numbers, both ends included, taken by transactions whose changes were not visible yet."""

    first: int
    last: int
    before: int  # these transactions have ids below this; a snapshot's xmax is no such bound: it covers only ended ones


class Mark(msgspec.Struct, frozen=True):
    """How far a reader has read."""

    seen: int = 0  # the highest number; 0: there was none
    xid: int = 0  # of the change with that number
    server: str = ""  # the PostgreSQL server that returned it
    gaps: tuple[Gap, ...] = ()  # on PostgreSQL


async def note(tx: Tx, providers: Collection[ProviderId]) -> None:
    """Record that these providers are changed, created or deleted in this transaction."""
    if providers:
        await tx.tell(NOTE[tx.dialect], [{"provider": uuid} for uuid in sorted(providers)])


async def ensure_numbers_rise(db: Database) -> None:
    """Ensure that the next change gets a higher number than all existing ones.

    Logical replication copies the changes but not the sequence that numbers them: after a fail-over to such a copy the
    numbers would begin again.
    """
    if db.dialect == "sqlite":
        return
    async with db.look() as tx:
        if not await tx.value(_IS_BEHIND):
            return
    async with db.write() as tx:
        await tx.run(_LOCK)  # waits for all transactions that have taken a number
        if await tx.value(_IS_BEHIND):
            await tx.run(_ADVANCE)


async def here(tx: Tx) -> Mark:
    """Return the mark of a reader that reads everything in this transaction."""
    if tx.dialect == "sqlite":
        return Mark(*(await tx.row(_NEWEST) or (0, 0)))
    [[state], [oldest], gaps, [own]] = await tx.ask((_STATE, None), (_OLDEST, None), (_GAPS, None), (_OWN_ID, None))
    missing = [(1, oldest[0] - 1), *gaps]  # a number that was deleted might still be in progress too
    return Mark(state.seen, state.xid, state.server, tuple(Gap(first, last, own[0]) for first, last in missing))


async def since(tx: Tx, mark: Mark) -> tuple[set[ProviderId] | None, Mark]:
    """Return the providers changed since the mark (None: unknown), and the next mark."""
    late: Sequence[Any] = ()
    if tx.dialect == "sqlite":
        rows, state = await tx.rows(_FROM["sqlite"], {"seen": mark.seen}), None
    else:
        most = mark.seen + KEPT
        asked = (_FROM["postgresql"], {"seen": mark.seen, "most": most})
        rows, [state], *found = await tx.ask(asked, (_STATE, None), *_in(mark.gaps))
        late = [row for each in found for row in each]
        if state.server != mark.server or state.seen > most:
            return None, mark
    if mark.seen:
        if not rows or (rows[0].number, rows[0].xid) != (mark.seen, mark.xid):
            return None, mark  # deleted, or lost by restoring a database
        rows = rows[1:]
    numbers = [row.number for row in rows]
    new = msgspec.structs.replace(mark, seen=numbers[-1], xid=rows[-1].xid) if rows else mark
    if state:
        new = msgspec.structs.replace(
            new, gaps=await _gaps_after(tx, mark, numbers, sorted(row.number for row in late), state.oldest)
        )
    return {row.provider for row in (*rows, *late)}, new


async def _gaps_after(tx: Tx, mark: Mark, numbers: Sequence[int], late: Sequence[int], oldest: int) -> tuple[Gap, ...]:
    """Return the gaps after reading these new numbers, and these late ones that fill gaps."""
    gaps = list(_open(mark.gaps, oldest))
    if late:
        gaps = [piece for gap in gaps for piece in _without(gap, late)]
    if numbers and numbers[-1] - mark.seen > len(numbers):
        gaps += _without(Gap(mark.seen + 1, numbers[-1], before=await tx.value(_OWN_ID)), numbers)
    return tuple(gaps)


def _in(gaps: Sequence[Gap]) -> list[tuple[sa.Executable, Mapping[str, Any]]]:
    """Return the statements that read the changes in these gaps."""
    wide = [gap for gap in gaps if gap.last - gap.first >= WIDE]
    numbers = [n for gap in gaps if gap.last - gap.first < WIDE for n in range(gap.first, gap.last + 1)]
    asked: list[tuple[sa.Executable, Mapping[str, Any]]] = [(_IN_GAPS, {"numbers": numbers})] if numbers else []
    return asked + [(_IN_GAP, {"first": gap.first, "last": gap.last}) for gap in wide]


def _open(gaps: Sequence[Gap], oldest: int) -> tuple[Gap, ...]:
    """Drop gaps that no open transaction can fill. oldest: the id of the oldest transaction in progress."""
    return tuple(gap for gap in gaps if gap.before > oldest)


def _without(gap: Gap, numbers: Sequence[int]) -> list[Gap]:
    """Return what remains of a gap without these numbers, which are ascending."""
    inside = numbers[bisect_left(numbers, gap.first) : bisect_right(numbers, gap.last)]
    ends = zip([gap.first - 1, *inside], [*inside, gap.last + 1], strict=True)
    return [Gap(low + 1, high - 1, gap.before) for low, high in ends if low + 1 < high]


async def forget(tx: Tx, kept: int = KEPT) -> None:
    """Delete all but the newest `kept` changes."""
    newest = await tx.value(_NEWEST)
    if newest:
        await tx.run(_FORGET, {"until": newest - kept})
