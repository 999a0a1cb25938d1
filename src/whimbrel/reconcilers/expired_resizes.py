"""Confirm resizes that were not confirmed within `resize_confirm_window`, on behalf of their owners."""

from whimbrel.domain.errors import Conflict, Invalid, NotFound, Unavailable
from whimbrel.domain.run import Run
from whimbrel.moves import requests
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.ports.cloud import Cloud
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup


async def confirm_expired(cloud: Cloud, engine: Engine) -> int:
    """Confirm expired resizes; return how many."""
    window_s = cloud.rules.resize_confirm_window_s
    if not window_s:
        return 0
    waiting = await cloud.journal.expired(cloud.clock.now() - window_s)
    return sum([await _confirm(cloud, engine, run) for run in waiting if run.saga in MOVE_SAGAS])


async def _confirm(cloud: Cloud, engine: Engine, run: Run) -> int:
    requester = cloud.on_behalf_of(run)
    try:
        found = await lookup.record(cloud, run.subject)
        await requests.confirm(cloud, engine, requester, found.server, found.locked_by)
    except (Conflict, Invalid, NotFound):
        return 0  # its owner was faster
    except Unavailable:
        return 0  # its cell is unreachable: retry in the next round
    return 1
