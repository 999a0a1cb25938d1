"""The evacuation of a host."""

import msgspec


class LeftServer(msgspec.Struct, kw_only=True):
    """A server that is not evacuated, and why."""

    server: str
    name: str
    reason: str


class HostEvacuationState(msgspec.Struct, kw_only=True):
    """since: for the next request: evacuations that were undone since then are not begun again. begun: by this request.

    waiting: how many of those under way wait for evidence that the host is dead; why: for what. to_go: not begun yet.
    arrived: since the host was lost. per_minute: how many may begin in a minute; 0: any number. next_in_s: how long the
    next one waits for that; None: it does not.
    """

    host: str
    since: float
    begun: int
    under_way: int
    waiting: int
    why: str | None
    to_go: int
    arrived: int
    left: list[LeftServer]
    is_over: bool
    per_minute: int = 0
    next_in_s: float | None = None


class HostEvacuationAnswer(msgspec.Struct):
    evacuation: HostEvacuationState
