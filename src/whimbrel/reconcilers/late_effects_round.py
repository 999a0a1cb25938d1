"""What reached the network or the volume service after its run was over: looked for a while after each such run."""

from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.cleanup.late_effects import clean_up, clean_up_after_delete

LATEST_S, EARLIEST_S = 60.0, 240.0
"""How long ago a run ended that is looked after: a request that nobody waits for arrives within that time, or never."""


async def ended_lately(cloud: Cloud, *sagas: str) -> list[Run]:
    """Give the runs that are to be looked after now, the newest first. sagas: of these only."""
    now = cloud.clock.now()
    lately = RunFilter(sagas=sagas or None, changed_since=now - EARLIEST_S, changed_before=now - LATEST_S)
    return [run for run in await cloud.journal.find(lately) if run.is_over]


async def release_late_effects(cloud: Cloud, engine: Engine) -> int:
    """Look at the servers whose runs ended lately; give for how many of them something is let go."""
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
        return 0  # its cell is away: the next round sees
    try:
        if server is None:
            return int(await clean_up_after_delete(run.subject, cloud))
        requester = Requester(user_id=run.user_id, project_id=run.project_id, request_id=f"req-{cloud.ids.uuid()}")
        return int(await clean_up(cloud, engine, requester, server))
    except (Conflict, Unavailable, Refused):
        return 0  # it is busy, or nobody says what its guest uses: the next round sees


async def _placed(cloud: Cloud, run: Run) -> Server | None:
    """Give a server that lives somewhere; None: it does not, and never will again. Raises: Unavailable: its cell."""
    try:
        server = await lookup.find(cloud, run.subject)
    except NotFound:
        return None
    return server if server.host else None
