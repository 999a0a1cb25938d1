"""Extra specs of flavors and their validation: one table of names and values, checked from 2.86 on.

Invariant: names outside of the namespaces in the table are not checked; they belong to the operator.
"""

import re
from collections.abc import Mapping
from typing import Any

from whimbrel.api.catalog import flavors
from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.placement import resource_names

ANYTHING = r".*"
TRUTH = r"(?i:true|false|1|0|t|f|y|n|yes|no|on|off)"
WHOLE = r"\d+"
ABOVE_ZERO = r"0*[1-9]\d*"
CPUS = r"\^?\d+(-\d+)?(,\^?\d+(-\d+)?)*"

# Names without a namespace of their own.
_PLAIN: Mapping[str, str] = {
    "group_policy": r"none|isolate",
    "hide_hypervisor_id": TRUTH,
}

# Namespace -> pattern of the rest of the name -> pattern of the value.
_KNOWN: Mapping[str, Mapping[str, str]] = {
    "accel": {r"device_profile": ANYTHING},
    "aggregate_instance_extra_specs": {ANYTHING: ANYTHING},
    "capabilities": {ANYTHING: ANYTHING},
    "hw": {
        r"cpu_policy": r"dedicated|shared|mixed",
        r"cpu_thread_policy": r"prefer|isolate|require",
        r"emulator_threads_policy": r"isolate|share",
        r"cpu_realtime": TRUTH,
        r"cpu_realtime_mask": CPUS,
        r"cpu_dedicated_mask": CPUS,
        r"mem_page_size": r"large|small|any|\d+([kKMGT]i?)?(b|bit|B)?",
        r"numa_nodes": ABOVE_ZERO,
        r"numa_cpus\.\d+": CPUS,
        r"numa_mem\.\d+": ABOVE_ZERO,
        r"pci_numa_affinity_policy": r"required|preferred|legacy|socket",
        r"cpu_(max_)?(sockets|cores|threads)": ABOVE_ZERO,
        r"(boot_menu|vif_multiqueue_enabled|pmu|mem_encryption|locked_memory|hide_hypervisor_id)": TRUTH,
        r"(virtio_packed_ring|ephemeral_encryption)": TRUTH,
        r"ephemeral_encryption_format": r"luks",
        r"mem_encryption_model": r"amd-sev|amd-sev-es",
        r"watchdog_action": r"none|pause|poweroff|reset|disabled",
        r"pmem": ANYTHING,
        r"serial_port_count": WHOLE,
        r"tpm_model": r"tpm-tis|tpm-crb",
        r"tpm_version": r"1\.2|2\.0",
        r"tpm_secret_security": r"user|host|deployment",
        r"input_bus": r"usb|virtio",
        r"maxphysaddr_mode": r"passthrough|emulate",
        r"maxphysaddr_bits": WHOLE,
        r"viommu_model": r"intel|smmuv3|virtio|auto",
        r"tb_cache_size": WHOLE,
        r"(sound|usb)_model": ANYTHING,
        r"redirected_usb_ports": WHOLE,
    },
    "hw_rng": {r"allowed": TRUTH, r"rate_(bytes|period)": WHOLE},
    "hw_video": {r"ram_max_mb": WHOLE},
    "os": {r"secure_boot": r"disabled|optional|required"},
    "pci_passthrough": {r"alias": r"[^:]+:\d+(\s*,\s*[^:]+:\d+)*"},
    "quota": {
        r"cpu_(shares|period|quota|limit|reservation)": r"-?\d+",
        r"cpu_shares_(level|share)": ANYTHING,
        r"disk_(read|write|total)_(bytes|iops)_sec(_max|_max_length)?": WHOLE,
        r"(memory|disk_io|vif)_(limit|reservation|shares_share|shares_level)": ANYTHING,
        r"vif_(inbound|outbound)_(average|peak|burst)": WHOLE,
    },
    "vmware": {ANYTHING: ANYTHING},
    "whimbrel": {r"az_on_move": r"keep|prefer|free"},
    "powervm": {ANYTHING: ANYTHING},
}

_GROUP = r"[a-zA-Z0-9_-]{0,64}"
_RESOURCES = re.compile(rf"resources{_GROUP}")
_TRAITS = re.compile(rf"trait{_GROUP}")


def check(specs: Mapping[str, str]) -> None:
    """Raises: Invalid: a name is unknown in its namespace, or its value is not permitted."""
    for name, value in specs.items():
        wanted = _value_pattern(name)
        if wanted is not None and not re.fullmatch(wanted, value):
            raise Invalid(f"Validation failed; extra spec '{name}' cannot have the value '{value}'.")


def _value_pattern(name: str) -> str | None:
    """Return the pattern of the values that this name permits, or None if all are permitted."""
    if name in _PLAIN:
        return _PLAIN[name]
    namespace, colon, rest = name.partition(":")
    if not colon:
        return None
    if _RESOURCES.fullmatch(namespace):
        return WHOLE if _is_resource_class(rest) else _unknown(name)
    if _TRAITS.fullmatch(namespace):
        return r"required|forbidden" if _is_trait(rest) else _unknown(name)
    known = _KNOWN.get(namespace)
    if known is None:
        return None
    return next((values for pattern, values in known.items() if re.fullmatch(pattern, rest)), None) or _unknown(name)


def _unknown(name: str) -> str:
    raise Invalid(f"Validation failed; extra spec '{name}' does not appear to be a valid extra spec.")


def _is_resource_class(name: str) -> bool:
    return name in resource_names.STANDARD_CLASSES or resource_names.is_custom(name)


def _is_trait(name: str) -> bool:
    return name in resource_names.standard_traits() or resource_names.is_custom(name)


async def index(call: Call) -> Any:
    return {"extra_specs": (await flavors.find(call, call.params["flavor_id"])).extra_specs}


async def show(call: Call) -> Any:
    flavor_id, key = call.params["flavor_id"], call.params["key"]
    specs = (await flavors.find(call, flavor_id)).extra_specs
    if key not in specs:
        raise _missing(flavor_id, key)
    return {key: specs[key]}


async def create(call: Call) -> Any:
    specs = _texts(call, call.body["extra_specs"])
    await call.cloud.flavors.change_extra_specs(call.params["flavor_id"], specs)
    return {"extra_specs": specs}


async def update(call: Call) -> Any:
    if call.params["key"] not in call.body:
        raise Invalid("Request body and URI mismatch")
    specs = _texts(call, call.body)
    await call.cloud.flavors.change_extra_specs(call.params["flavor_id"], specs)
    return specs


async def delete(call: Call) -> Any:
    flavor_id, key = call.params["flavor_id"], call.params["key"]
    if key not in (await call.cloud.flavors.get(flavor_id)).extra_specs:
        raise _missing(flavor_id, key)
    await call.cloud.flavors.change_extra_specs(flavor_id, {key: None})


def _texts(call: Call, sent: Mapping[str, Any]) -> dict[str, str]:
    specs = {key: value if isinstance(value, str) else str(value) for key, value in sent.items()}
    if call.minor >= 86:
        check(specs)
    return specs


def _missing(flavor_id: str, key: str) -> NotFound:
    return NotFound(f"Flavor {flavor_id} has no extra specs with key {key}.")
