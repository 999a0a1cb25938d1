"""The images of a story: those of snapshots that were taken and of servers that are shelved, and no others."""

from contextlib import suppress
from typing import Any

from tools.scenarios.incarnations import Result
from whimbrel.domain.errors import NotFound
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup


async def images_are_whole(result: Result) -> None:
    """A snapshot that was taken has its image, one that was undone has none; and there is no other that is new."""
    cloud, taken = result.world.cloud, set[str]()
    for run in await cloud.journal.find(RunFilter(subject=result.server.id, sagas=["snapshot", "snapshot_volumes"])):
        status = None
        with suppress(NotFound):
            image = await cloud.images.show(run.facts.image_id)
            assert (image.name, image.owner) == (run.facts.image_name, run.facts.image_owner)
            status = image.status
        assert status == ("active" if run.state == "done" else None)
        taken |= {run.facts.image_id} if status else set()
    for run in reversed(await cloud.journal.find(RunFilter(subject=result.server.id, sagas=["backup"]))):
        taken |= {run.facts.image_id} if run.state == "done" else set()
        taken -= {*run.facts.old_images} if run.state == "done" else set()
    of_images = await cloud.journal.find(RunFilter(sagas=["snapshot_volumes"]))
    named = {one.snapshot_id for run in of_images if run.state == "done" for one in run.facts.imaged_volumes}
    assert {one.id for one in result.world.remains.volumes.snapshots()} == named
    kept = await shelved_images(result)
    before = {*result.before["images"]} - {*result.server.shelved_images.values()}
    gone = {one for run in await cloud.journal.find(RunFilter(sagas=["backup"])) for one in run.facts.old_images}
    assert {*result.world.images.ids()} == (before - gone) | taken | kept


async def shelved_images(result: Result) -> set[str]:
    """Return the images that the server's record names, each seen whole."""
    try:
        record = await lookup.find(result.world.cloud, result.server.id)
    except NotFound:
        return set()
    for disk, image_id in record.shelved_images.items():
        image = await result.world.cloud.images.show(image_id)
        suffix = "" if disk == "root" else f"-{disk}"
        assert (image.status, image.name, image.owner) == ("active", f"s-shelved{suffix}", record.project_id)
    return set(record.shelved_images.values())


def without_images(held: dict[str, Any]) -> dict[str, Any]:
    """Leave out what `images_are_whole` looks after."""
    return {key: value for key, value in held.items() if key not in ("images", "snapshots")}
