"""Tags of all resource types that have them."""

from collections.abc import Callable, Sequence
from typing import Annotated, Generic

import msgspec
from msgspec import Meta

from whimbrel.embedded.network.bodies import Body, Tag, converted
from whimbrel.embedded.network.request import Ask, Handler
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

    async def show(self, ask: Ask) -> Reply:
        return Reply({"tags": list((await ask.seen(self._kind, ask.path("id"))).tags)})

    async def replace(self, ask: Ask) -> Reply:
        sent = await _sent(ask)
        return Reply({"tags": list(await self._write(ask, lambda _: sent))})

    async def add_several(self, ask: Ask) -> Reply:
        sent = await _sent(ask)
        return Reply({"tags": list(await self._write(ask, lambda tags: (*tags, *sent)))})

    async def clear(self, ask: Ask) -> Reply:
        await self._write(ask, lambda _: ())
        return NO_CONTENT

    async def check(self, ask: Ask) -> Reply:
        _find((await ask.seen(self._kind, ask.path("id"))).tags, ask.path("tag"))
        return NO_CONTENT

    async def add(self, ask: Ask) -> Reply:
        tag = converted({"tag": ask.path("tag")}, OneTag).tag
        await self._write(ask, lambda tags: (*tags, tag))
        return Reply(status=201)

    async def remove(self, ask: Ask) -> Reply:
        tag = ask.path("tag")
        await self._write(ask, lambda tags: tuple(each for each in _find(tags, tag) if each != tag))
        return NO_CONTENT

    async def _write(self, ask: Ask, edit: Callable[[Tags], Sequence[str]]) -> Tags:
        async def change(record: R) -> R:
            tags = tuple(sorted(set(edit(record.tags))))
            if len(tags) > MOST_TAGS:
                raise Problem(400, f"A thing has at most {MOST_TAGS} tags.")
            return msgspec.structs.replace(record, tags=tags)

        _, now = await ask.changed(self._kind, ask.path("id"), change)
        return now.tags


async def _sent(ask: Ask) -> Tags:
    return converted(await ask.body(dict), SentTags).tags


def _find(tags: Tags, tag: str) -> Tags:
    if tag not in tags:
        raise Problem(404, f"Tag {tag} could not be found.", "TagNotFound")
    return tags
