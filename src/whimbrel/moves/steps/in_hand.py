"""Whether a run is in our hands still: asked before calls to services that know no epochs.

It makes the time small in which a conductor that slept could still do something there, not nothing: what it does then
must find nothing to change, or leave no more than reconcilers/latecomers.py lets go.
"""

from whimbrel.domain.errors import Superseded
from whimbrel.domain.run import Run
from whimbrel.ports.cloud import Cloud


async def check_in_hand(run: Run, cloud: Cloud) -> None:
    """Raises: Superseded: somebody else has taken the run over."""
    if (await cloud.journal.get(run.id)).epoch != run.epoch:
        raise Superseded(f"run {run.id} was taken over meanwhile")
