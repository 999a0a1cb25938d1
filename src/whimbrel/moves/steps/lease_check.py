"""Checks that a run still has its epoch and its lock, made before calls to services that do not check epochs.

They shorten the time in which a delayed conductor can still change something there, but not to zero: what it then does
must find nothing to change, or leave no more than reconcilers/late_effects_round.py cleans up.
"""

from whimbrel.domain.errors import LockLost, NotFound, Superseded
from whimbrel.domain.run import Run
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.pages import Hold


async def check_epoch(run: Run, cloud: Cloud) -> None:
    """Raises: Superseded: another engine has taken the run over."""
    if (await cloud.journal.get(run.id)).epoch != run.epoch:
        raise Superseded(f"run {run.id} was taken over meanwhile")


async def lock_of(run: Run, cloud: Cloud) -> Hold | None:
    """Return the lock of the home record; None: there is no record in a cell. Raises: Unavailable."""
    try:
        entry = await cloud.directory.entry(run.subject)
    except NotFound:
        return None
    if entry.cell is None:
        return None  # it has no cell: the open run itself is the lock
    return (await cloud.cell(entry.cell).servers.holds([run.subject])).get(run.subject)


async def check_lock(run: Run, cloud: Cloud) -> None:
    """Check that the home record is locked by this run. Raises: LockLost: it is not; Superseded; Unavailable."""
    held = await lock_of(run, cloud)
    if held and held.run != run.id:  # a missing record is reported by the next step that needs it
        await check_epoch(run, cloud)  # if it was, its new owner may have ended it, and there is nothing to stop
        by = f"run {held.run} locks it" if held.run else "nothing locks it"
        raise LockLost(f"{run.saga} {run.id} does not hold the lock of server {run.subject}: {by}")


async def hold_all(because: str, cloud: Cloud) -> None:
    """Hold all runs: the database is older than the effects of a run."""
    await cloud.restores.hold(because, cloud.clock.now())
