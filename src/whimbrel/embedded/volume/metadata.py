"""Metadata of volumes, snapshots and types, and extra specs: one set of URLs for each.

Invariant: a write of one name does not change other names.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from whimbrel.embedded.volume.fields import Metadata, fitted, wrapped
from whimbrel.embedded.volume.request import Call, Handler, Rule, reader
from whimbrel.embedded.volume.service import Change
from whimbrel.embedded.volume.types import type_of_path
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.volume_store import AttachmentRecord, VolumeRecord

Pairs = dict[str, str]
Edit = Callable[[Pairs], Pairs]
MOST = 128


@dataclass(frozen=True)
class MetadataStore:
    """The location of one kind of metadata. key: its outer name in bodies. edit: writes the changed items."""

    key: str
    read: Callable[[Call], Awaitable[Pairs]]
    edit: Callable[[Call, Edit], Awaitable[Pairs]]
    done: int  # status of a deletion

    async def show_all(self, call: Call) -> Reply:
        return Reply({self.key: await self.read(call)})

    async def add(self, call: Call) -> Reply:
        sent = await wrapped(call, self.key, Metadata)
        made = await self._edited(call, lambda has: {**has, **sent})
        return Reply({self.key: made if self.key == "metadata" else sent})  # of extra specs Cinder repeats what it got

    async def replace_all(self, call: Call) -> Reply:
        sent = await wrapped(call, self.key, Metadata)
        return Reply({self.key: await self._edited(call, lambda has: sent)})

    async def show(self, call: Call) -> Reply:
        return Reply(self._one(call.path("key"), await self.read(call)))

    async def set(self, call: Call) -> Reply:
        """Set one item: `{"meta": {name: value}}`, or an extra spec without an outer name."""
        name = call.path("key")
        outer = await call.body(dict[str, msgspec.Raw])
        sent = fitted(call, "meta", outer["meta"], Metadata) if self.key == "metadata" and "meta" in outer else None
        if sent is None:
            sent = {key: fitted(call, key, raw, str) for key, raw in outer.items()}
        if list(sent) != [name]:
            raise Problem(400, f"The body does not name {name[:50]}, and only that, as the URL does.")
        has = await self._edited(call, lambda has: {**has, **sent})
        return Reply(self._one(name, has))

    async def remove(self, call: Call) -> Reply:
        name = call.path("key")

        def without(has: Pairs) -> Pairs:
            self._one(name, has)
            return {key: value for key, value in has.items() if key != name}

        await self._edited(call, without)
        return Reply(status=self.done)

    async def _edited(self, call: Call, edit: Edit) -> Pairs:
        def limited(has: Pairs) -> Pairs:
            made = edit(has)
            if len(made) > max(MOST, len(has)):
                raise Problem(413, f"There are at most {MOST} names.")
            if any(not 1 <= len(name) <= 255 or len(value) > 255 for name, value in made.items()):
                raise Problem(400, "A name has 1 to 255 characters, a value at most 255.")
            return made

        return await self.edit(call, limited)

    def _one(self, name: str, has: Pairs) -> dict[str, Any]:
        if name not in has:
            raise Problem(404, f"Metadata item {name[:50]} could not be found.")
        return {"meta": {name: has[name]}} if self.key == "metadata" else {name: has[name]}

    def routes(self, path: str, writer: Rule) -> list[tuple[str, str, Handler, Rule, int]]:
        one = path + "/{key}"
        return [
            ("GET", path, self.show_all, reader, 0),
            ("POST", path, self.add, writer, 0),
            ("PUT", path, self.replace_all, writer, 0),
            ("GET", one, self.show, reader, 0),
            ("PUT", one, self.set, writer, 0),
            ("DELETE", one, self.remove, writer, 0),
        ]


async def _of_volume(call: Call) -> Pairs:
    return (await call.volume()).metadata


async def _edit_volume(call: Call, edit: Edit) -> Pairs:
    record = await call.volume()

    def edited(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        return Change(replace(volume, metadata=edit(volume.metadata)))

    return (await call.change(record.id, edited)).metadata


async def _of_snapshot(call: Call) -> Pairs:
    return (await call.snapshot()).metadata


async def _edit_snapshot(call: Call, edit: Edit) -> Pairs:
    record = await call.snapshot()
    return (await call.change_snapshot(record, metadata=edit(record.metadata))).metadata


async def _of_type(call: Call) -> Pairs:
    return (await type_of_path(call)).extra_specs


async def _edit_type(call: Call, edit: Edit) -> Pairs:
    record = await type_of_path(call)
    changed = replace(record, extra_specs=edit(record.extra_specs), updated_at=call.service.clock.now())
    return (await call.store.change_type(changed)).extra_specs


VOLUME = MetadataStore("metadata", _of_volume, _edit_volume, 200)
SNAPSHOT = MetadataStore("metadata", _of_snapshot, _edit_snapshot, 200)
TYPE = MetadataStore("extra_specs", _of_type, _edit_type, 202)
