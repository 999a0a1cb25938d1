"""Steps that rewrite a record from the only whole guest. Each is idempotent.

Invariant: the guest is found whole just before, and no record is erased before the directory names the other one.
"""

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.cloud import Cloud
from whimbrel.proof.invariants.guests import is_whole
from whimbrel.repair.facts import Repair
from whimbrel.repair.record_rewrite import Settled


async def settle_record(run: Repair, cloud: Cloud) -> None:
    """Write the record in the cell of the guest. Raises: Refused: the guest is not whole."""
    facts = run.facts
    settled = _settled(run)
    await check_whole(settled.cell, settled.host, GuestKey(run.subject, settled.slot), cloud)
    if facts.left_cell and not await _is_entered(run, cloud):
        await _copy(run, cloud)
    else:
        await cloud.cell(settled.cell).servers.change_by_run(run.order, run.subject, settled.fields)


async def check_whole(cell: CellName, host: HostName, key: GuestKey, cloud: Cloud) -> None:
    """Raises: Refused: the guest does not exist, or is not whole."""
    guest = await cloud.agent(cell, host).look(key)
    if guest is None or not is_whole(guest):
        raise Refused(f"the guest on {host} is not seen whole; the record is not changed")


async def _is_entered(run: Repair, cloud: Cloud) -> bool:
    """Check whether this run wrote the copy and the directory names it: its owner may have changed it since."""
    settled = _settled(run)
    held = (await cloud.cell(settled.cell).servers.holds([run.subject])).get(run.subject)
    entry = await cloud.directory.entry(run.subject)
    return entry.cell == settled.cell and held is not None and held.run == run.id


async def _copy(run: Repair, cloud: Cloud) -> None:
    """Freeze the record and write a copy into the cell of the guest."""
    facts, settled = run.facts, _settled(run)
    assert facts.left_cell, "asked before"
    record = await cloud.cell(facts.left_cell).servers.stand(run.order, run.subject, "frozen")
    copy = replace(record, generation=record.generation + 1, **settled.fields)
    await cloud.cell(settled.cell).servers.insert(run.order, copy)


async def enter_cell(run: Repair, cloud: Cloud) -> None:
    """Set the directory to the cell of the record."""
    settled, entry = _settled(run), await cloud.directory.entry(run.subject)
    if entry.unplaced:
        await cloud.directory.place(run.order, run.subject, settled.cell, entry.unplaced.generation)
    else:
        await cloud.directory.switch(run.order, run.subject, settled.cell)
    await cloud.cell(settled.cell).servers.stand(run.order, run.subject, "whole")


async def erase_left(run: Repair, cloud: Cloud) -> None:
    """Erase the older record. Raises: Refused: the directory does not name the other one."""
    facts = run.facts
    assert facts.left_cell
    if not await _is_entered(run, cloud):
        raise Refused(f"the directory does not name the record of cell {facts.cell}; none is erased")
    await cloud.cell(facts.left_cell).servers.erase(run.order, run.subject)


def _settled(run: Repair) -> Settled:
    facts = run.facts
    assert facts.settled, "it was decided before"
    return facts.settled
