"""ComputeCapabilitiesFilter: a flavor's extra specs about the host itself, `capabilities:KEY[:SUB]` or just KEY."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec
import numpy as np

from whimbrel.domain.resources import DISK_GB, MEMORY_MB, VCPU
from whimbrel.ports.arrays import Mask, Numbers
from whimbrel.ports.stores.fleet import Fleet
from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.requirements.extra_specs import fulfils, specs_in, without
from whimbrel.scheduling.snapshot import Snapshot


def capabilities(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    for spec in specs_in("capabilities", request.flavor):
        if spec.key == spec.name and spec.name not in (*ATTRIBUTES, *AMOUNTS):
            continue  # without a scope it may be meant for other filters, as in Nova
        passes = _where(spec.name.split(":"), snapshot, partial(fulfils, wanted=spec.wanted))
        words = f"it does not fulfil the flavor's {spec.key} {spec.wanted}"
        yield Constraint("ComputeCapabilitiesFilter", passes, words, suggestion=without(spec))


def _where(path: list[str], snapshot: Snapshot, test: Callable[[str], bool]) -> Mask:
    """Return which hosts have a value at this path that passes; a missing value fails."""
    name, *inner = path
    if name in ATTRIBUTES:
        return snapshot.fleet.where(ATTRIBUTES[name], lambda value: _passes(value, inner, test))
    if name in AMOUNTS and not inner:
        values, which = np.unique(AMOUNTS[name](snapshot), return_inverse=True)
        passes: Mask = np.array([test(str(value)) for value in values.tolist()], np.bool_)[which]
        return passes
    return ~snapshot.all


def _passes(value: Any, inner: list[str], test: Callable[[str], bool]) -> bool:
    value = inside(value, inner)
    return value is not None and test(str(value))


def inside(value: Any, path: Sequence[str]) -> Any:
    """Return what is at this path in a value, which may be a JSON document, or None."""
    for key in path:
        value = _document(value) if isinstance(value, str) else value
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def architecture(cpu_info: str) -> str:
    """Return the architecture of a host's processor, or "" if it is unknown."""
    document = _document(cpu_info)
    return str(document.get("arch") or "") if isinstance(document, Mapping) else ""


@lru_cache(maxsize=256)
def _document(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


# Attributes of hosts, by their Nova names

ATTRIBUTES: Mapping[str, str] = {
    "hypervisor_type": "hypervisor_type",
    "hypervisor_version": "hypervisor_version",
    "hypervisor_hostname": "name",
    "cpu_info": "cpu_info",
    "host": "name",
    "host_ip": "host_ip",
    "nodename": "name",
    "uuid": "id",
}


def _size(attribute: str) -> Callable[[Snapshot], Numbers]:
    return lambda snapshot: snapshot.fleet.once(_column, attribute)


def _column(fleet: Fleet, attribute: str) -> Numbers:
    return np.array([getattr(host, attribute) for host in fleet.hosts], np.int64)


AMOUNTS: Mapping[str, Callable[[Snapshot], Numbers]] = {
    "vcpus_total": _size("vcpus"),
    "vcpus_used": lambda at: at.capacity.used(VCPU),
    "total_usable_ram_mb": _size("memory_mib"),
    "free_ram_mb": lambda at: _size("memory_mib")(at) - at.capacity.used(MEMORY_MB),
    "total_usable_disk_gb": _size("disk_gib"),
    "disk_mb_used": lambda at: at.capacity.used(DISK_GB) * 1024,
    "free_disk_mb": lambda at: (_size("disk_gib")(at) - at.capacity.used(DISK_GB)) * 1024,
    "num_instances": lambda at: at.fleet.servers,
    "num_io_ops": lambda at: at.fleet.io_ops,
}
"""Amounts without overcommitment."""
