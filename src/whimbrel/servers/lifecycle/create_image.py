"""createImage: upload the disk's contents to the image service under an id that is saved first.

The API registers the image before it answers, since clients read it immediately.
"""

from collections.abc import Mapping

from whimbrel.domain.errors import Superseded
from whimbrel.domain.operation_facts import Operation, OperationFacts
from whimbrel.domain.server import Server
from whimbrel.moves.steps import shelved_images
from whimbrel.moves.steps.disk import finished
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.services.images import Image
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation

STATES = ("active", "paused", "suspended", "stopped")


def image_of(run: Operation) -> str:
    assert run.facts.image_id, "the id is saved when the snapshot is accepted"
    return run.facts.image_id


async def register_image(run: Operation, cloud: Cloud) -> None:
    await register(run, cloud, "qcow2")


async def register(run: Operation, cloud: Cloud, disk_format: str, **properties: str) -> None:
    """Create the image of a run, which is not active yet. properties: besides those of the facts.

    Raises: Superseded: the run was turned back meanwhile.
    """
    image = Image(
        id=image_of(run),
        name=run.facts.image_name,
        status="queued",
        disk_format=disk_format,
        size_bytes=0,
        checksum=None,
        owner=run.facts.image_owner,
        properties={**run.facts.image_properties, **properties},
    )
    await cloud.images.create(image)
    # The image service knows no epochs: a delayed process may get here after the undo.
    if (await cloud.journal.get(run.id)).way == "back":
        await delete_image(run, cloud)
        raise Superseded(f"run {run.id} was turned back meanwhile")


async def delete_image(run: Operation, cloud: Cloud) -> None:
    await shelved_images.discard([image_of(run)], cloud)


async def upload_snapshot(run: Operation, cloud: Cloud) -> None:
    agent = operation.agent(run, cloud)
    await finished(lambda: agent.upload_snapshot(run.order, operation.key(run), image_of(run)))


async def settle_as_before(run: Operation, cloud: Cloud) -> None:
    await operation.unlock(run, cloud)


SNAPSHOT = Saga(
    "snapshot",
    1,
    OperationFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True),
        Step(register_image, undo=delete_image, in_request=True),  # clients read it as soon as they have its id
        Step(upload_snapshot, event="compute_snapshot_instance"),
        Step(settle_as_before),
    ),
)


async def accept(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, name: str, properties: Mapping[str, str]
) -> str:
    """Start a snapshot; return the id of its image. Raises: WrongState; Conflict; Unavailable."""
    image_id = cloud.ids.uuid()
    await operation.accept(
        cloud, engine, requester, server, SNAPSHOT, "createImage", "image_uploading", STATES,
        image_id=image_id, image_name=name, image_owner=server.project_id, image_properties=dict(properties),
    )  # fmt: skip
    return image_id
