"""Processes with wrong clocks in a simulated cloud, whose database has the clock of the machine."""

import sqlalchemy as sa

from whimbrel.adapters.sql.tables.global_ import processes
from whimbrel.ports.stores.processes import LEASE_S, ProcessRecord
from whimbrel.sim.cloud.cloud import World


async def enter(world: World, name: str, offset_s: float) -> None:
    """Write a conductor down as one whose clock is so far ahead of the database's."""
    record = ProcessRecord(
        id=name, role="conductor", name=name, host=f"of-{name}", pid=42, directory="/d", lock=name, release="1"
    )
    await world.cloud.processes.enter(record, LEASE_S)
    async with world.remains.databases["global"].write() as tx:
        await tx.run(sa.update(processes).where(processes.c.id == name).values(clock_offset_s=offset_s))
