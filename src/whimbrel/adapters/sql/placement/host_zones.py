"""The zone of each host as recorded in placement: claims that require a zone are checked against it.

Invariant: a claim that requires a zone, and a change of a host's zone, lock the host's provider before they read it
until they commit; of a claim that requires the old zone and the change one sees the other.
"""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import inserts
from whimbrel.adapters.sql.placement.claims import LOCK_PROVIDERS
from whimbrel.adapters.sql.tables.placement import allocations, host_zones, providers
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.errors import HostInUse
from whimbrel.ports.placement.placement import HostZone

_z, _p, _a = host_zones.c, providers.c, allocations.c
_PUT = inserts(
    host_zones,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["root"], set_={"zone": insert.excluded.zone, "version": _z.version + 1}
    ),
)
_ALL = fixed(sa.select(_z.root, _z.zone, _z.version).order_by(_z.root))
_CORRECT = fixed(
    sa.update(host_zones)
    .where(_z.root == bindparam("host"), _z.version == bindparam("seen"))
    .values(zone=bindparam("right"), version=_z.version + 1)
)
_THERE = fixed(sa.select(_p.uuid, _p.name).where(_p.uuid.in_(bindparam("ids", expanding=True))))
_HELD = fixed(
    sa.select(_p.root)
    .join_from(providers, allocations, _a.provider == _p.uuid)
    .where(_p.root.in_(bindparam("ids", expanding=True)))
    .order_by(_p.root)
    .limit(1)
)


async def put(tx: Tx, of_hosts: Mapping[ProviderId, str]) -> None:
    """Record the zones of these hosts. Raises: HostInUse."""
    ids = {"ids": sorted(of_hosts)}
    if tx.dialect == "postgresql":
        await tx.tell(LOCK_PROVIDERS, ids)
    names = dict(map(tuple, await tx.rows(_THERE, ids)))
    if held := await tx.value(_HELD, ids):
        raise HostInUse(
            "One or more hosts contain instances in this zone"
            f" ({names[held]} is in use, or was given to a server just now)."
        )
    if names:
        await tx.run(_PUT[tx.dialect], [{"root": root, "zone": of_hosts[root], "version": 1} for root in sorted(names)])


async def correct(tx: Tx, was: HostZone, zone: str) -> None:
    await tx.run(_CORRECT, {"host": was.root, "seen": was.version, "right": zone})


async def read(tx: Tx) -> list[HostZone]:
    return [HostZone(root=root, zone=zone, version=version) for root, zone, version in await tx.rows(_ALL)]
