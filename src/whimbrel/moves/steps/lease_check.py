"""Whether a run is in our hands still: asked before calls to services that know no epochs.

It makes the time small in which a conductor that slept could still do something there, not nothing: what it does then
must find nothing to change, or leave no more than reconcilers/late_effects_round.py lets go.
"""

from whimbrel.domain.errors import LockLost, NotFound, Superseded
from whimbrel.domain.run import Run
from whimbrel.ports.cloud import Cloud


async def check_in_hand(run: Run, cloud: Cloud) -> None:
    """Raises: Superseded: somebody else has taken the run over."""
    if (await cloud.journal.get(run.id)).epoch != run.epoch:
        raise Superseded(f"run {run.id} was taken over meanwhile")


async def check_lock(run: Run, cloud: Cloud) -> None:
    """Check that the record that counts is locked by this run. Raises: LockLost: it is not; Unavailable."""
    try:
        entry = await cloud.directory.entry(run.subject)
    except NotFound:
        return
    if entry.cell is None:
        return  # it lives nowhere: the open run itself is the lock
    held = (await cloud.cell(entry.cell).servers.holds([run.subject])).get(run.subject)
    if held and held.run != run.id:  # without a record the next step that needs one says so
        by = f"run {held.run} locks it" if held.run else "nothing locks it"
        raise LockLost(f"{run.saga} {run.id} does not hold the lock of server {run.subject}: {by}")


async def hold_all(because: str, cloud: Cloud) -> None:
    """Hold all runs: the database is older than what was carried out."""
    await cloud.restores.hold(because, cloud.clock.now())
