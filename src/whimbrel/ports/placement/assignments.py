"""Requests to a host's provider tree, ways to satisfy them, and shortfalls."""

from typing import Literal

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.domain.resources import Resources


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Resources that one provider must supply together, such as a port's, and requirements on that provider."""

    id: str  # letters, digits, - and _
    resources: Resources
    required: tuple[str, ...] = ()  # traits, all required
    required_any: tuple[frozenset[str], ...] = ()  # one trait of each set
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()  # one aggregate of each set
    not_member_of: frozenset[str] = frozenset()


class ResourceRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server's request to a host's provider tree.

    own may come from any providers of the tree; together these have the traits of `required`, and none has one of
    `forbidden`; each of them, or its root, is in the aggregates.
    """

    own: Resources
    required: tuple[str, ...] = ()
    required_any: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    not_member_of: frozenset[str] = frozenset()
    root_required: tuple[str, ...] = ()  # traits of the host itself
    root_forbidden: frozenset[str] = frozenset()
    groups: tuple[Group, ...] = ()
    group_policy: Literal["none", "isolate"] = "none"  # isolate: no two groups from one provider
    same_subtree: tuple[tuple[str, ...], ...] = ()  # in each set of groups one provider is an ancestor of the others
    otherwise: "ResourceRequest | None" = None  # the request instead, if no host at all has a class of this one


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One way to satisfy a request: the resources from each provider, and the provider of each group."""

    parts: dict[ProviderId, dict[str, int]]
    served: dict[str, ProviderId]
    served_by: dict[str, str]  # the same providers' names


class Shortfall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a provider tree cannot satisfy a request. words: equal for equal reasons."""

    words: str
    resource: str | None = None  # class
    asked: int | None = None
    free: int | None = None  # the maximum that one suitable provider has
    suggestion: str | None = None  # completes "it would fit with ..."; None: unknown
