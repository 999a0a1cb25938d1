"""Diagnostics that a hypervisor measures of a running guest. Source: Nova's diagnostics, microversion 2.48."""

import msgspec


class CpuDiagnostics(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    time_ns: int = 0  # used by it since the guest was started


class DiskDiagnostics(msgspec.Struct, frozen=True, kw_only=True):
    device: str  # in the guest: vda
    read_bytes: int = 0
    read_requests: int = 0
    write_bytes: int = 0
    write_requests: int = 0
    errors_count: int = -1  # -1: unknown


class NicDiagnostics(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of packets and bytes, from the guest's side."""

    mac_address: str
    device: str | None = None  # on the host; None: the host cannot measure it
    rx_octets: int = 0
    rx_errors: int = 0
    rx_drop: int = 0
    rx_packets: int = 0
    tx_octets: int = 0
    tx_errors: int = 0
    tx_drop: int = 0
    tx_packets: int = 0


class Diagnostics(msgspec.Struct, frozen=True, kw_only=True):
    state: str  # "running" | "paused"
    hypervisor: str  # "kvm" | "qemu"
    memory_maximum_mib: int
    memory_used_mib: int
    cpus: tuple[CpuDiagnostics, ...] = ()
    disks: tuple[DiskDiagnostics, ...] = ()
    nics: tuple[NicDiagnostics, ...] = ()
