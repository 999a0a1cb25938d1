"""Scenarios of rebuilds: which image, of which server, and how it may end."""

from collections.abc import AsyncIterator
from typing import Any

from msgspec.structs import replace

from tests.stories.lifecycle import (
    Ask,
    Books,
    Meant,
    NotSo,
    Scenario,
    Set,
    as_before,
    said_to_be_broken,
    stopped,
    the_run,
)
from tools.scenarios.incarnations import Result
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import ServerId, Slot
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.services.images import Image
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import rebuild
from whimbrel.sim.cloud.cloud import SMALL, World
from whimbrel.sim.world.disk_files import to_file
from whimbrel.sim.world.disks import Contents, Disk
from whimbrel.sim.world.equipment import VOLUME

OTHER_IMAGE = "33333333-3333-4333-8333-333333333334"
TOCK = Disk(Contents("tock"), 1 << 30)
WITH_MORE_DISKS = replace(SMALL, ephemeral_gib=1, swap_mib=512)


async def another_image(world: World, server: Server) -> None:
    """Add an image that the server does not have."""
    image = Image(id=OTHER_IMAGE, name="tock", status="queued", disk_format="raw", size_bytes=0, checksum=None)
    await world.images.create(image)

    async def chunks() -> AsyncIterator[bytes]:
        yield to_file(TOCK)

    await world.images.write(OTHER_IMAGE, chunks())


async def same_image(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await rebuild.accept(cloud, engine, requester, server, {"metadata": {"rebuilt": "yes"}})


async def other_image(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    changes = {"image_id": OTHER_IMAGE, "image_properties": {"os_distro": "tock"}, "name": "renamed", "user_data": None}
    await rebuild.accept(cloud, engine, requester, server, changes)


async def reimaged(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Rebuild from another image, with the root volume made anew."""
    changes = {"image_properties": {"os_distro": "tock"}, "name": "renamed"}
    root_image = rebuild.RootImage(OTHER_IMAGE, None)
    await rebuild.accept(cloud, engine, requester, server, changes, root_image=root_image)


async def unreadable(world: World, server: Server) -> None:
    world.remains.volumes.unreadable_images.add(OTHER_IMAGE)


async def volume_in_error(world: World, server: Server) -> None:
    """Make a rebuild fail that leaves the root volume in error, and have an administrator reset the volume."""
    volumes = world.remains.volumes
    volumes.unreadable_images.add(OTHER_IMAGE)
    engine = world.engine("setup")
    await reimaged(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)
    assert (await lookup.find(world.cloud, server.id)).vm_state == "error"
    volumes.unreadable_images.clear()
    volumes.add_volume(replace(await volumes.volume(VOLUME), status="available"))


def rebuilt(vm_state: str, power: str) -> Meant:
    """On its host, with a new guest of the requested image, and all that it was asked for in its record."""

    async def meant(result: Result) -> Books:
        run = await the_run(result, "rebuild")
        [(host, server, slot, _, *sizes)] = result.before["guests"]
        world, record = result.world, await lookup.find(result.world.cloud, server)
        if run.facts.target is None:
            raise NotSo("it has no slot")
        new = GuestKey(ServerId(server), Slot(run.id))
        assert slot != run.id
        if record.has_local_root:
            disk = await world.hypervisors[host].disk(new)
            assert disk
            assert disk.contents.boots == (1 if power == "running" else 0), "it was not made anew"
            assert (disk.contents.origin == "tock") is (record.image_id == OTHER_IMAGE)
        before = replace(result.before["servers"][server], fault=None)
        changed = {"vm_state": vm_state, "slot": run.id, "launched_at": record.launched_at}
        if not record.has_local_root:
            volume = await world.remains.volumes.volume(VOLUME)
            assert (volume.image_metadata.get("image_id") == OTHER_IMAGE) is (run.facts.root_image_id is not None)
            changed["volumes"] = tuple(replace(one, host=host) for one in before.volumes)
        return {
            **result.before,
            "attachments": sorted((server, one.volume_id, host, "attached") for one in record.volumes),
            "servers": {server: replace(before, **run.facts.changes, **changed)},
            "guests": [(host, server, run.id, power, *sizes)],
            "disks": sorted(
                (at, one, run.id, name, size, f"{one} on {at}" if power == "running" else "", whole)
                for at, one, _, name, size, _, whole in result.before["disks"]
            ),
        }

    return meant


RUNNING = rebuilt("active", "running")


async def broken(result: Result) -> Books:
    """As before, or in error and off once its root volume was at risk.

    Its root volume is attached or reserved, as its record says. One in error is reserved; a late request may make it
    anew afterwards.
    """
    run = await the_run(result, "rebuild")
    [(host, server, slot, power, *sizes)] = result.before["guests"]
    before, record = result.before["servers"][server], await lookup.find(result.world.cloud, server)
    on = next(one.host for one in record.volumes if one.volume_id == VOLUME)
    is_in_error = "error" in (await result.world.cloud.volumes.volume(VOLUME)).status
    assert on in ("", host)
    assert not (on and is_in_error), "a volume in error is connected"
    held = {VOLUME: (server, VOLUME, on or None, "attached" if on else "reserved")}
    after = replace(
        before, volumes=tuple(replace(one, host=on) if one.volume_id == VOLUME else one for one in before.volumes)
    )
    if run.facts.is_root_at_risk:
        assert record.fault, "no reason is given"
        after, power = replace(after, vm_state="error", fault=record.fault), "stopped"
    return {
        **result.before,
        "servers": {server: after},
        "guests": [(host, server, slot, power, *sizes)],
        "attachments": sorted(held.get(line[1], line) for line in result.before["attachments"]),
        "disks": [(*line[:-2], "", line[-1]) for line in result.before["disks"]]
        if run.facts.is_root_at_risk
        else result.before["disks"],
    }


def _scenario(
    name: str, ask: Ask = other_image, meant: Meant = RUNNING, *, scene: tuple[Set, ...] = (), **more: Any
) -> Scenario:
    return Scenario(f"rebuild{name}", ask, meant, (*scene, another_image), **more)


REBUILDS = (
    _scenario(" from its image", same_image),
    _scenario(" from another image"),
    _scenario(" of a stopped one", meant=rebuilt("stopped", "stopped"), scene=(stopped,)),
    _scenario(" of a broken one", scene=(said_to_be_broken,)),
    _scenario(" with ports and volumes", devices=True),
    _scenario(" with a virtual function", function=True),
    _scenario(" of one on a volume", same_image, devices=True, on_volume=True),
    _scenario(" of one on a volume, made anew", reimaged, devices=True, on_volume=True, refused=broken),
    _scenario(
        " of a stopped one on a volume, made anew",
        reimaged,
        rebuilt("stopped", "stopped"),
        scene=(stopped,),
        devices=True,
        on_volume=True,
        refused=broken,
    ),
    _scenario(
        " of one on a volume that was in error",
        reimaged,
        scene=(volume_in_error,),
        devices=True,
        on_volume=True,
        refused=broken,
    ),
    _scenario(
        ", its volume cannot be made anew",
        reimaged,
        broken,
        scene=(unreadable,),
        devices=True,
        on_volume=True,
        refused=broken,
    ),
    _scenario(" in a group and a zone", bound=True),
    _scenario(" with an ephemeral and a swap disk", flavor=WITH_MORE_DISKS),
    _scenario(", its host cannot make the disk", refusing=(("h1", "create_disk"),), refused=as_before),
    _scenario(", its host does not define it", refusing=(("h1", "define"),), refused=as_before),
    _scenario(", no room", refusing=(("h1", "reserve"),), refused=as_before, function=True),
)
