"""Measures a live guest by libvirt's statistics of its domain."""

import contextlib
import xml.etree.ElementTree as ET

from whimbrel.adapters.libvirt.connection import Libvirt, find_domain
from whimbrel.adapters.libvirt.domain_xml import observe
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.guest_diagnostics import CpuDiagnostics, Diagnostics, DiskDiagnostics, NicDiagnostics

KIB_PER_MIB = 1024
NIC_COUNTERS = (
    *("rx_octets", "rx_packets", "rx_errors", "rx_drop"),
    *("tx_octets", "tx_packets", "tx_errors", "tx_drop"),
)
"""The fields of NicDiagnostics, in the order of libvirt's."""


def measure(libvirt: Libvirt, connection: Libvirt, key: GuestKey) -> Diagnostics:
    """Raises: Refused: the guest does not run."""
    domain = live_domain(libvirt, connection, key)
    definition = ET.fromstring(domain.XMLDesc(0))
    _, maximum_kib, used_kib, _, _ = domain.info()
    seen = observe(libvirt, domain)
    return Diagnostics(
        state="paused" if seen and seen.power == "paused" else "running",
        hypervisor=definition.get("type", "qemu"),
        memory_maximum_mib=maximum_kib // KIB_PER_MIB,
        memory_used_mib=used_kib // KIB_PER_MIB,
        cpus=tuple(CpuDiagnostics(id=cpu[0], time_ns=cpu[2]) for cpu in domain.vcpus()[0]),
        disks=tuple(_disk(domain, target.get("dev", "")) for target in definition.iterfind("devices/disk/target")),
        nics=tuple(_nic(libvirt, domain, nic) for nic in definition.iterfind("devices/interface")),
    )


def inject_nmi(libvirt: Libvirt, connection: Libvirt, key: GuestKey) -> None:
    """Raises: Refused: the guest does not run."""
    live_domain(libvirt, connection, key).injectNMI(0)


def live_domain(libvirt: Libvirt, connection: Libvirt, key: GuestKey) -> Libvirt:
    domain = find_domain(libvirt, connection, key.server)
    seen = observe(libvirt, domain) if domain else None
    if seen is None or not seen.runs or not seen.is_of(key):
        raise Refused(f"guest {key.slot} of server {key.server} does not run")
    return domain


def _disk(domain: Libvirt, device: str) -> DiskDiagnostics:
    read_requests, read_bytes, write_requests, write_bytes, errors = domain.blockStats(device)
    return DiskDiagnostics(
        device=device,
        read_bytes=read_bytes,
        read_requests=read_requests,
        write_bytes=write_bytes,
        write_requests=write_requests,
        errors_count=errors,
    )


def _nic(libvirt: Libvirt, domain: Libvirt, nic: ET.Element) -> NicDiagnostics:
    mac, target = nic.find("mac"), nic.find("target")
    address = "" if mac is None else mac.get("address", "")
    device = None if target is None else target.get("dev")
    if device is not None:
        with contextlib.suppress(libvirt.libvirtError):  # of a kind that libvirt does not measure
            counters = dict(zip(NIC_COUNTERS, domain.interfaceStats(device), strict=True))
            return NicDiagnostics(mac_address=address, device=device, **counters)
    return NicDiagnostics(mac_address=address)
