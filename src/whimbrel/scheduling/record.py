"""The record of a decision: who was considered, and what became of each. It is kept with the move, and shown.

Law: the record is all that is ever told of a decision, before it is taken (a plan) or after; it is made once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from whimbrel.domain.ids import HostName
from whimbrel.ports.fleet import Numbers
from whimbrel.scheduling.constraint import Constraint, Reason
from whimbrel.scheduling.pipeline import Ranking

MOST_TOLD = 1000
"""How many hosts a record tells of one by one: the best, then those that miss least. The counts are of all."""
MOST_MISSES = 5


class Considered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one host: out, for a reason, or in, with the weights that ranked it."""

    host: HostName
    reason: Reason | None = None
    weight: float | None = None
    weights: Mapping[str, float] = {}  # by weigher


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many hosts are out for a reason, each counted for its first one."""

    constraint: str
    words: str
    hosts: int


class Miss(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A host that almost would do: all that is wrong with it, and what would mend each."""

    host: HostName
    reasons: tuple[Reason, ...]
    remedies: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    hosts: int  # how many were considered
    at: float = 0.0
    asked: Mapping[str, int] = {}  # resources, ports' included
    zone: str | None = None
    zone_because: str = ""
    chosen: tuple[HostName, ...] = ()  # the best first; the others are tried if it refuses
    counts: tuple[Count, ...] = ()
    considered: tuple[Considered, ...] = ()  # at most MOST_TOLD
    misses: tuple[Miss, ...] = ()  # the nearest first; none where a host was chosen

    def summary(self) -> str:
        """Say in a sentence why there is no host, or how many there were; hosts are counted by reason, not named."""
        if not self.hosts:
            return "No valid host was found: the cloud has no hosts."
        out = "; ".join(f"{one.hosts}: {one.words}" for one in self.counts)
        if self.chosen:
            fit = self.hosts - sum(one.hosts for one in self.counts)
            return f"{fit} of {self.hosts} hosts fit" + (f"; of the others, {out}." if out else ".")
        return f"No valid host was found. Of {self.hosts} hosts considered, {out}."


def make_record(ranking: Ranking, closer: Mapping[int, Reason], chosen: Iterable[HostName]) -> Record:
    """closer: by place, what a closer look showed to be wrong with a host."""
    request, snapshot, taken = ranking.request, ranking.snapshot, tuple(chosen)
    groups = (group.resources for group in ranking.wish.groups)
    return Record(
        hosts=len(snapshot),
        at=snapshot.now,
        asked=dict(sum((Counter(dict(some)) for some in (ranking.wish.own, *groups)), Counter())),
        zone=request.zone,
        zone_because=request.zone_because,
        chosen=taken,
        counts=_counts(ranking, closer),
        considered=_considered(ranking, closer),
        misses=() if taken else _misses(ranking, closer),
    )


def _counts(ranking: Ranking, closer: Mapping[int, Reason]) -> tuple[Count, ...]:
    numbers: Counter[tuple[str, str]] = Counter((each.constraint, each.words) for each in closer.values())
    first = ranking.first.copy()
    first[list(closer)] = 0
    for number, hosts in enumerate(np.bincount(first, minlength=1).tolist()[1:]):
        if hosts:
            constraint = ranking.constraints[number]
            numbers[constraint.name, constraint.words] += hosts
    return tuple(Count(constraint=name, words=words, hosts=n) for (name, words), n in numbers.most_common())


def _considered(ranking: Ranking, closer: Mapping[int, Reason]) -> tuple[Considered, ...]:
    names, parts = ranking.snapshot.fleet.names, ranking.parts
    ranked = [number for number, place in enumerate(ranking.order[:MOST_TOLD].tolist()) if place not in closer]
    columns = {name: part[:MOST_TOLD].round(3).tolist() for name, part in parts.items()}
    weights, order = ranking.weights[:MOST_TOLD].round(3).tolist(), ranking.order[:MOST_TOLD].tolist()
    told = [
        Considered(
            host=names[order[number]],
            weight=weights[number],
            weights={name: column[number] for name, column in columns.items()},
        )
        for number in ranked
    ]
    left = MOST_TOLD - len(told)
    missing = [place for place in closer if ranking.first[place] == 0]
    missing += _by_misses(ranking)[: left - len(missing)].tolist() if left > len(missing) else []
    told += [Considered(host=names[place], reason=_reason(ranking, closer, place)) for place in missing[:left]]
    return tuple(told)


def _by_misses(ranking: Ranking) -> Numbers:
    """Give the places of those that a constraint leaves out, those that miss least first."""
    out = np.flatnonzero(ranking.first)
    return out[np.argsort(ranking.misses[out], kind="stable")]


def _reason(ranking: Ranking, closer: Mapping[int, Reason], place: int) -> Reason:
    if place in closer:
        return closer[place]
    return ranking.constraints[int(ranking.first[place]) - 1].reason(place)


def _misses(ranking: Ranking, closer: Mapping[int, Reason]) -> tuple[Miss, ...]:
    """List the hosts that miss least; among these the ones that lack the smallest part of what is asked for."""
    out = _by_misses(ranking)
    if not len(out):
        return ()
    least = ranking.misses[out[0]]
    near = out[ranking.misses[out] == least]
    near = near[np.argsort(_shortfall(ranking, near), kind="stable")][:MOST_MISSES]
    return tuple(_miss(ranking, closer, place) for place in near.tolist())


def _shortfall(ranking: Ranking, places: Numbers) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Give how much of what is asked for each lacks; what is no matter of amounts counts as lacking all of it."""
    total = np.zeros(len(places))
    for constraint in ranking.constraints:
        fails = ~constraint.passes[places]
        if not fails.any():
            continue
        if constraint.free is None or not constraint.asked:
            total += fails
        else:
            total += fails * (1 - np.clip(constraint.free[places], 0, None) / constraint.asked)
    return total


def _miss(ranking: Ranking, closer: Mapping[int, Reason], place: int) -> Miss:
    wrong: list[Constraint] = [each for each in ranking.constraints if not each.passes[place]]
    reasons = [_reason(ranking, closer, place)] if place in closer else [each.reason(place) for each in wrong]
    remedies = [said for each in wrong if (said := each.remedy(place))]
    return Miss(host=ranking.snapshot.fleet.names[place], reasons=tuple(reasons), remedies=tuple(remedies))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode


def to_bytes(record: Record) -> bytes:
    return _encode(record)


def from_bytes(document: bytes) -> Record:
    return _decode(document)
