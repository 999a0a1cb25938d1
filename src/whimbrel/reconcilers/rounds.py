"""What a conductor looks after, in two lists. Every round may be done by several conductors at once."""

from whimbrel.ports.cloud import Cloud
from whimbrel.reconcilers.expired_resizes import confirm_expired
from whimbrel.reconcilers.late_parcels import drop_late_parcels
from whimbrel.reconcilers.latecomers import let_go_latecomers
from whimbrel.reconcilers.resting_groups import rest_groups
from whimbrel.reconcilers.zoned_hosts import mend_zones
from whimbrel.saga.engine import Engine
from whimbrel.servers.delete import follow_up

ROUNDS = (
    follow_up,  # deletes that waited for a run to end
    confirm_expired,  # resizes that nobody confirmed in time
)
"""Once a second."""

SLOW_ROUNDS = (
    let_go_latecomers,  # bindings and attachments that were asked for too late
    drop_late_parcels,  # images for disks on their way, the same
    rest_groups,  # moves of server groups that came to nothing
    mend_zones,  # changes of hosts' zones that came to nothing
)
"""Once a minute."""


async def reconcile(cloud: Cloud, engine: Engine) -> None:
    for look in ROUNDS:
        await look(cloud, engine)


async def reconcile_slowly(cloud: Cloud, engine: Engine) -> None:
    for look in SLOW_ROUNDS:
        await look(cloud, engine)
