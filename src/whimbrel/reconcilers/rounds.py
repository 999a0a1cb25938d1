"""What conductors look after: each of them the first list, and one for all the second. Several may do so at once.

Law: one thing that cannot be done keeps no other one waiting: a server in a cell that is away is passed over.
"""

from collections.abc import Awaitable, Callable, Sequence

from whimbrel.domain.errors import WorldError
from whimbrel.ports.cloud import Cloud
from whimbrel.reconcilers.expired_resizes import confirm_expired
from whimbrel.reconcilers.finished_group_moves import rest_groups
from whimbrel.reconcilers.late_effects_round import release_late_effects
from whimbrel.reconcilers.late_snapshots import drop_late_snapshots
from whimbrel.reconcilers.lost_power import follow_lost_power
from whimbrel.reconcilers.misbound_ports import rebind_misbound
from whimbrel.reconcilers.transfer_images import drop_transfer_images
from whimbrel.reconcilers.zone_sync import repair_zones
from whimbrel.restore.watch import watch
from whimbrel.saga.engine import Engine
from whimbrel.servers.lifecycle.delete import follow_up

Look = Callable[[Cloud, Engine], Awaitable[object]]

ROUNDS: Sequence[Look] = (
    follow_up,  # deletes that waited for a run to end
    confirm_expired,  # resizes that nobody confirmed in time
)
"""Once a second."""

SLOW_ROUNDS: Sequence[Look] = (
    release_late_effects,  # bindings and attachments that were asked for too late
    rebind_misbound,  # ports of servers that wait for a verdict, activated elsewhere too late
    drop_transfer_images,  # images for disks on their way, the same
    drop_late_snapshots,  # images of snapshots that came to nothing, the same
    follow_lost_power,  # servers that are said to run, and whose guests are off
    rest_groups,  # moves of server groups that came to nothing
    repair_zones,  # changes of hosts' zones that came to nothing
)
"""Once a minute, by whichever conductor comes first."""


async def reconcile(cloud: Cloud, engine: Engine) -> None:
    """Raises: what the first of them met that could not do its work; the others did theirs all the same."""
    if not (await cloud.restores.state()).hold:  # what looks wrong may be newer than what is known here
        await _go_round(ROUNDS, cloud, engine)


async def reconcile_slowly(cloud: Cloud, engine: Engine) -> None:
    """Raises: as `reconcile`."""
    if not await watch(cloud):
        await _go_round(SLOW_ROUNDS, cloud, engine)


async def _go_round(looks: Sequence[Look], cloud: Cloud, engine: Engine) -> None:
    troubles = []
    for look in looks:
        try:
            await look(cloud, engine)
        except WorldError as trouble:
            troubles.append(trouble)
    if troubles:
        raise troubles[0]
