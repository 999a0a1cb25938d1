"""The trace of a decision: the hosts considered and the verdict on each. It is kept with the move, and shown.

Invariant: the trace is the only source of what is reported about a decision, before it (a plan) or after; it is made
once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.nouns import counted
from whimbrel.ports.arrays import Floats, Mask, Numbers
from whimbrel.scheduling.constraint import Constraint, NearMiss, Reason, no_suggestion
from whimbrel.scheduling.pipeline import Ranking

MOST_TOLD = 1000
"""Hosts listed in a trace: the best, then those with the fewest failures. The counts include all hosts."""
MOST_MISSES = 5
DIGITS = 3  # of weights
NO_HOSTS = "No valid host was found: the cloud has no hosts."


class Considered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The verdict on one host: out, with a reason, or in, with the weights that ranked it."""

    host: HostName
    reason: Reason | None = None
    weight: float | None = None
    weights: Mapping[str, float] = {}  # by weigher

    @property
    def verdict(self) -> Literal["in", "out"]:
        return "in" if self.reason is None else "out"


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Number of hosts that are out for a reason; each host counts for its first reason."""

    constraint: str
    words: str
    hosts: int


class Miss(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A host that almost fits: all reasons against it, and a remedy for each."""

    host: HostName
    reasons: tuple[Reason, ...]
    remedies: tuple[str, ...] = ()


class DecisionTrace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"unreachable": "silent"}):
    """Hosts are stored in columns, which takes a tenth of the time: `considered` reads them.

    Hosts that are in come first, best first; then those that are out, fewest failures first.
    """

    hosts: int  # hosts considered
    at: float = 0.0
    asked: Mapping[str, int] = {}  # requested resources, including those of ports
    zone: str | None = None
    zone_because: str = ""
    chosen: tuple[HostName, ...] = ()  # best first; the others are tried if it refuses
    overridden: tuple[Reason, ...] = ()  # against the first of them, but the request forces it
    unreachable: tuple[CellName, ...] = ()  # candidate cells that did not answer
    counts: tuple[Count, ...] = ()
    misses: tuple[Miss, ...] = ()  # nearest first; none if a host was chosen
    names: tuple[HostName, ...] = ()  # at most MOST_TOLD
    weights: tuple[float, ...] = ()  # of those that are in
    parts: Mapping[str, tuple[float, ...]] = {}  # of the same, by weigher
    reasons: tuple[Reason, ...] = ()  # without the numbers of a host
    verdicts: tuple[int, ...] = ()  # of those that are out: index of the reason
    free: tuple[int, ...] = ()  # of the same: free amount of the requested resource; negative: not about an amount

    @property
    def considered(self) -> list[Considered]:
        into = len(self.weights)
        inside = [
            Considered(
                host=host,
                weight=round(weight, DIGITS),
                weights={name: round(part[number], DIGITS) for name, part in self.parts.items()},
            )
            for number, (host, weight) in enumerate(zip(self.names, self.weights, strict=False))
        ]
        outside = [
            Considered(host=host, reason=_with_free(self.reasons[verdict], free))
            for host, verdict, free in zip(self.names[into:], self.verdicts, self.free, strict=True)
        ]
        return inside + outside

    def summary(self) -> str:
        """Return a sentence: why there is no host, or how many there were; hosts are counted by reason, not named."""
        unheard = (
            f" {len(self.unreachable)} of the cells did not answer; their hosts are not among them."
            if self.unreachable
            else ""
        )
        if not self.hosts:
            return "No valid host was found: no cell answers." if unheard else NO_HOSTS
        out = "; ".join(f"{one.hosts}: {one.words}" for one in self.counts)
        if self.chosen:
            fit = self.hosts - sum(one.hosts for one in self.counts)
            return f"{fit} of {self.hosts} hosts fit" + (f"; of the others, {out}." if out else ".") + unheard
        return f"No valid host was found. Of {counted(self.hosts, 'host')} considered, {out}.{unheard}"


def _with_free(reason: Reason, free: int) -> Reason:
    return reason if free < 0 else replace(reason, free=free)


def make_trace(
    ranking: Ranking, near_misses: Mapping[int, NearMiss], chosen: Iterable[HostName], most: int = MOST_TOLD
) -> DecisionTrace:
    """near_misses: host index -> the result of examining the host. most: hosts listed in the trace."""
    request, snapshot, taken = ranking.request, ranking.snapshot, tuple(chosen)
    groups = (group.resources for group in ranking.resources.groups)
    return DecisionTrace(
        hosts=len(snapshot),
        at=snapshot.now,
        asked=dict(sum((Counter(dict(some)) for some in (ranking.resources.own, *groups)), Counter())),
        zone=request.zone,
        zone_because=request.zone_because,
        chosen=taken,
        overridden=_overridden(ranking, taken[0]) if taken else (),
        unreachable=tuple(
            cell for cell in sorted(snapshot.fleet.unreachable) if request.cells is None or cell in request.cells
        ),
        counts=_counts(ranking, near_misses),
        misses=() if taken else _misses(ranking, near_misses),
        **_columns(ranking, near_misses, most),
    )


def _overridden(ranking: Ranking, host: HostName) -> tuple[Reason, ...]:
    host_index = ranking.snapshot.fleet.row[host]
    return tuple(each.reason(host_index) for each in ranking.overridden if not each.passes[host_index])


def _counts(ranking: Ranking, near_misses: Mapping[int, NearMiss]) -> tuple[Count, ...]:
    numbers: Counter[tuple[str, str]] = Counter(
        (each.reason.constraint, each.reason.words) for each in near_misses.values()
    )
    first = ranking.first.copy()
    first[list(near_misses)] = 0
    for number, hosts in enumerate(np.bincount(first, minlength=1).tolist()[1:]):
        if hosts:
            constraint = ranking.constraints[number]
            numbers[constraint.name, constraint.words] += hosts
    return tuple(Count(constraint=name, words=words, hosts=n) for (name, words), n in numbers.most_common())


def _columns(ranking: Ranking, near_misses: Mapping[int, NearMiss], most: int) -> dict[str, Any]:
    inside, weights, parts = ranking.order, ranking.weights, ranking.parts
    if near_misses:
        left = ~np.isin(inside, list(near_misses))
        inside, weights, parts = inside[left], weights[left], {name: part[left] for name, part in parts.items()}
    inside = inside[:most]
    outside = _out(ranking, near_misses)[: most - len(inside)]
    return {
        "names": tuple(ranking.snapshot.fleet.named_at(np.concatenate([inside, outside]))),
        "weights": tuple(weights[:most].tolist()),
        "parts": {name: tuple(part[:most].tolist()) for name, part in parts.items()},
        **_verdicts(ranking, near_misses, outside),
    }


def _out(ranking: Ranking, near_misses: Mapping[int, NearMiss]) -> Numbers:
    """Return the indices of hosts that are out: first those that were examined, then the others."""
    out = _by_misses(ranking)
    if not near_misses:
        return out
    looked = np.array(list(near_misses), np.int64)
    return np.concatenate([looked, out[~np.isin(out, looked)]])


def _verdicts(ranking: Ranking, near_misses: Mapping[int, NearMiss], outside: Numbers) -> dict[str, Any]:
    """Return, for each of these hosts, the index of its reason and the free amount of the requested resource."""
    reason_numbers = ranking.first[outside] - 1
    free = np.full(len(outside), -1, np.int64)
    for number, (reason, _) in zip(
        range(len(outside)), near_misses.values(), strict=False
    ):  # they come first, in order
        reason_numbers[number] = len(ranking.constraints) + number
        free[number] = -1 if reason.free is None else reason.free
    used = np.flatnonzero(np.bincount(reason_numbers, minlength=1)).tolist() if len(reason_numbers) else []
    for number in used:
        if number < len(ranking.constraints) and (has := ranking.constraints[number].free) is not None:
            its = reason_numbers == number
            free[its] = np.maximum(has[outside[its]], 0)
    renumbered = np.zeros(len(ranking.constraints) + len(near_misses), np.int64)
    renumbered[used] = range(len(used))
    of_near_misses = [each.reason for each in near_misses.values()]
    return {
        "reasons": tuple(
            ranking.constraints[number].without_free()
            if number < len(ranking.constraints)
            else replace(of_near_misses[number - len(ranking.constraints)], free=None)
            for number in used
        ),
        "verdicts": tuple(renumbered[reason_numbers].tolist()),
        "free": tuple(free.tolist()),
    }


def _by_misses(ranking: Ranking) -> Numbers:
    """Return the indices of hosts that a constraint excludes, fewest failures first."""
    out = np.flatnonzero(ranking.first)
    return out[np.argsort(ranking.misses[out], kind="stable")]


def _reason(ranking: Ranking, near_misses: Mapping[int, NearMiss], host_index: int) -> Reason:
    if host_index in near_misses:
        return near_misses[host_index].reason
    return ranking.constraints[int(ranking.first[host_index]) - 1].reason(host_index)


def _misses(ranking: Ranking, near_misses: Mapping[int, NearMiss]) -> tuple[Miss, ...]:
    """List the hosts with the fewest failures, the smallest shortfall first.

    Hosts without any remedy are listed only if there are no others.
    """
    looked = np.fromiter(near_misses, np.int64, len(near_misses))
    host_indices = np.concatenate([looked[ranking.first[looked] == 0], np.flatnonzero(ranking.first)])
    unsatisfiable = _unsatisfiable(ranking, near_misses, host_indices)
    host_indices = host_indices if unsatisfiable.all() else host_indices[~unsatisfiable]
    number = np.maximum(ranking.misses[host_indices], 1)  # examining a host shows one reason at a time
    near = host_indices[number == number.min(initial=len(ranking.constraints) + 1)]
    near = near[np.argsort(_shortfall(ranking, near), kind="stable")][:MOST_MISSES]
    return tuple(_miss(ranking, near_misses, host_index) for host_index in near.tolist())


def _unsatisfiable(ranking: Ranking, near_misses: Mapping[int, NearMiss], host_indices: Numbers) -> Mask:
    """Return which of these hosts are out for a reason without a remedy."""
    for_good = [host_index for host_index, each in near_misses.items() if each.suggestion is None]
    found = np.isin(host_indices, np.array(for_good, np.int64))
    for constraint in ranking.constraints:
        if constraint.suggestion is no_suggestion:
            found |= ~constraint.passes[host_indices]
    return found


def _shortfall(ranking: Ranking, host_indices: Numbers) -> Floats:
    """Return the shortfall of each host as a sum of fractions; a reason that is not about an amount counts as 1."""
    total = np.zeros(len(host_indices))
    for constraint in ranking.constraints:
        fails = ~constraint.passes[host_indices]
        if not fails.any():
            continue
        if constraint.free is None or not constraint.asked:
            total += fails
        else:
            total += fails * (1 - np.clip(constraint.free[host_indices], 0, None) / constraint.asked)
    return total


def _miss(ranking: Ranking, near_misses: Mapping[int, NearMiss], host_index: int) -> Miss:
    wrong: list[Constraint] = [each for each in ranking.constraints if not each.passes[host_index]]
    reasons = (
        [_reason(ranking, near_misses, host_index)]
        if host_index in near_misses
        else [each.reason(host_index) for each in wrong]
    )
    remedies = (
        [near_misses[host_index].suggestion]
        if host_index in near_misses
        else [each.suggestion(host_index) for each in wrong]
    )
    return Miss(
        host=ranking.snapshot.fleet.names[host_index], reasons=tuple(reasons), remedies=tuple(filter(None, remedies))
    )


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(DecisionTrace).decode


def to_bytes(record: DecisionTrace) -> bytes:
    return _encode(record)


def from_bytes(document: bytes) -> DecisionTrace:
    return _decode(document)
