"""Current faults of a simulated cloud: what is out of service, what is disconnected, what the next call meets.

A line is what a call goes over: the bus, a service, a database. Latencies are random, so concurrent calls arrive in any
order.
"""

from random import Random

from whimbrel.domain.ids import HostName
from whimbrel.sim.faults.chaos import changes
from whimbrel.sim.faults.planned_events import BUS, SERVICES, Mishap

_GLOBAL = ("journal", "directory", "flavors", "quotas", "aggregates", "server_groups")

TIMEOUT_S = {"bus": 30.0, "network": 20.0, "volumes": 20.0, "images": 20.0}
"""How long a call waits for an answer."""
DATABASE_TIMEOUT_S = 10.0

_DELAYS_S = {"bus": 0.010, "network": 0.030, "volumes": 0.030, "images": 0.030}
_DATABASE_DELAY_S = 0.001


def line_of(touch: str) -> str:
    """Return the line of a touch."""
    port = touch.split(".", 1)[0]
    if port.startswith("agent "):
        return BUS
    if port in SERVICES or port == "placement":
        return port
    return "global" if port in _GLOBAL else f"cell_{port}"


def timeout_s(line: str) -> float:
    return TIMEOUT_S.get(line, DATABASE_TIMEOUT_S)


class FaultState:
    def __init__(self, seed: int) -> None:
        self._rng = Random(f"weather {seed}").random
        self._waiting: dict[str, list[Mishap]] = {}  # line -> faults of its next calls
        self.out: dict[str, list[Mishap]] = {}  # line -> outages
        self.partitioned: dict[HostName, int] = {}
        self.held_up: dict[HostName, float] = {}  # seconds that the next order waits within the agent
        self.slow: dict[str, int] = {}  # process -> number of slowdowns in effect

    def delay_s(self, line: str, process: str) -> float:
        """Return a random latency of a message."""
        part = self._rng()
        delay = _DELAYS_S.get(line, _DATABASE_DELAY_S) * part
        if part > 0.98:
            delay *= 50  # now and then many messages overtake one
        return delay + (self._rng() * 2 if self.slow.get(process) else 0.0)

    def random_s(self, most_s: float) -> float:
        """Return a random time up to `most_s`."""
        return self._rng() * most_s

    def will_meet(self, mishap: Mishap) -> None:
        self._waiting.setdefault(mishap.where, []).append(mishap)

    def meets(self, line: str, touch: str) -> Mishap | None:
        """Return the fault of this call, once. A call that changes nothing can only lose its answer."""
        for mishap in self._waiting.get(line, ()):
            if changes(touch) or mishap.what == "lost request":
                self._waiting[line].remove(mishap)
                return mishap
        return None

    def outage(self, line: str) -> Mishap | None:
        outages = self.out.get(line)
        return outages[-1] if outages else None

    def clear(self) -> None:
        """Remove all faults."""
        self._waiting.clear()
        self.held_up.clear()
