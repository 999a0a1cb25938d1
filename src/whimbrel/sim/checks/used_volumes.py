"""What guests use of volumes that the volume service migrates, or of which it takes snapshots: checked at rest."""

from collections.abc import AsyncIterator, Collection, Iterator

from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, Slot
from whimbrel.domain.server import Server
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.servers.lookup import listing
from whimbrel.sim.cloud.cloud import World


async def problems(world: World, given_up: Collection[str], *, is_restored: bool = False) -> list[str]:
    """Return what has not ended, and which guests use another volume or file than the service says.

    given_up: volumes of which the service does not know the files. is_restored: requests of the service may be in no
    database that is left, so that it waits for good.
    """
    found = [] if is_restored else list(_unended(world))
    for server in await listing(world.cloud, ServerQuery()):
        if server.host:
            found += [problem async for problem in _differing(world, server, given_up)]
    return found


def _unended(world: World) -> Iterator[str]:
    volumes = world.remains.volumes
    for volume_id, status in volumes.migrations().items():
        if status not in ("success", "error"):
            yield f"the migration of volume {volume_id} has not ended: {status}"
    for snapshot in volumes.snapshots():
        if snapshot.status in ("creating", "deleting"):
            yield f"snapshot {snapshot.id} of volume {snapshot.volume_id} is {snapshot.status} for good"


async def _differing(world: World, server: Server, given_up: Collection[str]) -> AsyncIterator[str]:
    volumes, host = world.remains.volumes, world.hypervisors[HostName(server.host or "")]
    key = GuestKey(server.id, Slot(server.slot or ""))
    used = {one.volume_id: one for one in host.volumes_of(key)}
    for device in server.volumes:
        here = used.get(device.volume_id)
        if here is None:
            continue  # an invariant of proofs says so
        connection = (await volumes.attachment(device.attachment_id)).connection
        uses, due = (one["data"]["volume_id"] for one in (here.connection, connection))
        if uses != due:
            yield f"the guest of {server.id} uses volume {uses} as {device.volume_id}, which is {due}"
        active = volumes.active_file(device.volume_id) or device.volume_id
        file = (await host.files_of(key, device.volume_id))[0]
        if file != active and device.volume_id not in given_up:
            yield f"the guest of {server.id} writes to file {file} of volume {device.volume_id}, and not to {active}"
