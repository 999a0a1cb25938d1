"""Checks whether this host can run a guest that sees a certain processor."""

import xml.etree.ElementTree as ET

from whimbrel.adapters.libvirt.connection import Libvirt
from whimbrel.domain.live_transfer import CpuFit, GuestCpu

NAMED_AFTER = "required features: "
"""What stands before the names of missing features in libvirt's message."""


def compare(libvirt: Libvirt, libvirtd: Libvirt, cpu: GuestCpu) -> CpuFit:
    here = ET.fromstring(libvirtd.getCapabilities()).findtext("host/cpu/arch") or ""
    if cpu.arch and here and cpu.arch != here:
        return CpuFit(reason=f"its processor is {here}, the guest needs {cpu.arch}")
    if not cpu.document:
        return CpuFit()
    guest = ET.fromstring(cpu.document)
    try:
        _compare(libvirt, libvirtd, guest)
    except libvirt.libvirtError as error:
        return _misfit(libvirt, error)
    return CpuFit()


def _compare(libvirt: Libvirt, libvirtd: Libvirt, guest: ET.Element) -> None:
    wanted = ET.tostring(guest[0], encoding="unicode")
    strictly = libvirt.VIR_CONNECT_COMPARE_CPU_FAIL_INCOMPATIBLE
    try:
        libvirtd.compareHypervisorCPU(
            None, guest.get("arch"), guest.get("machine"), guest.get("type"), wanted, strictly
        )
    except libvirt.libvirtError as error:
        if error.get_error_code() not in (libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_OPERATION_UNSUPPORTED):
            raise
        libvirtd.compareCPU(wanted, strictly)  # what the processor has, not what QEMU makes of it


def _misfit(libvirt: Libvirt, error: Libvirt) -> CpuFit:
    """Return why it does not fit. Other errors are raised: they say nothing about the processor."""
    code, said = error.get_error_code(), error.get_error_message() or ""
    if code == libvirt.VIR_ERR_CPU_INCOMPATIBLE:
        named = said.partition(NAMED_AFTER)[2]
        missing = tuple(sorted(name.strip() for name in named.split(",") if name.strip()))
        return CpuFit(reason=f"its processor lacks {', '.join(missing)}" if missing else said, missing=missing)
    if code in (libvirt.VIR_ERR_INVALID_ARG, libvirt.VIR_ERR_CONFIG_UNSUPPORTED) or "Unknown CPU model" in said:
        return CpuFit(reason=f"it cannot run such a guest: {said}")
    raise error
