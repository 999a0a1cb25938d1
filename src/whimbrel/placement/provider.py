"""Providers and claims as Placement's store gives and takes them."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from whimbrel.domain.ids import ConsumerId, ProviderId
from whimbrel.placement.inventory import Stock
from whimbrel.ports.placement.placement import Inventory, Owner

Held = dict[ProviderId, dict[str, int]]
"""Provider -> resource class -> amount."""

ANY_GENERATION: Final = "any"


class Provider(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One node of a tree of providers; a root is its own root and has no parent."""

    uuid: ProviderId
    name: str
    generation: int
    parent: ProviderId | None
    root: ProviderId


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A provider with all that it has."""

    provider: Provider
    stocks: dict[str, Stock]
    traits: frozenset[str]
    aggregates: frozenset[str]


class Consumer(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who holds something. type None: from a time or client that had no types."""

    id: ConsumerId
    generation: int
    owner: Owner
    type: str | None


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The whole claim that a consumer is to have; holding nothing removes the consumer.

    generation: the consumer's as last seen, None: it is new; ANY_GENERATION: whatever it is. type None: leave it.
    bumps_left: where it holds nothing any more, the providers that it leaves get a new generation too.
    """

    consumer: ConsumerId
    owner: Owner
    held: Held
    generation: int | Literal["any"] | None = ANY_GENERATION
    type: str | None = None
    bumps_left: bool = False


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of the inventories that a provider is to have. generation: the provider's as last seen."""

    provider: ProviderId
    generation: int
    inventories: Mapping[str, Inventory]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """How much the consumers of one type hold together."""

    type: str | None
    consumers: int
    resources: dict[str, int]
