"""createBackup: a snapshot that is one of a series of the server, of which only the newest are kept.

Invariant: an older backup is deleted only when the new one is active.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from whimbrel.domain.operation_facts import Operation, OperationFacts
from whimbrel.domain.server import Server
from whimbrel.moves.steps import shelved_images
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation
from whimbrel.servers.lifecycle.create_image import (
    STATES,
    delete_image,
    register_image,
    settle_as_before,
    upload_snapshot,
)

BACKUP_KEYS = ("image_type", "instance_uuid", "backup_type")
"""Properties that the backups of one series share."""


async def choose_old(run: Operation, cloud: Cloud) -> OperationFacts:
    """Choose the backups of this series beyond the number to keep: the oldest ones."""
    facts = run.facts
    series = {key: facts.image_properties[key] for key in BACKUP_KEYS}
    found = await cloud.images.with_properties(series)
    kept = [image.id for image in found if image.owner == facts.image_owner and image.status == "active"]
    return replace(facts, old_images=tuple(kept[facts.rotation :]))


async def delete_old(run: Operation, cloud: Cloud) -> None:
    await shelved_images.discard(run.facts.old_images, cloud)


_EVENT = "compute_backup_instance"

BACKUP = Saga(
    "backup",
    1,
    OperationFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True),
        Step(register_image, undo=delete_image, in_request=True),  # clients read it as soon as they have its id
        Step(upload_snapshot, event=_EVENT),
    ),
    forward_only=(
        Step(choose_old, passive=True),
        Step(delete_old, event=_EVENT),
        Step(settle_as_before),
    ),
)


async def accept(
    cloud: Cloud,
    engine: Engine,
    requester: Requester,
    server: Server,
    name: str,
    backup_type: str,
    rotation: int,
    properties: Mapping[str, str],
) -> str:
    """Start a backup; return the id of its image. rotation: how many of its type are kept.

    Raises: WrongState; Conflict; Unavailable.
    """
    image_id = cloud.ids.uuid()
    series = {"image_type": "backup", "instance_uuid": server.id, "backup_type": backup_type}
    await operation.accept(
        cloud, engine, requester, server, BACKUP, "createBackup", "image_backup", STATES,
        image_id=image_id, image_name=name, image_owner=server.project_id,
        image_properties={**properties, **series}, rotation=rotation,
    )  # fmt: skip
    return image_id
