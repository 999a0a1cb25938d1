"""Segments, for administrators: a network is created with one, and more can be added."""

from collections.abc import Sequence
from typing import Any

import msgspec

from whimbrel.embedded.network.bodies import Changed, New, Text, given, one
from whimbrel.embedded.network.lists import Filter, Resource
from whimbrel.embedded.network.networks import Number, Provided, new_segment
from whimbrel.embedded.network.request import Call, Handler, forbidden
from whimbrel.embedded.network.views import common
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.network_store import Network, Segment


class NewSegment(New, kw_only=True):
    network_id: Text
    network_type: Text
    physical_network: Text | None = None
    segmentation_id: Number | None = None


async def views(call: Call, records: Sequence[Segment]) -> list[dict[str, Any]]:
    return [
        {
            **common(segment, "network_id", "network_type"),
            "physical_network": segment.physical_network or None,
            "segmentation_id": segment.segmentation_id or None,
        }
        for segment in records
    ]


SEGMENTS = Resource(
    name="segment",
    plural="segments",
    kind=Segment,
    views=views,
    filters={
        **{name: Filter(field=name) for name in ("network_id", "network_type", "physical_network")},
        "segmentation_id": Filter(field="segmentation_id", kind=int),
    },
)


def for_admins(handler: Handler) -> Handler:
    async def checked(call: Call) -> Reply:
        if not call.is_admin:
            raise forbidden("rule:admin_only")
        return await handler(call)

    return checked


async def create(call: Call) -> Reply:
    requested = await one(call, "segment", NewSegment)
    network = await call.seen(Network, requested.network_id)
    provided = Provided(**given(requested, "network_type", "physical_network", "segmentation_id"))
    segment = await new_segment(call, network, provided)
    segment = msgspec.structs.replace(segment, **given(requested, "name", "description"))
    return await SEGMENTS.answer(call, await call.store.add([segment]), status=201)


async def update(call: Call) -> Reply:
    requested = await one(call, "segment", Changed)

    async def edit(segment: Segment) -> Segment:
        return msgspec.structs.replace(segment, **given(requested))

    return await SEGMENTS.change(call, edit)
