"""The projects with which an image is shared."""

from typing import Annotated, Literal

import msgspec

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.embedded.image import views
from whimbrel.embedded.image.request import Call
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.images import ImageRecord, Member


class NewMember(msgspec.Struct):
    member: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class ChangedMember(msgspec.Struct):
    status: Literal["pending", "accepted", "rejected"]


async def search(call: Call) -> Reply:
    found = [views.member(member) for member in await _seen_members(call)]
    return Reply({"members": found, "schema": "/v2/schemas/members"})


async def show(call: Call) -> Reply:
    wanted = call.path("project_id")
    for member in await _seen_members(call):
        if member.project_id == wanted:
            return Reply(views.member(member))
    raise NotFound(f"{wanted} is not a member of image {call.path('image_id')}")


async def create(call: Call) -> Reply:
    record = _shareable(await call.owned())
    project_id = (await call.body(NewMember)).member
    now = call.service.clock.now()
    member = Member(image_id=record.id, project_id=project_id, status="pending", created_at=now, updated_at=now)
    await call.store.add_member(member)
    return Reply(views.member(member))


async def update(call: Call) -> Reply:
    """Accept or reject an image; only the member itself may."""
    record = _shareable(await call.seen())
    project_id = call.path("project_id")
    if not (call.is_admin or project_id == call.principal.project_id):
        raise Refused("Only the member itself accepts or rejects an image.")
    status = (await call.body(ChangedMember)).status
    return Reply(views.member(await call.store.change_member(record.id, project_id, status, call.service.clock.now())))


async def delete(call: Call) -> Reply:
    record = _shareable(await call.owned())
    await call.store.remove_member(record.id, call.path("project_id"))
    return NO_CONTENT


async def _seen_members(call: Call) -> list[Member]:
    """Return all members to the owner, and to a member only itself."""
    record = await call.seen()
    found = await call.store.members(record.id)
    if call.is_admin or record.owner == call.principal.project_id:
        return found
    return [member for member in found if member.project_id == call.principal.project_id]


def _shareable(record: ImageRecord) -> ImageRecord:
    if record.visibility != "shared":
        raise Refused("Only shared images have members.")
    return record
