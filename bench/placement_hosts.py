"""The hosts that Placement is measured with, and the candidates that are asked for.

A host has 64 VCPU (4.0 times), 256 GiB, 4 TB, 24 traits and one of three aggregates; every tenth is gold, which is one
trait more. A nested one has a network card as a child, with bandwidth and virtual functions.
"""

import uuid
from random import Random

import os_traits

TRAITS = sorted(name for name in os_traits.get_traits("HW_CPU_X86_") if not name.startswith("HW_CPU_X86_AMD"))[:24]
GOLD, BRONZE, PHYSNET = "CUSTOM_GOLD", "CUSTOM_BRONZE", "CUSTOM_PHYSNET_0"
AGGREGATES = [str(uuid.UUID(int=number + 1)) for number in range(3)]
OF_HOST = {"VCPU": (64, 4.0), "MEMORY_MB": (262144, 1.0), "DISK_GB": (4000, 1.0)}  # total, ratio
OF_CARD = {"NET_BW_EGR_KILOBIT_PER_SEC": (10_000_000, 1.0), "SRIOV_NET_VF": (64, 1.0)}

_PLAIN = "resources=VCPU:{vcpus},MEMORY_MB:{mib},DISK_GB:{gib}"
_CARD = "resources_N=NET_BW_EGR_KILOBIT_PER_SEC:1000,SRIOV_NET_VF:1&required_N=" + PHYSNET
CANDIDATES = {
    "plain": _PLAIN,
    "traits and aggregate": f"{_PLAIN}&required={TRAITS[0]},{GOLD},!{BRONZE}&member_of={AGGREGATES[0]}",
    "granular": f"{_PLAIN}&{_CARD}&group_policy=none",
    "isolate and same_subtree": "resources_C=VCPU:{vcpus},MEMORY_MB:{mib}"
    f"&{_CARD}&group_policy=isolate&same_subtree=_C,_N",
}


def host_id(number: int) -> str:
    return str(uuid.UUID(int=(1 << 64) + number))


def card_id(number: int) -> str:
    return str(uuid.UUID(int=(2 << 64) + number))


def is_gold(number: int) -> bool:
    return number % 10 == 0


def aggregate_of(number: int) -> str:
    return AGGREGATES[number % len(AGGREGATES)]


def query(name: str, chance: Random) -> str:
    """Return a query for candidates; amounts vary, as they do from flavor to flavor, and every empty host has them."""
    vcpus = chance.randint(1, 16)
    return CANDIDATES[name].format(vcpus=vcpus, mib=512 * chance.randint(1, 32), gib=5 * chance.randint(1, 16))


def suitable(name: str, hosts: int) -> int:
    """Count the candidates of such a query among so many empty hosts."""
    if name != "traits and aggregate":
        return hosts
    return sum(is_gold(number) and aggregate_of(number) == AGGREGATES[0] for number in range(hosts))
