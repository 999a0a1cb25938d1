"""Checks the description that an agent sends: a host may be wrong about itself, and only about itself."""

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address

import msgspec

from whimbrel.domain.errors import Invalid
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.ids import HostName
from whimbrel.domain.resources import DISK_GB, MEMORY_MB, PCPU, VCPU
from whimbrel.placement import resource_names as names
from whimbrel.ports.placement.placement import DISABLED
from whimbrel.ports.stores.cells import CellInfo

ZONE = re.compile(r"(?!internal$)[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
DRIVERS = ("simulated", "libvirt")
MOST_CPUS = 2**20
MOST_OF_SIZE = 2**30
MOST_ITEMS = 4096
LONGEST_CPU_INFO = 1 << 18
LONGEST_HARDWARE = 1 << 22
LONGEST_NAME = 64
LONGEST_LEASE_S = 86400.0
OWN_KEYS = (VCPU, PCPU, MEMORY_MB, DISK_GB)


def check(host: HostName, description: HostDescription, cell: CellInfo) -> None:
    """Raises: Invalid: names what is wrong."""
    if wrong := next((name for name, is_right in _CHECKS.items() if not is_right(description)), None):
        raise Invalid(f"the description of host '{host}' has no valid '{wrong}': correct it in the agent's settings")
    if description.name != host or description.net.host != host:
        raise Invalid(f"host '{host}' describes another one, '{description.name}': use its own agent's settings")
    physnets = [*(card.physnet for card in description.net.cards), *(device.physnet for device in description.pci)]
    if other := next((each for each in physnets if each and not cell.reaches_network(each)), None):
        raise Invalid(
            f"host '{host}' is on the physical network '{other}', which is not among those of its cell '{cell.name}':"
            " add it to the cell, or remove it from the host"
        )


def _are_traits(traits: Iterable[str]) -> bool:
    return all((names.is_custom(each) or each in names.standard_traits()) and each != DISABLED for each in traits)


def _are_resources(resources: Mapping[str, int]) -> bool:
    return all(
        (names.is_custom(name) or (name in names.STANDARD_CLASSES and name not in OWN_KEYS))
        and 1 <= amount <= MOST_OF_SIZE
        for name, amount in resources.items()
    )


def _are_few_and_different(items: Iterable[str]) -> bool:
    listed = list(items)
    return len(listed) <= MOST_ITEMS and len(set(listed)) == len(listed)


def _is_ipv4(address: str) -> bool:
    try:
        return ip_address(address).version == 4
    except ValueError:
        return False


_CHECKS: Mapping[str, Callable[[HostDescription], bool]] = {
    "zone": lambda said: ZONE.fullmatch(said.zone) is not None,
    "driver": lambda said: said.driver in DRIVERS,
    "vcpus": lambda said: 1 <= said.vcpus <= MOST_CPUS,
    "dedicated_vcpus": lambda said: 0 <= said.dedicated_vcpus <= MOST_CPUS,
    "memory_mib": lambda said: 1 <= said.memory_mib <= MOST_OF_SIZE,
    "disk_gib": lambda said: 0 <= said.disk_gib <= MOST_OF_SIZE,
    "traits": lambda said: _are_few_and_different(said.traits) and _are_traits(said.traits),
    "resources": lambda said: _are_few_and_different(said.resources) and _are_resources(said.resources),
    "tunnel_address": lambda said: not said.net.tunnel_address or _is_ipv4(said.net.tunnel_address),
    "nic": lambda said: _are_few_and_different(card.name for card in said.net.cards),
    "pci": lambda said: _are_few_and_different(device.address for device in said.pci),
    "live_migratable_pci": lambda said: _are_few_and_different(said.live_migratable_pci or ()),
    "numa": lambda said: len(said.numa) <= MOST_ITEMS,
    "cpu_info": lambda said: len(said.cpu_info) <= LONGEST_CPU_INFO,
    "hypervisor_type": lambda said: 1 <= len(said.hypervisor_type) <= LONGEST_NAME,
    "hypervisor_version": lambda said: 0 <= said.hypervisor_version < 2**31,
    "host_ip": lambda said: 1 <= len(said.host_ip) <= LONGEST_NAME,
    "hardware": lambda said: len(msgspec.json.encode(said.hardware or None)) <= LONGEST_HARDWARE,
    "self_fence_s": lambda said: not said.self_fence_s or 0 < said.self_fence_s <= LONGEST_LEASE_S,
}
"""Field -> whether it is valid. The types themselves are checked when a message is decoded."""
