"""What a conductor looks after once a second, in one list. Every round may be done by several conductors at once."""

from whimbrel.ports.cloud import Cloud
from whimbrel.reconcilers.expired_resizes import confirm_expired
from whimbrel.saga.engine import Engine
from whimbrel.servers.delete import follow_up

ROUNDS = (
    follow_up,  # deletes that waited for a run to end
    confirm_expired,  # resizes that nobody confirmed in time
)


async def reconcile(cloud: Cloud, engine: Engine) -> None:
    for look in ROUNDS:
        await look(cloud, engine)
