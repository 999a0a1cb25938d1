"""The links of simulated hosts: transfers share them, and what they copy is counted.

Invariant: between two events every transfer has one rate. It is the smaller of its shares of the link that it leaves
by and of the link that it arrives by; the transfers of a link have equal shares in each direction.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from whimbrel.domain.ids import CellName, HostName

NEVER = float("inf")
SMALLEST = 1.0
"""What is left of a transfer by rounding, in bytes."""


@dataclass
class Flow:
    """A transfer. Amounts in bytes, rates in bytes per second. None: the image service, whose link is never full.

    written: what its guest writes per second to what was copied already. most: the highest rate; 0: unlimited.
    """

    source: HostName | None
    target: HostName | None
    total: float
    written: float = 0.0
    most: float = 0.0
    remaining: float = 0.0
    copied: float = 0.0
    rate: float = 0.0

    def ends(self) -> Iterator[tuple[str, HostName]]:
        """Yield the directions of links that it uses."""
        if self.source:
            yield "from", self.source
        if self.target:
            yield "to", self.target


@dataclass
class Traffic:
    """What a link, or the network between two cells, has carried in one direction. Bytes, and bytes per second."""

    copied: float = 0.0
    peak: float = 0.0


@dataclass
class Links:
    """bytes_s: of a host's link, in each direction. cells: of the hosts. The time is that of the loop."""

    bytes_s: float
    cells: dict[HostName, CellName]
    traffic: dict[tuple[str, HostName], Traffic] = field(default_factory=dict)
    between: dict[tuple[CellName, CellName], Traffic] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)
    _at: float = 0.0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self, name: str, flow: Flow) -> None:
        """Start a transfer. name: unique among those under way."""
        self._advance()
        flow.remaining = flow.total
        self.flows[name] = flow
        self._share()

    def end(self, name: str) -> Flow | None:
        """End a transfer, complete or not. Idempotent."""
        self._advance()
        flow = self.flows.pop(name, None)
        if flow:
            self._share()
        return flow

    def remaining(self, name: str) -> float:
        self._advance()
        return self.flows[name].remaining

    async def carry(self, name: str, flow: Flow) -> None:
        """Copy something, and return when it has arrived. If it is cancelled, the transfer ends."""
        self.begin(name, flow)
        try:
            while self.remaining(name) > SMALLEST:
                await self.wait(flow.remaining / flow.rate if flow.rate else NEVER)
        finally:
            self.end(name)

    async def wait(self, seconds: float) -> None:
        """Wait for this time, or until the rates change."""
        changed = self._changed
        try:
            async with asyncio.timeout(None if seconds == NEVER else seconds):
                await changed.wait()
        except TimeoutError:
            return

    # Inside

    def _advance(self) -> None:
        """Account for what was copied since the last event."""
        now = asyncio.get_running_loop().time()
        elapsed, self._at = now - self._at, now
        if elapsed <= 0:
            return
        for flow in self.flows.values():
            gained = flow.rate - flow.written
            busy_s = min(elapsed, flow.remaining / gained) if gained > 0 else elapsed
            done = flow.rate * busy_s
            flow.remaining = min(flow.total, max(0.0, flow.remaining - gained * elapsed))
            flow.copied += done
            for traffic in self._traffic(flow):
                traffic.copied += done

    def _share(self) -> None:
        """Recompute the rates, and wake the tasks that wait for transfers."""
        used = Counter(end for flow in self.flows.values() for end in flow.ends())
        now: defaultdict[int, float] = defaultdict(float)
        for flow in self.flows.values():
            flow.rate = min((self.bytes_s / used[end] for end in flow.ends()), default=NEVER)
            flow.rate = min(flow.rate, flow.most or NEVER)
            for traffic in self._traffic(flow):
                now[id(traffic)] += flow.rate
                traffic.peak = max(traffic.peak, now[id(traffic)])
        self._changed.set()
        self._changed = asyncio.Event()

    def _traffic(self, flow: Flow) -> Iterator[Traffic]:
        for end in flow.ends():
            yield self.traffic.setdefault(end, Traffic())
        cells = [self.cells[host] for host in (flow.source, flow.target) if host]
        if len(set(cells)) > 1:
            yield self.between.setdefault((cells[0], cells[1]), Traffic())
