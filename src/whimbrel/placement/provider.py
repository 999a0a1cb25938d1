"""Providers and claims as Placement's store takes and returns them."""

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
    """One node of a provider tree; a root is its own root and has no parent."""

    uuid: ProviderId
    name: str
    generation: int
    parent: ProviderId | None
    root: ProviderId


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A provider with its inventories, traits and aggregates."""

    provider: Provider
    stocks: dict[str, Stock]
    traits: frozenset[str]
    aggregates: frozenset[str]


class Consumer(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer of allocations. type None: created by a client without consumer types."""

    id: ConsumerId
    generation: int
    owner: Owner
    type: str | None


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The whole claim of a consumer; an empty claim removes the consumer.

    generation: the consumer's as last read; None: it is new; ANY_GENERATION: not checked. type None: unchanged.
    bumps_left: an empty claim also increases the generations of the providers that it leaves.
    """

    consumer: ConsumerId
    owner: Owner
    held: Held
    generation: int | Literal["any"] | None = ANY_GENERATION
    type: str | None = None
    bumps_left: bool = False


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """All inventories of a provider. generation: the provider's as last read."""

    provider: ProviderId
    generation: int
    inventories: Mapping[str, Inventory]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The total usage of the consumers of one type."""

    type: str | None
    consumers: int
    resources: dict[str, int]
