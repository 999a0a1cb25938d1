"""Find effects that reached the network or volume service after their run was over, for some time after each run."""

from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.steps.shelved import OFFLOADED
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.cleanup.late_effects import clean_up, clean_up_after_delete

LATEST_S, EARLIEST_S = 60.0, 240.0
"""The age of the ended runs that are checked: a stale request arrives within that time, or never."""


async def ended_lately(cloud: Cloud, *sagas: str) -> list[Run]:
    """Return the runs to check now, newest first. sagas: only these."""
    now = cloud.clock.now()
    lately = RunFilter(sagas=sagas or None, changed_since=now - EARLIEST_S, changed_before=now - LATEST_S)
    return [run for run in await cloud.journal.find(lately) if run.is_over]


async def release_late_effects(cloud: Cloud, engine: Engine) -> int:
    """Clean up the servers of recently ended runs; return for how many something is released."""
    newest = {run.subject: run for run in reversed(await ended_lately(cloud)) if _has_devices(run)}
    return sum([await _look_after(cloud, engine, run) for run in newest.values()])


def _has_devices(run: Run) -> bool:
    facts = run.facts
    if isinstance(facts, MoveFacts):
        return bool(facts.ports or facts.volumes or facts.requested_nics or facts.requested_volumes)
    return isinstance(facts, OperationFacts) and facts.devices


async def _look_after(cloud: Cloud, engine: Engine, run: Run) -> int:
    try:
        server = await _placed(cloud, run)
    except Unavailable:
        return 0  # its cell is unreachable: retry in the next round
    try:
        if server is None:
            return int(await clean_up_after_delete(run.subject, cloud))
        requester = Requester(user_id=run.user_id, project_id=run.project_id, request_id=f"req-{cloud.ids.uuid()}")
        return int(await clean_up(cloud, engine, requester, server))
    except (Conflict, Unavailable, Refused):
        return 0  # it is busy, or the use by its guest is unknown: retry in the next round


async def _placed(cloud: Cloud, run: Run) -> Server | None:
    """Return a server that has a host or left it; None: it never had one. Raises: Unavailable: its cell."""
    try:
        server = await lookup.find(cloud, run.subject)
    except NotFound:
        return None
    return server if server.host or server.vm_state == OFFLOADED else None
