"""A constraint: which hosts pass, why another host does not, and which change would make it pass."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from whimbrel.ports.arrays import Mask, Numbers


class Reason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a host is out. words hold for every host with the same reason; numbers are those of this host."""

    constraint: str  # Nova's filter name, or the topic
    words: str
    resource: str | None = None
    asked: int | None = None
    free: int | None = None  # on this host


class NearMiss(NamedTuple):
    """The result of examining one host: why it is out, and which change would make it fit."""

    reason: Reason
    suggestion: str | None = None


Suggestion = Callable[[int], str | None]


def no_suggestion(host_index: int) -> None:
    """Suggest nothing: no change by an operator would help."""


@dataclass(frozen=True, eq=False)
class Constraint:
    """One condition on every host.

    words: true of each host that fails. vague: examining a host shows more. suggestion: the change that makes a
    host pass, continuing "it would fit with ..."; None: there is none. overridable: a preference of the operator,
    which does not count if an administrator forces the choice of a host.
    """

    name: str
    passes: Mask
    words: str
    resource: str | None = None
    asked: int | None = None
    free: Numbers | None = None
    suggestion: Suggestion = no_suggestion
    vague: bool = False
    overridable: bool = False

    def reason(self, host_index: int) -> Reason:
        free = None if self.free is None else max(0, int(self.free[host_index]))
        return replace(self.without_free(), free=free)

    def without_free(self) -> Reason:
        """Return the reason without the numbers of a host."""
        return Reason(constraint=self.name, words=self.words, resource=self.resource, asked=self.asked)
