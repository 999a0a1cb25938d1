"""A host's capabilities: its size, its processor, and whether it supports KVM."""

import contextlib
import json
import os
import platform
import re
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from whimbrel.adapters.libvirt.connection import Libvirt
from whimbrel.adapters.libvirt.hardware_xml import MACHINE
from whimbrel.domain import host_uptime
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import Capacity
from whimbrel.domain.guest_hardware import TRAITS
from whimbrel.domain.numa import NumaNode

VirtType = Literal["auto", "kvm", "qemu"]

ISCSI_NAME = Path("/etc/iscsi/initiatorname.iscsi")
INITIATOR = re.compile(r"^InitiatorName=(\S+)", re.MULTILINE)


def capacity(libvirt: Libvirt, libvirtd: Libvirt, virt_type: VirtType) -> Capacity:
    """Return the capacity reported by libvirtd, without the disk."""
    _, memory_mib, cpus, *_ = libvirtd.getInfo()
    capabilities = libvirtd.getCapabilities()
    return Capacity(
        vcpus=cpus,
        memory_mib=memory_mib,
        disk_gib=0,
        hypervisor_type=libvirtd.getType(),
        hypervisor_version=libvirtd.getVersion(),
        cpu_info=cpu_info(
            capabilities, guest_features(libvirt, libvirtd, virt_type), machine_types(capabilities, platform.machine())
        ),
        numa=numa_nodes(capabilities),
        traits=hardware_traits(_domain_capabilities(libvirt, libvirtd, virt_type)),
    )


def numa_nodes(capabilities: str) -> tuple[NumaNode, ...]:
    cells = ET.fromstring(capabilities).iterfind("host/topology/cells/cell")
    return tuple(
        NumaNode(cpus=len(cell.findall("cpus/cpu")), memory_mib=int(cell.findtext("memory") or 0) // 1024)
        for cell in cells
    )


def uptime(uri: str) -> str:
    """Return what the program `uptime` prints here. Raises: Refused: libvirtd is on another machine."""
    if urlsplit(uri).hostname not in (None, "localhost"):
        raise Refused("libvirt does not report the uptime of another machine")
    return host_uptime.line(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), 0, os.getloadavg())


def cpu_times(libvirtd: Libvirt) -> tuple[dict[str, int], int]:
    """Return the CPU time per state of all processors together in nanoseconds, and their frequency in MHz."""
    return libvirtd.getCPUStats(-1), libvirtd.getInfo()[3]


def metrics(times: Mapping[str, int], before: Mapping[str, int], mhz: int) -> dict[str, float]:
    """Return these figures by Nova's names. before: the previous times; empty: percentages are left out."""
    told = {"cpu.frequency": float(mhz)} | {f"cpu.{kind}.time": float(spent) for kind, spent in times.items()}
    since = {kind: times[kind] - before.get(kind, 0) for kind in times}
    if before and (passed := sum(since.values())) > 0:
        told |= {f"cpu.{kind}.percent": spent / passed for kind, spent in since.items()}
        told["cpu.percent"] = 1.0 - (since.get("idle", 0) + since.get("iowait", 0)) / passed
    return told


def usable_virt_type(libvirt: Libvirt, libvirtd: Libvirt, wanted: VirtType) -> str:
    """Return kvm or qemu. /dev/kvm may exist and be advertised although no guest would run: check the processor."""
    if wanted != "auto":
        return wanted
    if not has_virtualization(Path("/proc/cpuinfo").read_text()):
        return "qemu"
    try:
        libvirtd.getDomainCapabilities(None, platform.machine(), MACHINE, "kvm")
    except libvirt.libvirtError:
        return "qemu"
    return "kvm"


def has_virtualization(cpuinfo: str) -> bool:
    flags = (line.partition(":")[2].split() for line in cpuinfo.splitlines() if line.startswith("flags"))
    return not {"vmx", "svm"}.isdisjoint(next(flags, []))


def cpu_info(capabilities: str, of_guests: Sequence[str] = (), machines: Sequence[str] = ()) -> str:
    """Return the host's processor in the format of Nova's clients.

    Its `features` are those that its model does not have. of_guests: all features that guests can have; empty: unknown.
    machines: the types of machine that guests can be; empty: unknown.
    """
    cpu = ET.fromstring(capabilities).find("host/cpu")
    if cpu is None:
        return "{}"
    topology = cpu.find("topology")
    return json.dumps(
        {
            "arch": cpu.findtext("arch"),
            "model": cpu.findtext("model"),
            "vendor": cpu.findtext("vendor"),
            "topology": {} if topology is None else {name: int(n) for name, n in topology.attrib.items()},
            "features": sorted(name for feature in cpu.iter("feature") if (name := feature.get("name"))),
            "guest_features": list(of_guests),
            "machines": list(machines),
        }
    )


def machine_types(capabilities: str, arch: str) -> list[str]:
    """Return the types of machine that QEMU has for guests of this architecture, by all their names."""
    found = ET.fromstring(capabilities).iterfind(f"guest/arch[@name='{arch}']//machine")
    return sorted({machine.text or "" for machine in found})


def _domain_capabilities(libvirt: Libvirt, libvirtd: Libvirt, wanted: VirtType) -> list[str]:
    """Return what guests can have on this host, for each kind of machine; empty: libvirtd does not know."""
    virt_type, found = usable_virt_type(libvirt, libvirtd, wanted), []
    for machine in (MACHINE, "q35"):
        with contextlib.suppress(libvirt.libvirtError):
            found.append(libvirtd.getDomainCapabilities(None, platform.machine(), machine, virt_type))
    return found


ENUMS = {
    "COMPUTE_STORAGE_BUS": "devices/disk/enum[@name='bus']/value",
    "COMPUTE_GRAPHICS_MODEL": "devices/video/enum[@name='modelType']/value",
    "COMPUTE_FIRMWARE": "os/enum[@name='firmware']/value",
}
"""Prefix of traits -> where libvirt lists what guests can have."""

FIRMWARES = {"EFI": "UEFI"}
"""libvirt's name -> that of the trait."""


def hardware_traits(domain_capabilities: Sequence[str]) -> tuple[str, ...]:
    """Return the traits of the hardware that guests can have. QEMU has all models of NICs; libvirt lists none."""
    has = {trait for trait in TRAITS if trait.startswith("COMPUTE_NET_VIF_MODEL")} if domain_capabilities else set()
    for root in map(ET.fromstring, domain_capabilities):
        for prefix, path in ENUMS.items():
            names = [(value.text or "").upper() for value in root.iterfind(path)]
            has.update(f"{prefix}_{FIRMWARES.get(name, name)}" for name in names)
    return tuple(trait for trait in TRAITS if trait in has)


def guest_features(libvirt: Libvirt, libvirtd: Libvirt, wanted: VirtType) -> list[str]:
    """Return all processor features that guests can have on this host; empty: libvirtd does not know."""
    virt_type = usable_virt_type(libvirt, libvirtd, wanted)
    where = (None, platform.machine(), MACHINE, virt_type)
    try:
        model = host_model(libvirtd.getDomainCapabilities(*where))
        expanded = libvirtd.baselineHypervisorCPU(*where, [model], libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES)
    except libvirt.libvirtError:
        return []
    features = ET.fromstring(expanded).iter("feature")
    return sorted(each.get("name", "") for each in features if each.get("policy") != "disable")


def host_model(domain_capabilities: str) -> str:
    """Return the processor closest to the host's, as an element of a guest's definition."""
    cpu = ET.Element("cpu")
    cpu.extend(ET.fromstring(domain_capabilities).findall("cpu/mode[@name='host-model']/*"))
    return ET.tostring(cpu, encoding="unicode")


def iscsi_initiator() -> dict[str, str]:
    """Return the host's iSCSI initiator name, for a connector; empty if it has none."""
    try:
        found = INITIATOR.search(ISCSI_NAME.read_text())
    except OSError:  # most hosts have none, and only root can read it
        return {}
    return {"initiator": found[1]} if found else {}
