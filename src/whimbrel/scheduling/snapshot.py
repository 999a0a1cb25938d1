"""What a decision looks at: the hosts as they are at one moment, and what is asked of them."""

import msgspec

from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.ports.placement import Way


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    name: HostName
    cell: CellName
    provider: ProviderId
    zone: str
    enabled: bool
    up: bool
    free: dict[str, int]
    capacity: dict[str, int]
    max_unit: dict[str, int]
    way: Way | str | None = None  # where ports ask for resources: how they could be served there, or why they could not
    lacks: str | None = None  # which PCI devices it lacks


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked; None: anything."""

    resources: dict[str, int]
    cell: CellName | None = None
    zone: str | None = None
    host: HostName | None = None
    excluded: frozenset[HostName] = frozenset()
    excluded_because: str = "it is the host that the server is on"
    spread: str = ""  # hosts of equal weight are taken in an order that depends on this


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    host: HostName
    cell: CellName
    provider: ProviderId
    zone: str
    way: Way | None = None


class Considered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one host: out, with the reason, or in, with its weight."""

    host: HostName
    reason: str | None = None
    weight: float | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Choices, the best first; and every host that was considered, those left out with the reason."""

    choices: tuple[Choice, ...]
    considered: tuple[Considered, ...]

    def summary(self) -> str:
        """Say in one sentence why there is no host; hosts are counted by reason, not named."""
        counts: dict[str, int] = {}
        for one in self.considered:
            if one.reason:
                counts[one.reason] = counts.get(one.reason, 0) + 1
        if not counts:
            return "No valid host was found: the cloud has no hosts."
        why = "; ".join(f"{number}: {reason}" for reason, number in sorted(counts.items(), key=lambda c: -c[1]))
        return f"No valid host was found. Of {len(self.considered)} hosts considered, {why}."
