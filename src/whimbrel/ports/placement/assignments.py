"""What a server needs of a host's tree of providers, how it may be had there, and why not."""

from typing import Literal

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.domain.resources import Resources


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Resources that one provider is to give together, such as a port's, and what that provider must be."""

    id: str  # letters, digits, - and _
    resources: Resources
    required: tuple[str, ...] = ()  # traits, all of them
    required_any: tuple[frozenset[str], ...] = ()  # of each set one trait
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()  # of each set one aggregate
    not_member_of: frozenset[str] = frozenset()


class ResourceRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server needs of a host's tree of providers.

    own is had of whichever providers of the tree; these together have the traits of `required`, none of them one of
    `forbidden`; and each of them, or its root, is in the aggregates.
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
    group_policy: Literal["none", "isolate"] = "none"  # isolate: no two groups of one provider
    same_subtree: tuple[tuple[str, ...], ...] = ()  # of each set of groups one provider is above all the others
    otherwise: "ResourceRequest | None" = (
        None  # what is asked instead where no host at all has a class that this one asks for
    )


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One way to give what is requested: what is taken from which provider, and which of them serves which group."""

    parts: dict[ProviderId, dict[str, int]]
    served: dict[str, ProviderId]
    served_by: dict[str, str]  # the same providers' names


class Shortfall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a tree of providers cannot give what is requested. words: the same wherever the same is lacking."""

    words: str
    resource: str | None = None  # class
    asked: int | None = None
    free: int | None = None  # the most that one provider, of those that would do, could give
    suggestion: str | None = None  # what would mend it, to be continued "it would do with ..."; None: nothing is known
