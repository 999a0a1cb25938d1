"""The reshaper: replaces inventories of several providers and the claims on them in one write, to change a tree."""

from typing import Any

from whimbrel.domain.ids import ProviderId
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.placement.errors import InventoryInUse, ProviderNotFound, UnknownName
from whimbrel.placement.provider import Shape
from whimbrel.placement_api import allocations, inventories
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.problems import PROVIDER_NOT_FOUND, introducing


async def reshape(call: Call) -> Reply:
    shapes = [_shape(call, uuid, sent) for uuid, sent in call.body["inventories"].items()]
    with introducing("update conflict: ", InventoryInUse), introducing("malformed reshaper data: ", UnknownName):
        try:
            await call.store.reshape(shapes, allocations.claims(call, call.body["allocations"]))
        except ProviderNotFound as error:
            # The provider is named in the body, not in the path.
            raise Problem(400, error.reason, PROVIDER_NOT_FOUND) from None
    return NO_CONTENT


def _shape(call: Call, uuid: str, sent: Any) -> Shape:
    provider = ProviderId(uuid)
    return Shape(
        provider=provider,
        generation=sent["resource_provider_generation"],
        inventories={
            name: inventories.inventory(call, provider, name, amounts) for name, amounts in sent["inventories"].items()
        },
    )
