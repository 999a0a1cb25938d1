"""Tags of all resource types that have them."""

from collections.abc import Callable, Sequence
from typing import Annotated, Generic

import msgspec
from msgspec import Meta

from whimbrel.embedded.network.bodies import Body, Tag, converted
from whimbrel.embedded.network.request import Call, Handler
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.embedded.network_store import R

MOST_TAGS = 50
Tags = tuple[str, ...]


class SentTags(Body, kw_only=True):
    tags: Annotated[tuple[Tag, ...], Meta(max_length=MOST_TAGS)]


class OneTag(Body, kw_only=True):
    tag: Tag


def routes(path: str, kind: type[R]) -> tuple[tuple[str, str, Handler], ...]:
    """Return the routes of the tags of a resource type."""
    tags = _Tags(kind)
    whole, one = path + "/{id}/tags", path + "/{id}/tags/{tag}"
    return (
        ("GET", whole, tags.show),
        ("PUT", whole, tags.replace),
        ("POST", whole, tags.add_several),
        ("DELETE", whole, tags.clear),
        ("GET", one, tags.check),
        ("PUT", one, tags.add),
        ("DELETE", one, tags.remove),
    )


class _Tags(Generic[R]):
    def __init__(self, kind: type[R]) -> None:
        self._kind = kind

    async def show(self, call: Call) -> Reply:
        return Reply({"tags": list((await call.seen(self._kind, call.path("id"))).tags)})

    async def replace(self, call: Call) -> Reply:
        sent = await _sent(call)
        return Reply({"tags": list(await self._write(call, lambda _: sent))})

    async def add_several(self, call: Call) -> Reply:
        sent = await _sent(call)
        return Reply({"tags": list(await self._write(call, lambda tags: (*tags, *sent)))})

    async def clear(self, call: Call) -> Reply:
        await self._write(call, lambda _: ())
        return NO_CONTENT

    async def check(self, call: Call) -> Reply:
        _find((await call.seen(self._kind, call.path("id"))).tags, call.path("tag"))
        return NO_CONTENT

    async def add(self, call: Call) -> Reply:
        tag = converted({"tag": call.path("tag")}, OneTag).tag
        await self._write(call, lambda tags: (*tags, tag))
        return Reply(status=201)

    async def remove(self, call: Call) -> Reply:
        tag = call.path("tag")
        await self._write(call, lambda tags: tuple(each for each in _find(tags, tag) if each != tag))
        return NO_CONTENT

    async def _write(self, call: Call, edit: Callable[[Tags], Sequence[str]]) -> Tags:
        async def change(record: R) -> R:
            tags = tuple(sorted(set(edit(record.tags))))
            if len(tags) > MOST_TAGS:
                raise Problem(400, f"A thing has at most {MOST_TAGS} tags.")
            return msgspec.structs.replace(record, tags=tags)

        _, now = await call.changed(self._kind, call.path("id"), change)
        return now.tags


async def _sent(call: Call) -> Tags:
    return converted(await call.body(dict), SentTags).tags


def _find(tags: Tags, tag: str) -> Tags:
    if tag not in tags:
        raise Problem(404, f"Tag {tag} could not be found.", "TagNotFound")
    return tags
