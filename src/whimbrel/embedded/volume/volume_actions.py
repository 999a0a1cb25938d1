"""Actions on a volume: one URL, and a body that names the action."""

from collections.abc import Awaitable, Callable, Set
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, WrongState
from whimbrel.domain.ids import ServerId
from whimbrel.embedded.volume import images, volume_states
from whimbrel.embedded.volume.fields import Key, fitted, flag, gib
from whimbrel.embedded.volume.request import ACCEPTED, ADMINS, Call
from whimbrel.embedded.volume.service import Change
from whimbrel.embedded.volume.volumes import delete_volume
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.volume_store import AttachmentRecord, VolumeRecord

EXTEND_IN_USE_SINCE = 42


class Extension(msgspec.Struct, kw_only=True):
    new_size: int | str


class Bootable(msgspec.Struct, kw_only=True):
    bootable: bool | str


class ReadOnly(msgspec.Struct, kw_only=True):
    readonly: bool | str


class Reset(msgspec.Struct, kw_only=True):
    status: str | None = None
    attach_status: Literal["attached", "detached"] | None = None
    migration_status: str | None = None


class ForcedDetach(msgspec.Struct, kw_only=True):
    attachment_id: str | None = None
    connector: dict[str, Any] | None = None


class Retype(msgspec.Struct, kw_only=True):
    new_type: Key
    migration_policy: str | None = None


class Anything(msgspec.Struct, kw_only=True):
    pass


Action = Callable[[Call, VolumeRecord, Any], Awaitable[Reply]]


async def act(call: Call) -> Reply:
    sent = await call.body(dict[str, msgspec.Raw])
    if len(sent) != 1:
        raise Problem(400, "The body of an action names one action.")
    [(name, raw)] = sent.items()
    if name in GONE:
        record = await call.volume()  # a missing volume is reported first
        if name in DETACHING:
            for claim in await call.store.attachments(volume_ids=[record.id]):
                await check_unused(call, claim)
        raise Invalid(f"{name} is not done here: use attachments, from version 3.27 on.")
    if name not in ACTIONS:
        raise Problem(400, f"There is no such action: {name[:50]}.")
    action, kind, roles = ACTIONS[name]
    if not call.principal.roles & roles:
        raise Problem(403, f"Policy does not allow {name} to be performed.")
    record = await call.volume()
    empty = msgspec.Raw(b"{}")
    return await action(call, record, fitted(call, name, empty if bytes(raw) == b"null" else raw, kind))


async def _extend(call: Call, record: VolumeRecord, sent: Extension) -> Reply:
    size = gib(sent.new_size, "new_size")
    what = "extend in use" if call.minor >= EXTEND_IN_USE_SINCE else "extend"

    def larger(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        volume_states.check(volume, what)
        if size <= volume.size_gib:
            raise Invalid(f"The new size must be more than {volume.size_gib} GiB; it is {size} GiB.")
        return Change(replace(volume, size_gib=size, status="extending"), limits=call.service.limits)

    await call.change(record.id, larger)
    call.service.wake()
    return ACCEPTED


def _becomes(what: str, status: str) -> Action:
    """Return an action that changes only the status."""

    async def action(call: Call, record: VolumeRecord, sent: Anything) -> Reply:
        def changed(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
            volume_states.check(volume, what)
            return Change(replace(volume, status=volume_states.by_claims(claims) if status == "as held" else status))

        await call.change(record.id, changed)
        return ACCEPTED

    return action


async def _set_bootable(call: Call, record: VolumeRecord, sent: Bootable) -> Reply:
    bootable = flag(sent.bootable, "bootable")
    await call.change(record.id, lambda volume, claims: Change(replace(volume, bootable=bootable)))
    return Reply(status=200)


async def _set_readonly(call: Call, record: VolumeRecord, sent: ReadOnly) -> Reply:
    """Set the flag, and show it in the metadata: also False, once it was set."""
    readonly = flag(sent.readonly, "readonly")

    def changed(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        volume_states.check(volume, "make read-only")
        return Change(replace(volume, readonly=readonly, metadata={**volume.metadata, "readonly": str(readonly)}))

    await call.change(record.id, changed)
    return ACCEPTED


async def _reset_status(call: Call, record: VolumeRecord, sent: Reset) -> Reply:
    if sent.status is None and sent.attach_status is None and sent.migration_status is None:
        raise Invalid("os-reset_status names a status, an attach_status or a migration_status.")
    if sent.migration_status not in (None, "none"):
        raise Invalid("Volumes are not migrated here.")
    if sent.status is not None and sent.status.lower() not in volume_states.RESET_TO:
        raise Invalid(f"Invalid status: {sent.status[:50]}. It is one of {', '.join(volume_states.RESET_TO)}.")
    status = sent.status.lower() if sent.status else record.status
    detach = sent.attach_status == "detached"
    ended: list[str] = []

    def reset(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        ended[:] = [claim.export for claim in claims if detach and claim.export]
        return Change(replace(volume, status=status), detach=[claim.id for claim in claims] if detach else [])

    await call.change(record.id, reset)
    for name in ended:
        await call.service.exports.close(name)
    call.service.wake()
    return ACCEPTED


async def _force_detach(call: Call, record: VolumeRecord, sent: ForcedDetach) -> Reply:
    claims = await call.store.attachments(volume_ids=[record.id])
    ended = [claim for claim in claims if sent.attachment_id in (None, claim.id)]
    if not ended:
        raise Invalid(f"Volume {record.id} has no such attachment.")
    if len(ended) > 1:
        raise Invalid(f"Volume {record.id} is attached more than once: name the attachment_id.")
    await release(call, ended[0])
    return ACCEPTED


async def check_unused(call: Call, attachment: AttachmentRecord) -> None:
    """Raises: Conflict: a user detaches a volume in use, and could attach it elsewhere and read the guest's writes.

    An administrator may not, either: the host would keep the device. An attachment that its server does not use belongs
    to its creator. Source: CVE-2023-2088, Cinder's attachment_deletion_allowed.
    """
    server = attachment.server_id
    if call.is_from_service or not (server and attachment.connector):
        return
    if await call.service.users.uses(ServerId(server), attachment.id):
        raise Conflict(f"Detach volume {attachment.volume_id} from server {server} by the compute API.")


async def release(call: Call, attachment: AttachmentRecord) -> None:
    """Delete an attachment, closing its connection first. Idempotent. The remaining attachments determine the
    volume's state.
    """

    def released(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        left = [claim for claim in claims if claim.id != attachment.id]
        status = volume_states.by_claims(left) if volume.status in volume_states.CLAIMED else volume.status
        return Change(replace(volume, status=status), detach=[attachment.id])

    exports = call.service.exports
    if attachment.export:
        await exports.close(attachment.export)
    await call.change(attachment.volume_id, released)
    if attachment.export:
        await exports.close(attachment.export)  # the export loop may have opened it again meanwhile


async def _retype(call: Call, record: VolumeRecord, sent: Retype) -> Reply:
    """Change the type; the file stays, because all types have the same location."""
    kind = await call.service.type_called(sent.new_type, None if call.is_admin else call.project_id)

    def changed(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        volume_states.check(volume, "retype")
        if kind.multiattach != volume.multiattach and volume.status != volume_states.AVAILABLE:
            raise WrongState("Invalid volume: whether it can be attached more than once changes only while it is not.")
        return Change(replace(volume, type_id=kind.id, multiattach=kind.multiattach))

    await call.change(record.id, changed)
    return ACCEPTED


async def _force_delete(call: Call, record: VolumeRecord, sent: Anything) -> Reply:
    await delete_volume(call, record, cascade=False, force=True)
    return ACCEPTED


MEMBERS = {"member", *ADMINS}
READERS = {"reader", *MEMBERS}

ACTIONS: dict[str, tuple[Action, type, Set[str]]] = {
    "os-extend": (_extend, Extension, MEMBERS),
    "os-reserve": (_becomes("reserve", "attaching"), Anything, MEMBERS),
    "os-unreserve": (_becomes("unreserve", "as held"), Anything, MEMBERS),
    "os-begin_detaching": (_becomes("begin detaching", "detaching"), Anything, MEMBERS),
    "os-roll_detaching": (_becomes("roll detaching", "as held"), Anything, MEMBERS),
    "os-set_bootable": (_set_bootable, Bootable, MEMBERS),
    "os-update_readonly_flag": (_set_readonly, ReadOnly, MEMBERS),
    "os-retype": (_retype, Retype, MEMBERS),
    "os-volume_upload_image": (images.upload, images.Upload, MEMBERS),
    "os-reimage": (images.reimage, images.Reimage, MEMBERS),
    "os-set_image_metadata": (images.set_image_metadata, images.ImageMetadata, MEMBERS),
    "os-show_image_metadata": (images.show_image_metadata, Anything, READERS),
    "os-unset_image_metadata": (images.unset_image_metadata, images.OneKey, MEMBERS),
    "os-reset_status": (_reset_status, Reset, ADMINS),
    "os-force_detach": (_force_detach, ForcedDetach, ADMINS),
    "os-force_delete": (_force_delete, Anything, ADMINS),
}
"""Action -> its function, its body type, and the roles that permit it."""

DETACHING = ("os-detach", "os-terminate_connection")
GONE = ("os-attach", "os-initialize_connection", *DETACHING)
"""How volumes were attached before the attachments API."""
