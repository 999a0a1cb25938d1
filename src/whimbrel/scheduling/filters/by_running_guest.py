"""Constraints of a live move: the running guest keeps its processor and its hypervisor, so the target must have both.

In force for live moves only. A host that does not report its features passes: it is asked before anything is reserved.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import msgspec

from whimbrel.domain.host import Host
from whimbrel.domain.live_transfer import GuestCpu
from whimbrel.ports.arrays import Numbers
from whimbrel.ports.stores.fleet import Fleet
from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot

CPU, HYPERVISOR = "processor", "hypervisor"
FEATURES = "CPU features"


def running_guest(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    guest, fleet = request.live, snapshot.fleet
    if guest is None:
        return
    if guest.host in fleet.row:
        yield from _hypervisor(fleet.hosts[fleet.row[guest.host]], fleet)
    if arch := guest.cpu.arch:
        passes = fleet.where("cpu_info", lambda info: _processor(info).arch in ("", arch))
        yield Constraint(CPU, passes, f"its processor is not of the architecture {arch}, which the guest runs on")
    yield from _features(guest.cpu, fleet)


def _hypervisor(source: Host, fleet: Fleet) -> Iterator[Constraint]:
    """Source: Nova's check of the hypervisors of a live migration, reference section 1.2.2."""
    kind, version = source.hypervisor_type, source.hypervisor_version
    same = fleet.where("hypervisor_type", lambda its: its.lower() == kind.lower())
    yield Constraint(HYPERVISOR, same, f"its hypervisor is not {kind}, which the guest runs on")
    words = f"its hypervisor is older than {version}, the version that the guest runs on"
    yield Constraint(HYPERVISOR, fleet.versions >= version, words)


def _features(cpu: GuestCpu, fleet: Fleet) -> Iterator[Constraint]:
    """Yield a constraint for each set of missing features, because its words name them."""
    wanted = frozenset(cpu.features)
    there, lacking = fleet.once(_compared, wanted) if wanted else (None, {})
    for words, infos in lacking.items():
        passes = fleet.where("cpu_info", lambda info, infos=infos: info not in infos)  # type: ignore[misc]
        yield Constraint(CPU, passes, words, resource=FEATURES, asked=len(wanted), free=there)


def _compared(fleet: Fleet, wanted: frozenset[str]) -> tuple[Numbers, dict[str, set[str]]]:
    """Return how many of these features each host has, and what hosts lack, in words -> their cpu_info."""
    lacking: dict[str, set[str]] = defaultdict(set)
    count: dict[str, int] = {}
    for info in fleet.values("cpu_info"):
        has = _processor(info).features
        missing = sorted(wanted - has) if has else []
        count[info] = len(wanted) - len(missing)
        if missing:
            lacking[_in_words(missing)].add(info)
    return fleet.numbers("cpu_info", count), dict(lacking)


def _in_words(missing: list[str]) -> str:
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"its processor lacks {missing[0]}{more}"


class _Processor(NamedTuple):
    arch: str = ""
    features: frozenset[str] = frozenset()  # empty: unknown


class _Info(msgspec.Struct, frozen=True):
    """What this filter reads of a host's cpu_info."""

    arch: str | None = ""
    features: frozenset[str] = frozenset()  # in Nova's format those that the model does not have
    guest_features: frozenset[str] | None = None  # all that guests can have; empty: unknown. None: `features` are all


@lru_cache(maxsize=1024)
def _processor(cpu_info: str) -> _Processor:
    try:
        found = msgspec.json.decode(cpu_info, type=_Info)
    except msgspec.DecodeError:
        return _Processor()
    return _Processor(found.arch or "", found.features if found.guest_features is None else found.guest_features)
