"""An operator restores a cloud, as `whimbrel restore` does: hold all runs, repair the cloud, resume the runs."""

from collections.abc import Awaitable, Callable

from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import Conflict, WorldError
from whimbrel.domain.ids import ServerId
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.repair.service import repair, survey
from whimbrel.restore import restore as service
from whimbrel.saga.engine import Engine

REPAIRS = 6
"""Maximum number of repair plans."""


class Unsettled(Exception):
    """The restore cannot end yet, although nothing is left to a person."""


async def restore(
    cloud: Cloud, engine: Engine, requester: Callable[[], Requester], wait: Callable[[], Awaitable[None]]
) -> list[str]:
    """Perform a restore; return the problems that it cannot solve, as sentences. Repeatable.

    requester: returns the requester of a repair, with a new request id. wait: waits until a repair can have ended.
    The restore ends even if problems are left.
    Raises: Unsettled; WorldError: something does not answer.
    """
    await service.begin(cloud, "databases were restored")
    await service.close_overtaken(cloud, SAGAS)
    left: list[str] = []
    for _ in range(REPAIRS):
        _, findings = await survey(cloud)
        left = [words for finding in findings for words in finding.plan.left]
        wanted = [ServerId(finding.subject) for finding in findings if finding.plan.actions]
        if not wanted:
            break
        for subject in wanted:
            try:
                await repair(cloud, engine, requester(), subject)
            except (Conflict, WorldError):
                continue
            await wait()
    if unsettled := await service.end(cloud, SAGAS, force=bool(left)):
        raise Unsettled("; ".join(unsettled.reasons))
    return left
