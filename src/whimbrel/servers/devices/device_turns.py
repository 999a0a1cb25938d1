"""Turns of the operations on a server's devices: each waits until those that were accepted before it are over.

Invariant: an operation is accepted knowing exactly which others are before it, and a record at least as new as that
knowledge. What it will find at its turn is checked again under the server's lock.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from whimbrel.domain.errors import Busy
from whimbrel.domain.ids import ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup

SAGAS = (
    "attach_volume", "detach_volume", "change_volume", "extend_volume", "swap_volume",
    "take_volume_snapshot", "merge_volume_files", "attach_interface", "detach_interface",
)  # fmt: skip

ASKING_FOR_SNAPSHOTS = ("snapshot_volumes",)
"""What the volume service acts upon by requests of its own, which then wait behind it."""

ATTEMPTS = 50
"""The limit of attempts to record an operation while others are accepted."""
PAUSE_S = 0.02
"""Between attempts: SQLite shows a run to readers only when the writers that wait have been served."""

MOST_WAITING = 64
"""The limit of open operations on a server, the one under way included."""

Result = TypeVar("Result")


async def before_next(cloud: Cloud, server_id: ServerId) -> list[Run]:
    """List the open runs of a server in the order in which they take effect."""
    found = await cloud.journal.find(RunFilter(subject=server_id, only_open=True))
    return sorted((run for run in found if run.state == "open"), key=lambda run: (run.queued, run.number))


async def take(
    cloud: Cloud,
    server: Server,
    accept: Callable[[Server, Sequence[Run]], Awaitable[Result]],
    *,
    look_first: bool = False,
    also_behind: Collection[str] = (),
) -> Result:
    """Accept an operation behind the others of this server. accept: called with its record and the runs before it.

    also_behind: sagas of other runs behind which it may wait.
    look_first: the record may be outdated by an operation. Otherwise the runs are read only if there are any.
    Raises: Busy: something else is under way; what `accept` raises.
    """
    before: list[Run] = []
    for attempt in range(ATTEMPTS):
        if attempt > 1:
            await cloud.clock.sleep(PAUSE_S)
        if look_first:
            before = await before_next(cloud, server.id)
            if any(run.saga not in (*SAGAS, *also_behind) or run.is_foreign or run.problem for run in before):
                raise Busy(f"Something else is under way on server {server.id}.")
            if len(before) >= MOST_WAITING:
                raise Busy(f"{len(before)} operations on the devices of server {server.id} are not over yet.")
            server = await lookup.find(cloud, server.id)  # after the runs: what is over is in it
        try:
            return await accept(server, before)
        except Busy:
            look_first = True
    raise Busy(f"Server {server.id} is changed all the time.")
