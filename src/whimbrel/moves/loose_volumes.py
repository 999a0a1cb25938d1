"""Volumes of a server that a revert left without a connection: it had to end without its source, which has returned."""

from whimbrel.domain.errors import Conflict
from whimbrel.domain.run import Run, has_facts
from whimbrel.domain.server import Server
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter


async def check_connected(cloud: Cloud, server: Server) -> None:
    """Check before the start of a guest that its volumes are connected to its host.

    Raises: Conflict: one is not; Unavailable.
    """
    if volume_id := await loose_volume(cloud, server):
        raise Conflict(
            f"Volume {volume_id} of instance {server.id} is connected to no host, because a revert ended without host"
            f" {server.host}: migrate the server, or offload and unshelve it if it is shelved. That connects it."
        )


async def loose_volume(cloud: Cloud, server: Server) -> str | None:
    """Return a volume that is connected to no host. Only a revert that gave up its source leaves one."""
    recorded = {device.attachment_id: device.volume_id for device in server.volumes}
    undone = RunFilter(subject=server.id, sagas=tuple(MOVE_SAGAS), states=("undone",))
    if not recorded or not any(map(_gave_up_source, await cloud.journal.find(undone))):
        return None
    held = [one for one in await cloud.volumes.attachments(server.id) if one.id in recorded]
    return min((one.volume_id for one in held if one.status == "reserved"), default=None)


def _gave_up_source(run: Run) -> bool:
    return has_facts(run, MoveFacts) and run.facts.source_lost is not None
