"""Scenarios of backups, of which an older one goes only when the new one is whole; and of crash dumps."""

import msgspec

from tests.stories.lifecycle import Books, NotSo, Scenario, the_run
from tools.scenarios.incarnations import Result
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import crash_dump, create_backup, image_of_volumes
from whimbrel.sim.cloud.cloud import World


async def back_up(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await create_backup.accept(cloud, engine, requester, server, "backup", "daily", 1, {})


async def backed_up(world: World, server: Server) -> None:
    engine = world.engine("setup")
    await back_up(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)


async def image_volumes(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await image_of_volumes.accept(cloud, engine, requester, server, "of volumes", {})


async def with_snapshots(result: Result) -> Books:
    """An active image that names a snapshot of each volume; if the run was undone, nothing of it."""
    run = await the_run(result, "snapshot_volumes")
    image = await result.world.images.show(run.facts.image_id)
    assert (image.status, image.size_bytes) == ("active", 0)
    named = [one["snapshot_id"] for one in msgspec.json.decode(image.properties["block_device_mapping"])]
    assert sorted(named) == sorted(one.id for one in result.world.remains.volumes.snapshots())
    return result.before


async def one_is_kept(result: Result) -> Books:
    found = await result.world.images.with_properties({"backup_type": "daily"})
    if [image.status for image in found] != ["active"]:
        raise NotSo("one backup is kept, and it is whole")
    return result.before


async def interrupted(result: Result) -> Books:
    """As before; the interrupt shows on the console."""
    [(host, server, slot, *_)] = result.before["guests"]
    console = await result.world.hypervisors[host].console_log(GuestKey(server, slot), None)
    assert "NMI received" in console, "the guest was not interrupted"
    return result.before


BACKUPS = (
    Scenario("backup", back_up, one_is_kept, (backed_up,)),
    Scenario("image of volumes", image_volumes, with_snapshots, devices=True, on_volume=True),
    Scenario("trigger_crash_dump", crash_dump.trigger, interrupted),
)
