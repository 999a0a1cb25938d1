"""The rounds of conductors: every conductor runs the first list, one of them the second. Concurrent rounds are safe.

Invariant: a failure does not block others: servers in an unreachable cell are skipped.
"""

from collections.abc import Awaitable, Callable, Sequence

from whimbrel.domain.errors import WorldError
from whimbrel.maintenance.execution import carry_on_all
from whimbrel.ports.cloud import Cloud
from whimbrel.reconcilers.changed_ports import follow_changed_ports
from whimbrel.reconcilers.dead_hosts import evacuate_dead_hosts
from whimbrel.reconcilers.expired_resizes import confirm_expired
from whimbrel.reconcilers.finished_group_moves import end_group_moves
from whimbrel.reconcilers.late_effects_round import release_late_effects
from whimbrel.reconcilers.late_snapshots import drop_late_snapshots
from whimbrel.reconcilers.lost_power import follow_lost_power
from whimbrel.reconcilers.misbound_ports import rebind_misbound
from whimbrel.reconcilers.requested_images import fetch_requested_images
from whimbrel.reconcilers.returned_sources import clear_returned_sources
from whimbrel.reconcilers.shelved_servers import offload_shelved
from whimbrel.reconcilers.soft_deleted_servers import reclaim_soft_deleted
from whimbrel.reconcilers.transfer_images import drop_transfer_images
from whimbrel.reconcilers.zone_sync import repair_zones
from whimbrel.restore.watch import watch
from whimbrel.saga.engine import Engine
from whimbrel.servers.lifecycle.delete import follow_up

Round = Callable[[Cloud, Engine], Awaitable[object]]

ROUNDS: Sequence[Round] = (
    follow_up,  # deletes that waited for a run to end
    confirm_expired,  # resizes that were not confirmed in time
    carry_on_all,  # maintenances
    fetch_requested_images,  # images that administrators request on hosts ahead of their first use
)
"""Once a second."""

SLOW_ROUNDS: Sequence[Round] = (
    release_late_effects,  # bindings and attachments of stale requests
    rebind_misbound,  # ports of servers that wait for a verdict, activated elsewhere by stale requests
    drop_transfer_images,  # transfer images of stale requests
    offload_shelved,  # servers that were shelved long enough ago
    reclaim_soft_deleted,  # servers that were soft-deleted long enough ago
    drop_late_snapshots,  # images of snapshots and shelves that are over, by stale requests
    clear_returned_sources,  # guests that evacuations left on hosts that answer again
    evacuate_dead_hosts,  # if the rule evacuate_dead_hosts is set
    follow_lost_power,  # servers recorded as running with guests that are off
    follow_changed_ports,  # nics whose ports were deleted or have other addresses, without news of it
    end_group_moves,  # failed moves of server groups
    repair_zones,  # failed changes of hosts' zones
)
"""Once a minute, by one conductor."""


async def reconcile(cloud: Cloud, engine: Engine) -> None:
    """Run the first list. Raises: the first error, after all have run."""
    if not (await cloud.restores.state()).hold:  # what looks wrong may be newer than a restored database
        await _run(ROUNDS, cloud, engine)


async def reconcile_slowly(cloud: Cloud, engine: Engine) -> None:
    """Run the second list. Raises: as `reconcile`."""
    if not await watch(cloud):
        await _run(SLOW_ROUNDS, cloud, engine)


async def _run(rounds: Sequence[Round], cloud: Cloud, engine: Engine) -> None:
    troubles = []
    for run in rounds:
        try:
            await run(cloud, engine)
        except WorldError as trouble:
            troubles.append(trouble)
    if troubles:
        raise troubles[0]
