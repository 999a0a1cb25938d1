"""The type of machine that a guest is: its hypervisor must know it.

A host that does not report its types passes: simulated hosts play any.
"""

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot

MACHINE = "machine type"


def machine(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    if not (wanted := request.machine):
        return
    passes = snapshot.fleet.where("cpu_info", lambda info: wanted in (_machines(info) or (wanted,)))
    yield Constraint(MACHINE, passes, f"its hypervisor has no machine of type {wanted}")


class _Info(msgspec.Struct, frozen=True):
    """What this filter reads of a host's cpu_info."""

    machines: frozenset[str] = frozenset()  # empty: unknown


@lru_cache(maxsize=1024)
def _machines(cpu_info: str) -> frozenset[str]:
    try:
        return msgspec.json.decode(cpu_info, type=_Info).machines
    except msgspec.DecodeError:
        return frozenset()
