"""Whether a request exceeds a project's quota, and Nova's sentence about it.

Invariant: only what a request adds counts: a project above its quota may still make its servers smaller.
Source: Nova 34, TooManyInstances.
"""

from collections.abc import Iterable
from typing import NamedTuple

from whimbrel.domain.errors import OverQuota


class Increase(NamedTuple):
    """What a request adds of a resource. used: without the request. limit: -1: none. shown: None: the amount."""

    name: str
    amount: int
    used: int
    limit: int
    shown: str | None = None

    @property
    def exceeds(self) -> bool:
        return self.amount > 0 and 0 <= self.limit < self.used + self.amount


def check(wanted: Iterable[Increase]) -> None:
    """Raises: OverQuota: naming each resource that is exceeded."""
    over = sorted(one for one in wanted if one.exceeds)
    if over:
        names = ", ".join(one.name for one in over)
        amounts = ", ".join(one.shown or str(one.amount) for one in over)
        used = ", ".join(str(one.used) for one in over)
        limits = ", ".join(str(one.limit) for one in over)
        raise OverQuota(f"Quota exceeded for {names}: Requested {amounts}, but already used {used} of {limits} {names}")
