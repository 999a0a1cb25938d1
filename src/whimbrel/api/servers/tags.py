"""A server's tags."""

from typing import Any
from urllib.parse import quote

from whimbrel.api.http.call import Call
from whimbrel.api.http.schema import compiled
from whimbrel.api.schemas.servers import MAX_TAGS, TAG
from whimbrel.api.servers import action_states
from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.http.reply import Reply
from whimbrel.servers import edit

_is_tag = compiled(TAG).is_valid


async def index(call: Call) -> Any:
    return {"tags": call.server.tags}


async def show(call: Call) -> None:
    _check_there(call)


async def replace(call: Call) -> Any:
    return {"tags": await _set(call, list(dict.fromkeys(call.body["tags"])), "update tags")}


async def add(call: Call) -> Reply:
    """Add a tag: 201 if it is new, 204 if it exists."""
    tag, tags = call.params["tag"], call.server.tags
    if not _is_tag(tag):
        raise Invalid(f"Tag {tag[:80]!r} is invalid: it has 1 to 60 characters, and neither / nor a comma.")
    action_states.check(call.server, "update tag", action_states.WITH_GUEST, tasks=())
    if tag in tags:
        return Reply(status=204)
    if len(tags) >= MAX_TAGS:
        raise Invalid(f"The number of tags exceeded the per-server limit {MAX_TAGS}")
    await _set(call, [*tags, tag], "update tag")
    location = f"{call.versioned_url}/servers/{call.server.id}/tags/{quote(tag)}"
    return Reply(status=201, headers={"Location": location})


async def remove(call: Call) -> None:
    _check_there(call)
    await _set(call, [tag for tag in call.server.tags if tag != call.params["tag"]], "delete tag")


async def clear(call: Call) -> None:
    await _set(call, [], "delete tags")


def _check_there(call: Call) -> None:
    if call.params["tag"] not in call.server.tags:
        raise NotFound(f"Server {call.server.id} has no tag {call.params['tag']!r}")


async def _set(call: Call, tags: list[str], action: str) -> list[str]:
    action_states.check(call.server, action, action_states.WITH_GUEST, tasks=())
    return (await edit.change(call.cloud, call.server, {"tags": tags})).tags
