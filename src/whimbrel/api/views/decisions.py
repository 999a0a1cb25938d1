"""Decisions about hosts: which were considered, and the result for each. Owners of servers see no hosts."""

import msgspec


class Reason(msgspec.Struct, kw_only=True):
    constraint: str = ""
    words: str
    resource: str | None = None
    asked: int | None = None
    free: int | None = None


class Considered(msgspec.Struct, kw_only=True):
    """One host. verdict: in, with its weight and what each weigher added; or out, with the reason."""

    host: str
    verdict: str = ""
    weight: float | None = None
    weights: dict[str, float] = {}
    reason: Reason | None = None


class Count(msgspec.Struct, kw_only=True):
    constraint: str
    words: str
    hosts: int


class Miss(msgspec.Struct, kw_only=True):
    host: str
    reasons: list[Reason]
    remedies: list[str] = []


class Decision(msgspec.Struct, kw_only=True):
    """untold: the number of considered hosts that are not listed. overridden: what the request, which was forced,
    overrides at the chosen host.
    """

    found: bool
    summary: str
    change: str | None = None
    at: float = 0.0
    asked: dict[str, int] = {}
    availability_zone: str | None = None
    availability_zone_because: str | None = None
    hosts: int = 0
    counts: list[Count] = []
    chosen: list[str] = []
    overridden: list[Reason] = []
    considered: list[Considered] = []
    untold: int = 0
    misses: list[Miss] = []


class StepDecision(Decision, kw_only=True):
    step: str = ""
