"""Clear what evacuations left on their sources, once the agent of such a host answers again.

Invariant: only the guest of an evacuation that is recorded as finished is destroyed, by its server and slot. A guest
whose evacuation waits, was undone or is unknown is kept, and `whimbrel prove` shows it. (Nova destroys by the mere
existence of an evacuation, which may be the only copy.)
"""

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Refused, Unavailable, WorldError
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.run import has_facts
from whimbrel.moves.evacuation_facts import ARRIVED, CLEARED, NAME, Evacuation, EvacuationFacts
from whimbrel.moves.facts import Location, key_at, source_of
from whimbrel.moves.steps.guest import agent_at
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine

Place = tuple[CellName, HostName]


async def clear_returned_sources(cloud: Cloud, engine: Engine) -> int:
    """Destroy the stale guests on hosts that answer again; return the number of evacuations completed.

    A host that is unreachable is asked once, not for each of its guests.
    """
    incarnation = (await cloud.restores.state()).incarnation  # the journal knows that of the last run it has taken
    left = await cloud.journal.find(RunFilter(sagas=(NAME,), statuses=(ARRIVED,)))
    unreachable: set[Place] = set()
    cleared = 0
    for ended in left:
        run = replace(ended, incarnation=incarnation)
        if run.state == "done" and has_facts(run, EvacuationFacts) and _place(run) not in unreachable:
            cleared += await _clear(run, cloud, unreachable)
    return cleared


async def _clear(move: Evacuation, cloud: Cloud, unreachable: set[Place]) -> int:
    source = source_of(move)
    try:
        await agent_at(cloud, source).destroy(move.order, key_at(move, source))
    except Refused:
        return 0
    except Conflict:  # an order of before was not answered, and a later run of the server has ordered there since
        if not await _is_gone(move, cloud):
            return 0
    except Unavailable:
        if await _is_unreachable(source, cloud):
            unreachable.add(_place(move))
        return 0  # it has not returned
    await cloud.journal.set_status(move.id, ARRIVED, CLEARED, cloud.clock.now())
    return 1


async def _is_gone(move: Evacuation, cloud: Cloud) -> bool:
    source = source_of(move)
    try:
        return await agent_at(cloud, source).look(key_at(move, source)) is None
    except WorldError:
        return False


def _place(move: Evacuation) -> Place:
    source = source_of(move)
    return source.cell, source.host


async def _is_unreachable(source: Location, cloud: Cloud) -> bool:
    """Check whether nothing on a host answers, or only this guest could not be destroyed."""
    try:
        await agent_at(cloud, source).guests()
    except WorldError:
        return True
    return False
