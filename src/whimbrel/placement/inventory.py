"""What an inventory allows: its capacity, and the valid amounts."""

from collections.abc import Mapping

import msgspec

from whimbrel.domain.host import Host
from whimbrel.domain.resources import DISK_GB, MEMORY_MB, PCPU, VCPU
from whimbrel.ports.cloud import Rules
from whimbrel.ports.placement.placement import Inventory

MAX_INT = 2**31 - 1

TRAITS_OF_HOSTS = (
    "COMPUTE_NODE",
    "OWNER_NOVA",
    "COMPUTE_IMAGE_TYPE_RAW",
    "COMPUTE_IMAGE_TYPE_QCOW2",
    "COMPUTE_STORAGE_BUS_VIRTIO",
    "COMPUTE_VOLUME_ATTACH",
    "COMPUTE_NET_ATTACH_INTERFACE",
    "COMPUTE_NET_VIF_MODEL_VIRTIO",
)
"""The traits of every host, regardless of its driver."""


def capacity(inventory: Inventory) -> int:
    """Return the total that can be allocated, including overcommit."""
    return int((inventory.total - inventory.reserved) * inventory.allocation_ratio)


class Stock(msgspec.Struct, frozen=True):
    """An inventory and its allocated amount."""

    inventory: Inventory
    used: int

    @property
    def capacity(self) -> int:
        return capacity(self.inventory)

    def fits(self, amount: int) -> bool:
        """Check whether this amount can be claimed: `capacity` and `unit_problem` in one step, for speed."""
        has = self.inventory
        return (
            has.min_unit <= amount <= has.max_unit
            and self.used + amount <= int((has.total - has.reserved) * has.allocation_ratio)
            and not amount % has.step_size
        )


def unit_problem(inventory: Inventory, amount: int) -> str | None:
    """Return why an amount is invalid for one claim, regardless of the free amount, or None."""
    if amount < inventory.min_unit:
        return f"{amount} is less than min_unit {inventory.min_unit}"
    if amount > inventory.max_unit:
        return f"{amount} is more than max_unit {inventory.max_unit}"
    if amount % inventory.step_size:
        return f"{amount} is not a multiple of step_size {inventory.step_size}"
    return None


def of_host(host: Host, rules: Rules) -> dict[str, Inventory]:
    """Return the inventories of a host's provider."""
    amounts = {
        VCPU: (host.vcpus, rules.cpu_allocation_ratio),
        MEMORY_MB: (host.memory_mib, rules.ram_allocation_ratio),
        DISK_GB: (host.disk_gib, rules.disk_allocation_ratio),
    }
    return {
        name: Inventory(total=total, max_unit=total, allocation_ratio=ratio)
        for name, (total, ratio) in amounts.items()
        if total  # classes without any amount are omitted
    }


def besides(dedicated_vcpus: int, resources: Mapping[str, int]) -> dict[str, Inventory]:
    """Return the inventories of a host besides its sizes: dedicated CPUs, and resources named by its operator."""
    amounts = {PCPU: dedicated_vcpus, **resources}
    return {name: Inventory(total=total, max_unit=total) for name, total in amounts.items() if total}
