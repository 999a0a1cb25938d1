"""Attachments: a server reserves a volume, connects it to a host, confirms its use, and releases it.

Invariant: a volume's state and its attachments change together. An export is recorded before it is opened.
The server of an attachment is not verified, as in Cinder: its creator claims it. But while a volume is connected, only
administrators connect it to another host, by a new attachment, and only the cloud's services delete the connected one:
that is how servers move.
"""

import secrets
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, NotFound, Refused, WrongState
from whimbrel.embedded.volume import views, volume_states
from whimbrel.embedded.volume.fields import Uuid, wrapped
from whimbrel.embedded.volume.queries import of_attachments
from whimbrel.embedded.volume.request import Call
from whimbrel.embedded.volume.service import Change
from whimbrel.embedded.volume.volume_actions import check_unused, release
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.volume_store import AttachmentRecord, VolumeRecord

SINCE = 27
COMPLETE_SINCE = 44
MODE_SINCE = 54
SECRET_BYTES = 24

Mode = Literal["rw", "ro"]
Connector = Annotated[dict[str, Any], Meta(max_length=100)]


class NewAttachment(msgspec.Struct, kw_only=True):
    volume_uuid: Uuid
    instance_uuid: Uuid | None = None
    connector: Connector | None = None
    mode: Mode | None = None


class Connection(msgspec.Struct, kw_only=True):
    connector: Connector


async def create(call: Call) -> Reply:
    sent = await wrapped(call, "attachment", NewAttachment)
    if sent.mode and call.minor < MODE_SINCE:
        raise Invalid(f"An attachment is created with a mode from version 3.{MODE_SINCE} on.")
    volume = await call.volume(sent.volume_uuid)
    connector = _checked(sent.connector) if sent.connector else None
    made = AttachmentRecord(
        id=call.service.ids.uuid(),
        volume_id=volume.id,
        project_id=volume.project_id,
        server_id=sent.instance_uuid,
        status="reserved",
        mode=sent.mode,
        created_at=call.service.clock.now(),
    )

    def reserve(now: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        if connector and not call.is_admin:
            _check_alone(now, claims, made, call)
        return _reserved(now, claims, made)

    await call.change(volume.id, reserve)
    shown = await _connected(call, made, connector, beside_others=True) if connector else made
    return Reply({"attachment": views.attachment(shown)})


def _reserved(volume: VolumeRecord, claims: list[AttachmentRecord], made: AttachmentRecord) -> Change:
    """Add a claim. A server may claim its volume once more, for a move. Raises: WrongState; Invalid."""
    again = made.server_id is not None and any(claim.server_id == made.server_id for claim in claims)
    if not (again and volume.status in volume_states.ATTACHED_AGAIN):
        volume_states.check(volume, "attach more" if volume.multiattach else "attach once")
    if volume.readonly and made.mode == "rw":
        raise Invalid(f"Invalid volume: volume {volume.id} is read-only and cannot be attached with mode rw.")
    status = volume.status if again and volume.status == "in-use" else "reserved"
    return Change(replace(volume, status=status), attach=[made])


async def update(call: Call) -> Reply:
    sent = await wrapped(call, "attachment", Connection)
    attachment = await call.attachment()
    if not sent.connector:
        raise Problem(400, "The connector is empty: it must describe the host that uses the volume.")
    return Reply({"attachment": views.attachment(await _connected(call, attachment, _checked(sent.connector)))})


async def _connected(
    call: Call, attachment: AttachmentRecord, connector: dict[str, Any], *, beside_others: bool = False
) -> AttachmentRecord:
    """Export a volume for an attachment: the connection is recorded first, then opened.

    beside_others: the volume may be connected by other attachments, too.
    Raises: Conflict: a concurrent connection; NotFound: it was released concurrently.
    """
    exports = call.service.exports
    secret = attachment.export or f"{attachment.volume_id}-{secrets.token_hex(SECRET_BYTES // 2)}"
    reached = await exports.reach(secret)
    connecting: list[AttachmentRecord] = []

    def connect(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        found = _claim(claims, attachment.id)
        if not beside_others:
            _check_alone(volume, claims, found, call)
        _check_connector(volume, found, connector)
        if found.export not in ("", secret):
            raise Conflict(f"Attachment {found.id} is being connected: retry.")
        mode: str = "ro" if volume.readonly else found.mode or connector.get("mode") or "rw"
        now = replace(
            found,
            status="attaching",
            mode=mode,
            connector=connector,
            export=secret,
            host=connector.get("host"),
            device=connector.get("mountpoint"),
            attached_at=found.attached_at or call.service.clock.now(),
        )
        now = replace(now, connection={**reached, "data": {**reached["data"], **_described(now)}})
        connecting[:] = [now]
        return _with(volume, now, "attaching")

    def forget(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        return Change(volume, attach=[replace(_claim(claims, attachment.id), connection=None)])

    await call.change(attachment.volume_id, connect)
    try:
        await exports.open(call.service.export(connecting[0]))
        await call.store.find_attachment(attachment.id)
    except NotFound:
        await exports.close(secret)
        raise
    except Refused:  # it must not be recorded as exported
        await call.service.change(attachment.volume_id, forget)
        raise
    return connecting[0]


def _described(attachment: AttachmentRecord) -> dict[str, Any]:
    return {"volume_id": attachment.volume_id, "access_mode": attachment.mode, "encrypted": False, "qos_specs": None}


async def act(call: Call) -> Reply:
    sent = await call.body(dict[str, Any])
    if list(sent) != ["os-complete"] or call.minor < COMPLETE_SINCE:
        raise Problem(400 if list(sent) != ["os-complete"] else 404, "There is no such action on attachments.")
    attachment = await call.attachment()  # also one without a connector, as in Cinder: of a server on no host

    def completed(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        return _with(volume, replace(_claim(claims, attachment.id), status="attached"), "in-use")

    await call.change(attachment.volume_id, completed)
    return Reply(status=204)


async def delete(call: Call) -> Reply:
    attachment = await call.attachment()
    await check_unused(call, attachment)
    await release(call, attachment)
    left = await call.store.attachments(volume_ids=[attachment.volume_id])
    return Reply({"attachments": [views.attachment_summary(each) for each in left]})


async def show(call: Call) -> Reply:
    return Reply({"attachment": views.attachment(await call.attachment())})


async def search(call: Call) -> Reply:
    return Reply({"attachments": [views.attachment_summary(each) for each in await _found(call)]})


async def search_detail(call: Call) -> Reply:
    return Reply({"attachments": [views.attachment(each) for each in await _found(call)]})


async def _found(call: Call) -> list[AttachmentRecord]:
    return await call.store.attachment_page(await of_attachments(call))


def _claim(claims: list[AttachmentRecord], attachment_id: str) -> AttachmentRecord:
    for claim in claims:
        if claim.id == attachment_id:
            return claim
    raise Problem(404, f"Volume attachment {attachment_id} could not be found.")


def _with(volume: VolumeRecord, changed: AttachmentRecord, status: str) -> Change:
    """Return the change of one attachment and of the volume's status, unless another operation has that."""
    status = status if volume.status in volume_states.CLAIMED else volume.status
    return Change(replace(volume, status=status), attach=[changed])


def _checked(connector: dict[str, Any]) -> dict[str, Any]:
    """Raises: Invalid: a field that is used here is not a text."""
    for name in ("host", "mountpoint"):
        value = connector.get(name)
        if value is not None and not (isinstance(value, str) and len(value) <= 255):
            raise Invalid(f"Invalid input for connector: {name} is a text of at most 255 characters.")
    if connector.get("mode") not in (None, "rw", "ro"):
        raise Invalid("Invalid input for connector: mode is rw or ro.")
    return connector


def _check_alone(volume: VolumeRecord, claims: list[AttachmentRecord], found: AttachmentRecord, call: Call) -> None:
    """Raises: Conflict: it is connected elsewhere, or a user connects again what a server uses.

    Source: Cinder's attachment_update.
    """
    if found.server_id and found.connector and not call.is_admin:
        raise Conflict(f"Attachment {found.id} is in use by server {found.server_id}: use the compute API.")
    if not volume.multiattach and any(claim.connector for claim in claims if claim.id != found.id):
        raise Conflict(f"Duplicate connectors detected on volume {volume.id}: it is connected by another attachment.")


def _check_connector(volume: VolumeRecord, found: AttachmentRecord, connector: dict[str, Any]) -> None:
    """Check that a volume can be connected.

    Raises: WrongState: it is in error, or an image is written into it; Invalid: read-write access, and it is read-only.
    """
    if "error" in volume.status or volume_states.is_written_anew(volume):
        raise WrongState(f"Invalid volume: volume {volume.id} is {volume.status}.")
    if volume.readonly and (found.mode or connector.get("mode")) == "rw":
        raise Invalid(f"Invalid volume: volume {volume.id} is read-only and cannot be attached with mode rw.")
    if found.connector and found.connector.get("host") != connector.get("host"):
        raise Invalid(f"Invalid attachment: {found.id} is used from host {found.host} already.")
