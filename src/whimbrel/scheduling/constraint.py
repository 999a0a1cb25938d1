"""A constraint: which hosts it lets pass, why another one is out, and what would let that one in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from whimbrel.ports.arrays import Mask, Numbers


class Reason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a host is out. words are true of every host that is out for the same reason; numbers are this host's."""

    constraint: str  # a filter's name as in Nova, or what it is about
    words: str
    resource: str | None = None
    asked: int | None = None
    free: int | None = None  # at this host


class NearMiss(NamedTuple):
    """What only a closer look at one host shows: why it is out, and what would let it in."""

    reason: Reason
    suggestion: str | None = None


Suggestion = Callable[[int], str | None]


def no_suggestion(host_index: int) -> None:
    """Where nothing that an operator could change would help."""


@dataclass(frozen=True, eq=False)
class Constraint:
    """One thing that is asked of every host.

    words: true of each that is out. vague: a closer look can say more. remedy: what would let one in, to be continued
    "it would do with ..."; None: nothing that could be changed.
    """

    name: str
    passes: Mask
    words: str
    resource: str | None = None
    asked: int | None = None
    free: Numbers | None = None
    suggestion: Suggestion = no_suggestion
    vague: bool = False

    def reason(self, host_index: int) -> Reason:
        free = None if self.free is None else max(0, int(self.free[host_index]))
        return replace(self.without_free(), free=free)

    def without_free(self) -> Reason:
        """Give the reason as it is the same for every host."""
        return Reason(constraint=self.name, words=self.words, resource=self.resource, asked=self.asked)
