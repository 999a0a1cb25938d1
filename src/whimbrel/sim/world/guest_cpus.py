"""Processors of simulated hosts: what a guest sees, and whether another host has it too."""

import msgspec

from whimbrel.domain.guest import Capacity
from whimbrel.domain.live_transfer import CpuFit, GuestCpu


class _CpuInfo(msgspec.Struct, frozen=True):
    """What a host reports, by Nova's names."""

    arch: str = ""
    vendor: str = ""
    model: str = ""
    features: tuple[str, ...] = ()


def of_host(capacity: Capacity) -> GuestCpu:
    """Return the processor that guests of a host see: all of it."""
    info = msgspec.json.decode(capacity.cpu_info, type=_CpuInfo)
    return GuestCpu(arch=info.arch, vendor=info.vendor, model=info.model, features=tuple(sorted(info.features)))


def compare(wanted: GuestCpu, host: GuestCpu) -> CpuFit:
    """Check whether a host has what a guest sees. A host that reports nothing fits."""
    if wanted.arch and host.arch and wanted.arch != host.arch:
        return CpuFit(reason=f"its processor is {host.arch}, the guest needs {wanted.arch}")
    if wanted.vendor and host.vendor and wanted.vendor != host.vendor:
        return CpuFit(reason=f"its processor is of {host.vendor}, the guest needs one of {wanted.vendor}")
    if not host.features:
        return CpuFit()
    missing = tuple(sorted(set(wanted.features) - set(host.features)))
    return CpuFit(reason=f"its processor lacks {', '.join(missing)}", missing=missing) if missing else CpuFit()
