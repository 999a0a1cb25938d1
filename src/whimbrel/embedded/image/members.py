"""The projects with which an image is shared."""

from typing import Annotated, Literal

import msgspec

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.embedded.image import views
from whimbrel.embedded.image.request import Ask
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.images import ImageRecord, Member


class NewMember(msgspec.Struct):
    member: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class ChangedMember(msgspec.Struct):
    status: Literal["pending", "accepted", "rejected"]


async def search(ask: Ask) -> Reply:
    found = [views.member(member) for member in await _seen_members(ask)]
    return Reply({"members": found, "schema": "/v2/schemas/members"})


async def show(ask: Ask) -> Reply:
    wanted = ask.path("project_id")
    for member in await _seen_members(ask):
        if member.project_id == wanted:
            return Reply(views.member(member))
    raise NotFound(f"{wanted} is not a member of image {ask.path('image_id')}")


async def create(ask: Ask) -> Reply:
    record = _shareable(await ask.owned())
    project_id = (await ask.body(NewMember)).member
    now = ask.service.clock.now()
    member = Member(image_id=record.id, project_id=project_id, status="pending", created_at=now, updated_at=now)
    await ask.store.add_member(member)
    return Reply(views.member(member))


async def update(ask: Ask) -> Reply:
    """Accept or reject an image; only the member itself may."""
    record = _shareable(await ask.seen())
    project_id = ask.path("project_id")
    if not (ask.is_admin or project_id == ask.principal.project_id):
        raise Refused("Only the member itself accepts or rejects an image.")
    status = (await ask.body(ChangedMember)).status
    return Reply(views.member(await ask.store.change_member(record.id, project_id, status, ask.service.clock.now())))


async def delete(ask: Ask) -> Reply:
    record = _shareable(await ask.owned())
    await ask.store.remove_member(record.id, ask.path("project_id"))
    return NO_CONTENT


async def _seen_members(ask: Ask) -> list[Member]:
    """Return all members to the owner, and to a member only itself."""
    record = await ask.seen()
    found = await ask.store.members(record.id)
    if ask.is_admin or record.owner == ask.principal.project_id:
        return found
    return [member for member in found if member.project_id == ask.principal.project_id]


def _shareable(record: ImageRecord) -> ImageRecord:
    if record.visibility != "shared":
        raise Refused("Only shared images have members.")
    return record
