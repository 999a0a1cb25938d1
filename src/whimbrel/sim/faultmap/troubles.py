"""What may go wrong at a step: the columns of the map, and the chaos that has it happen."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from whimbrel.domain.errors import Unavailable, WorldError
from whimbrel.sim.chaos import After, Chaos, Fault, changes
from whimbrel.sim.faultmap.ground import Ground


class Trouble(Enum):
    """Its value: the heading of its column."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    CRASH_SAVED = "crash saved"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"
    DOUBLED = "doubled"
    LATE = "late"
    REORDERED = "reordered"
    SLEEP = "sleeps"
    AGENT_RESTARTS = "agent restarts"
    TARGET_GONE = "target gone"
    SOURCE_GONE = "source gone"
    CONFLICT = "conflict"
    DATABASE_AWAY = "database away"
    REFUSED = "refused"


MEANINGS = {
    Trouble.CRASH_BEFORE: "the conductor dies before the step's first effect",
    Trouble.CRASH_AFTER: "it dies after the last effect, before it is written down that the step is done",
    Trouble.CRASH_SAVED: "it dies when that has just been written down",
    Trouble.REQUEST_LOST: "the first request stays unanswered, and has done nothing",
    Trouble.ANSWER_LOST: "the last request is carried out, and its answer is lost",
    Trouble.DOUBLED: "the first request arrives twice",
    Trouble.LATE: "the first request stays unanswered, and arrives long after the lease, when all is over",
    Trouble.REORDERED: "the first request stays unanswered, and arrives just after the next one",
    Trouble.SLEEP: "the conductor sleeps at the first request until another has finished, then makes it",
    Trouble.AGENT_RESTARTS: "the target's agent dies over the first order, a disk half made if it is long, and starts",
    Trouble.TARGET_GONE: "the target's host never answers any more",
    Trouble.SOURCE_GONE: "the source's host never answers any more",
    Trouble.CONFLICT: "the first request is told that somebody was faster",
    Trouble.DATABASE_AWAY: "all databases are away for seven seconds, from the step's first look at them",
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
    Trouble.SLEEP: Fault.SLEEP,
    Trouble.CONFLICT: Fault.CONFLICT,
    Trouble.REFUSED: Fault.REFUSED,
}

HOSTS_GO = (Trouble.TARGET_GONE, Trouble.SOURCE_GONE)


@dataclass(frozen=True)
class Strike:
    """A trouble at a touch of this name. host: whose."""

    trouble: Trouble
    touch: str
    host: str = ""


Strikes = Mapping[int, Strike]
"""Number of a touch, from 0 -> what happens there."""


class Troubled(Chaos):
    """Chaos that knows hosts and databases too; what is gone or away is so for all lives.

    overtaken: requests that were held back for the next one to be carried out first, and are still.
    """

    def __init__(self, strikes: Strikes, ground: Ground, after_each: After) -> None:
        faults = {at: _FAULTS[strike.trouble] for at, strike in strikes.items() if strike.trouble in _FAULTS}
        super().__init__(faults, after_each)
        self._strikes = strikes
        self._ground = ground
        self.overtaken: list[Callable[[], Awaitable[Any]]] = []

    async def touch(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        strike = self._strikes.get(len(self.touches))
        if strike:
            assert name == strike.touch, f"struck {name}, and meant {strike.touch}"
            call = self._struck(strike, name, call)
        if self._ground.is_out(name):
            self.touches.append(name)
            raise Unavailable(f"no answer from {name}")
        held = self.overtaken
        answer = await super().touch(name, call)
        if held and changes(name) and not name.startswith("journal."):
            with suppress(WorldError):
                await held.pop()()
        return answer

    def _struck(self, strike: Strike, name: str, call: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
        """Have a strike happen that is not a fault of this one touch; give the call as it is made now."""
        trouble, ground = strike.trouble, self._ground
        if trouble not in _FAULTS:
            self.fired.append(f"{trouble.value} at touch {len(self.touches)}, {name}")
        if trouble is Trouble.REORDERED:
            self.overtaken.append(call)
        elif trouble in HOSTS_GO:
            ground.gone.add(strike.host)
        elif trouble is Trouble.DATABASE_AWAY:
            ground.databases_go()
        elif trouble is Trouble.DOUBLED:
            return lambda: _twice(call)
        elif trouble is Trouble.AGENT_RESTARTS:
            return lambda: ground.die_over(strike.host, name, call)
        return call


async def _twice(call: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await call()
    finally:
        with suppress(WorldError):
            await call()
