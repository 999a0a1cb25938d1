"""Faults of a step: the columns of the map, and the chaos that injects them."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tools.faultmap.environment import CloudSnapshot
from whimbrel.domain.errors import Unavailable, WorldError
from whimbrel.sim.faults.chaos import After, Chaos, Fault, changes


class Trouble(Enum):
    """The value is the heading of its column."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    CRASH_SAVED = "crash saved"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"
    DOUBLED = "doubled"
    LATE = "late"
    REORDERED = "reordered"
    SLEEP = "sleeps"
    SAVE_UNANSWERED = "save unanswered"
    AGENT_RESTARTS = "agent restarts"
    SOURCE_RESTARTS = "source restarts"
    TARGET_GONE = "target gone"
    SOURCE_GONE = "source gone"
    CONFLICT = "conflict"
    DATABASE_AWAY = "database away"
    REFUSED = "refused"


MEANINGS = {
    Trouble.CRASH_BEFORE: "the conductor dies before the step's first effect",
    Trouble.CRASH_AFTER: "it dies after the last effect, before the step is saved",
    Trouble.CRASH_SAVED: "it dies immediately after the step was saved",
    Trouble.REQUEST_LOST: "the first request gets no answer, and has no effect",
    Trouble.ANSWER_LOST: "the last request is carried out, and its answer is lost",
    Trouble.DOUBLED: "the first request arrives twice",
    Trouble.LATE: "the first request gets no answer, and arrives after the lease and the end of the move",
    Trouble.REORDERED: "the first request gets no answer, is repeated, and arrives after another request",
    Trouble.SLEEP: "the conductor sleeps at the first request until another has finished, then makes it",
    Trouble.SAVE_UNANSWERED: "the step is saved, and the conductor gets no answer",
    Trouble.AGENT_RESTARTS: "the target's agent dies during the first order, or halfway through a copy, and restarts",
    Trouble.SOURCE_RESTARTS: "the same for the source's agent",
    Trouble.TARGET_GONE: "the target's host never answers any more",
    Trouble.SOURCE_GONE: "the source's host never answers any more",
    Trouble.CONFLICT: "the first request is refused because of a concurrent change",
    Trouble.DATABASE_AWAY: "all databases do not answer for seven seconds, from the first read of the step on",
    Trouble.REFUSED: "the first request that may be refused is refused",
}

_FAULTS = {
    Trouble.CRASH_BEFORE: Fault.CRASH_BEFORE,
    Trouble.CRASH_AFTER: Fault.CRASH_AFTER,
    Trouble.CRASH_SAVED: Fault.CRASH_AFTER,
    Trouble.REQUEST_LOST: Fault.UNANSWERED,
    Trouble.ANSWER_LOST: Fault.LOST_ANSWER,
    Trouble.LATE: Fault.LATE,
    Trouble.REORDERED: Fault.UNANSWERED,
    Trouble.SAVE_UNANSWERED: Fault.LOST_ANSWER,
    Trouble.SLEEP: Fault.SLEEP,
    Trouble.CONFLICT: Fault.CONFLICT,
    Trouble.REFUSED: Fault.REFUSED,
}

HOSTS_GO = (Trouble.TARGET_GONE, Trouble.SOURCE_GONE)
AGENTS_RESTART = (Trouble.AGENT_RESTARTS, Trouble.SOURCE_RESTARTS)


@dataclass(frozen=True)
class Strike:
    """A fault at a touch of this name. host: the host of the touch."""

    trouble: Trouble
    touch: str
    host: str = ""


Strikes = Mapping[int, Strike]
"""Number of a touch, from 0 -> fault."""


class Troubled(Chaos):
    """Chaos that also knows hosts and databases; those that are gone or away are so for all incarnations.

    overtaken: requests that are still held back until another one is carried out, with their names.
    """

    def __init__(self, strikes: Strikes, snapshot: CloudSnapshot, after_each: After) -> None:
        faults = {at: _FAULTS[strike.trouble] for at, strike in strikes.items() if strike.trouble in _FAULTS}
        super().__init__(faults, after_each)
        self._strikes = strikes
        self._ground = snapshot
        self.overtaken: list[tuple[str, Callable[[], Awaitable[Any]]]] = []

    async def touch(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        strike = self._strikes.get(len(self.touches))
        if strike:
            assert name == strike.touch, f"struck {name}, and meant {strike.touch}"
            call = self._struck(strike, name, call)
        if self._ground.is_out(name):
            self.touches.append(name)
            raise Unavailable(f"no answer from {name}")
        answer = await super().touch(name, call)
        await self._overtake(name)
        return answer

    async def _overtake(self, name: str) -> None:
        """Release the held-back requests if this is another request; a repetition does not overtake."""
        if self.overtaken and can_overtake(name, self.overtaken[0][0]):
            _, held = self.overtaken.pop()
            with suppress(WorldError):
                await held()

    def _struck(self, strike: Strike, name: str, call: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
        """Apply a fault that affects more than this touch; return the call to make now."""
        trouble, snapshot = strike.trouble, self._ground
        if trouble not in _FAULTS:
            self.fired.append(f"{trouble.value} at touch {len(self.touches)}, {name}")
        if trouble is Trouble.REORDERED:
            self.overtaken.append((name, call))
        elif trouble in HOSTS_GO:
            snapshot.gone.add(strike.host)
        elif trouble is Trouble.DATABASE_AWAY:
            snapshot.databases_go()
        elif trouble is Trouble.DOUBLED:
            return lambda: _twice(call)
        elif trouble in AGENTS_RESTART:
            return lambda: snapshot.die_over(strike.host, name, call)
        return call


def can_overtake(touch: str, held: str) -> bool:
    """Check whether a request differs from the held-back one and may change something."""
    return touch != held and changes(touch) and not touch.startswith("journal.")


async def _twice(call: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await call()
    finally:
        with suppress(WorldError):
            await call()
