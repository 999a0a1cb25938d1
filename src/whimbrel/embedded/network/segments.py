"""Segments, for administrators: a network is created with one, and more can be added."""

from collections.abc import Sequence
from typing import Any

import msgspec

from whimbrel.embedded.network.bodies import Changed, New, Text, given, one
from whimbrel.embedded.network.lists import Filter, Resource
from whimbrel.embedded.network.networks import Number, Provided, new_segment
from whimbrel.embedded.network.request import Ask, Handler, forbidden
from whimbrel.embedded.network.views import common
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.network_store import Network, Segment


class NewSegment(New, kw_only=True):
    network_id: Text
    network_type: Text
    physical_network: Text | None = None
    segmentation_id: Number | None = None


async def views(ask: Ask, records: Sequence[Segment]) -> list[dict[str, Any]]:
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
    async def checked(ask: Ask) -> Reply:
        if not ask.is_admin:
            raise forbidden("rule:admin_only")
        return await handler(ask)

    return checked


async def create(ask: Ask) -> Reply:
    requested = await one(ask, "segment", NewSegment)
    network = await ask.seen(Network, requested.network_id)
    provided = Provided(
        network_type=requested.network_type,
        physical_network=requested.physical_network,
        segmentation_id=requested.segmentation_id,
    )
    segment = await new_segment(ask, network, provided)
    segment = msgspec.structs.replace(segment, **given(requested, "name", "description"))
    return await SEGMENTS.answer(ask, await ask.store.add([segment]), status=201)


async def update(ask: Ask) -> Reply:
    requested = await one(ask, "segment", Changed)

    async def edit(segment: Segment) -> Segment:
        return msgspec.structs.replace(segment, **given(requested))

    return await SEGMENTS.change(ask, edit)
