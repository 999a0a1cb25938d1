"""Which volume is migrated to that of an attachment. Proofs report such attachments, and the clean-up leaves them."""

from whimbrel.domain.errors import NotFound
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.volumes import Attachment, Volume


async def migrated_volume(attachment: Attachment, cloud: Cloud) -> Volume | None:
    """Return the volume that is or was migrated to that of an attachment, if a guest may use either; else None.

    Only the volume service names a volume a migration's target. No guest uses a reservation left by a migration that
    has ended.
    """
    try:
        volume_id = (await cloud.volumes.volume(attachment.volume_id)).migrated_volume
        volume = await cloud.volumes.volume(volume_id) if volume_id else None
    except NotFound:
        return None
    return volume if volume and (volume.is_migrating or attachment.status != "reserved") else None
