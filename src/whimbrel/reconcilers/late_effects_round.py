"""Find effects that reached the network or volume service after their run was over, for some time after each run."""

from weakref import WeakKeyDictionary

from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.evacuation_facts import CLEARED, NAME
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.steps.shelved import OFFLOADED
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.cleanup.late_effects import clean_up, clean_up_after_delete

LATEST_S, EARLIEST_S = 60.0, 240.0
"""The age of the ended runs that are checked: a stale request arrives within that time, or never."""


async def ended_lately(cloud: Cloud, *sagas: str) -> list[Run]:
    """Return the runs to check now, newest first. sagas: only these.

    An evacuation is checked again when its source has come back and is cleared: that host can be asked now.
    """
    since, before = cloud.clock.now() - EARLIEST_S, cloud.clock.now() - LATEST_S
    ended = await cloud.journal.find(RunFilter(sagas=sagas or None, ended_since=since, ended_before=before))
    if sagas and NAME not in sagas:
        return ended
    cleared = RunFilter(sagas=(NAME,), statuses=(CLEARED,), changed_since=since, changed_before=before)
    by_number = {run.number: run for run in (*ended, *await cloud.journal.find(cleared))}
    return [by_number[number] for number in sorted(by_number, reverse=True)]


_clean: WeakKeyDictionary[Engine, set[str]] = WeakKeyDictionary()
"""By conductor: the runs whose servers it found without late effects, among those that are still checked."""


async def release_late_effects(cloud: Cloud, engine: Engine) -> int:
    """Clean up the servers of recently ended runs; return for how many something is released.

    A server that was found clean is not checked again by the same conductor, until another run of it has ended.
    """
    newest = {run.subject: run for run in reversed(await ended_lately(cloud)) if _has_devices(run)}
    clean = _clean.get(engine, set()) & {run.id for run in newest.values()}
    released = 0
    for run in newest.values():
        if run.id in clean:
            continue
        is_released = await _look_after(cloud, engine, run)
        released += bool(is_released)
        if is_released is False:
            clean.add(run.id)
    _clean[engine] = clean
    return released


def _has_devices(run: Run) -> bool:
    facts = run.facts
    if isinstance(facts, MoveFacts):
        return bool(facts.ports or facts.volumes or facts.requested_nics or facts.requested_volumes)
    return isinstance(facts, OperationFacts) and facts.devices


async def _look_after(cloud: Cloud, engine: Engine, run: Run) -> bool | None:
    """Return whether something is released; None: unknown, to be checked again in the next round."""
    try:
        server = await _placed(cloud, run)
    except Unavailable:
        return None  # its cell is unreachable
    try:
        if server is None:
            return await clean_up_after_delete(run.subject, cloud)
        return await clean_up(cloud, engine, cloud.on_behalf_of(run, is_admin=False), server)
    except (Conflict, Unavailable, Refused):
        return None  # it is busy, or the use by its guest is unknown


async def _placed(cloud: Cloud, run: Run) -> Server | None:
    """Return a server that has a host or left it; None: it never had one. Raises: Unavailable: its cell."""
    try:
        server = await lookup.find(cloud, run.subject)
    except NotFound:
        return None
    return server if server.host or server.vm_state == OFFLOADED else None
