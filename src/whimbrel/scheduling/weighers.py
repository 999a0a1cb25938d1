"""Weighers: how good a host is, higher is better. Each is brought to 0..1 over the hosts that are left, then summed."""

from collections.abc import Callable, Sequence

from whimbrel.domain.resources import DISK_GB, MEMORY_MB, VCPU
from whimbrel.scheduling.snapshot import HostState

Weigher = Callable[[HostState], float]


def free_cpus(host: HostState) -> float:
    return host.free.get(VCPU, 0)


def free_memory(host: HostState) -> float:
    return host.free.get(MEMORY_MB, 0)


def free_disk(host: HostState) -> float:
    return host.free.get(DISK_GB, 0)


WEIGHERS: tuple[tuple[Weigher, float], ...] = (
    (free_cpus, 1.0),
    (free_memory, 1.0),
    (free_disk, 1.0),
)


def weights(hosts: Sequence[HostState]) -> list[float]:
    """Give the weight of each host, in the same order."""
    total = [0.0] * len(hosts)
    for weigher, multiplier in WEIGHERS:
        raw = [weigher(host) for host in hosts]
        low, high = min(raw), max(raw)
        if high > low:
            total = [t + multiplier * (r - low) / (high - low) for t, r in zip(total, raw, strict=True)]
    return total
