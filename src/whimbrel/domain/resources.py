"""Amounts of resource classes, in Placement's names and units."""

from collections.abc import Mapping

from os_resource_classes import DISK_GB, MEMORY_MB, PCPU, VCPU

Resources = Mapping[str, int]
"""Resource class -> amount: VCPU in whole cpus, MEMORY_MB in MiB, DISK_GB in GiB. Zero amounts are omitted."""


def of_flavor(vcpus: int, memory_mib: int, root_gib: int, ephemeral_gib: int = 0, swap_mib: int = 0) -> dict[str, int]:
    """Return the resources of a server of these sizes on a host. Swap counts in whole GiB, rounded up."""
    disk_gib = root_gib + ephemeral_gib + -(-swap_mib // 1024)
    amounts = {VCPU: vcpus, MEMORY_MB: memory_mib, DISK_GB: disk_gib}
    return {name: amount for name, amount in amounts.items() if amount}


__all__ = ["DISK_GB", "MEMORY_MB", "PCPU", "VCPU", "Resources", "of_flavor"]
