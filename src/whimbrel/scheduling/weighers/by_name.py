"""Weighers, by their Nova names: how good a host is, higher is better.

Weights are normalized to 0..1 over the remaining hosts (skipped if all are equal) and multiplied by the multiplier
of the weigher, which aggregate metadata can override for their hosts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from whimbrel.domain.resources import DISK_GB, MEMORY_MB, VCPU
from whimbrel.ports.arrays import Floats, Numbers
from whimbrel.scheduling.filters.aggregate_overrides import overridden
from whimbrel.scheduling.filters.by_group import members
from whimbrel.scheduling.filters.host_metrics import metric_weight
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot
from whimbrel.scheduling.weighers.image_properties import MULTIPLIER as LIKE_IMAGES
from whimbrel.scheduling.weighers.image_properties import alike

Measure = Callable[[Request, Snapshot], "Numbers | Floats | None"]
"""Returns a number for each host; None: it does not apply to this request."""

MANY_DEVICES = 99
"""From this number of free PCI devices on, hosts count as equal."""


@dataclass(frozen=True)
class Weigher:
    multiplier: str  # its name in the rules and in aggregate metadata
    measure: Measure


def cpu(request: Request, snapshot: Snapshot) -> Numbers:
    return snapshot.capacity.free(VCPU)


def ram(request: Request, snapshot: Snapshot) -> Numbers:
    return snapshot.capacity.free(MEMORY_MB)


def disk(request: Request, snapshot: Snapshot) -> Numbers:
    return snapshot.capacity.free(DISK_GB)


def io_ops(request: Request, snapshot: Snapshot) -> Numbers:
    return snapshot.fleet.io_ops


def num_instances(request: Request, snapshot: Snapshot) -> Numbers:
    return snapshot.fleet.servers


def hypervisor_version(request: Request, snapshot: Snapshot) -> Numbers:
    return snapshot.fleet.versions


def build_failure(request: Request, snapshot: Snapshot) -> Numbers:
    """Failed builds count against a host until one succeeds."""
    return -snapshot.fleet.failed_builds


def pci(request: Request, snapshot: Snapshot) -> Numbers:
    """Spare devices for requests that need some, and use up the devices of hosts with few first."""
    return -np.minimum(snapshot.fleet.free_pci, MANY_DEVICES)


def soft_affinity(request: Request, snapshot: Snapshot) -> Numbers | None:
    return members(request, snapshot) if request.group and request.group.policy == "soft-affinity" else None


def soft_anti_affinity(request: Request, snapshot: Snapshot) -> Numbers | None:
    return -members(request, snapshot) if request.group and request.group.policy == "soft-anti-affinity" else None


def cross_cell(request: Request, snapshot: Snapshot) -> Numbers | None:
    """Prefer the server's current cell if it may leave it."""
    home, cells = request.home_cell, request.cells
    if home is None or cells == frozenset({home}):
        return None
    return snapshot.fleet.in_cell(home).astype(np.int64)


def zone(request: Request, snapshot: Snapshot) -> Numbers | None:
    """Prefer the preferred zone, if any (az_on_move = prefer). Not in Nova."""
    preferred = request.preferred_zone
    return None if preferred is None else snapshot.fleet.in_zone(preferred).astype(np.int64)


WEIGHERS: Mapping[str, Weigher] = {
    "CPUWeigher": Weigher("cpu_weight_multiplier", cpu),
    "RAMWeigher": Weigher("ram_weight_multiplier", ram),
    "DiskWeigher": Weigher("disk_weight_multiplier", disk),
    "PCIWeigher": Weigher("pci_weight_multiplier", pci),
    "BuildFailureWeigher": Weigher("build_failure_weight_multiplier", build_failure),
    "IoOpsWeigher": Weigher("io_ops_weight_multiplier", io_ops),
    "NumInstancesWeigher": Weigher("num_instances_weight_multiplier", num_instances),
    "HypervisorVersionWeigher": Weigher("hypervisor_version_weight_multiplier", hypervisor_version),
    "MetricsWeigher": Weigher("metrics_weight_multiplier", metric_weight),
    "ImagePropertiesWeigher": Weigher(LIKE_IMAGES, alike),
    "ServerGroupSoftAffinityWeigher": Weigher("soft_affinity_weight_multiplier", soft_affinity),
    "ServerGroupSoftAntiAffinityWeigher": Weigher("soft_anti_affinity_weight_multiplier", soft_anti_affinity),
    "CrossCellWeigher": Weigher("cross_cell_move_weight_multiplier", cross_cell),
    "ZoneWeigher": Weigher("zone_weight_multiplier", zone),
}

MISSING: Mapping[str, str] = {
    "weight_classes": "all weighers are on, and one whose multiplier is 0 counts for nothing",
    "available_filters": "there are no filters but its own, and enabled_filters says which are on",
    "track_instance_changes": "the servers on a host are read, not pushed",
}
"""Rules of Nova's scheduler that do not exist here, and the reason."""


def weigh(request: Request, snapshot: Snapshot, left: Numbers) -> dict[str, Floats]:
    """Return the weights of the hosts at these indices by weigher; those that make no difference are omitted."""
    parts = {}
    for name, weigher in WEIGHERS.items():
        rule: float = getattr(snapshot.rules, weigher.multiplier)
        multipliers = overridden(snapshot.fleet, weigher.multiplier, rule)[left]
        if not multipliers.any():
            continue
        measured = weigher.measure(request, snapshot)
        if measured is not None and (part := _normalized(measured[left])) is not None:
            parts[name] = multipliers * part
    return parts


def _normalized(raw: Numbers | Floats) -> Floats | None:
    low, high = (raw.min(), raw.max()) if len(raw) else (0, 0)
    return (raw - low) / (high - low) if high > low else None
