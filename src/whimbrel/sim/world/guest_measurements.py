"""Diagnostics of a simulated guest: its devices, with counters of 0."""

from whimbrel.domain import local_disks
from whimbrel.domain.guest_diagnostics import CpuDiagnostics, Diagnostics, DiskDiagnostics, NicDiagnostics
from whimbrel.sim.world.guests import SimulatedGuest


def measured(guest: SimulatedGuest) -> Diagnostics:
    spec = guest.spec
    devices = [*local_disks.devices_of(spec).values(), *(volume.device for volume in spec.volumes)]
    return Diagnostics(
        state="paused" if guest.power == "paused" else "running",
        hypervisor="qemu",
        memory_maximum_mib=spec.memory_mib,
        memory_used_mib=spec.memory_mib,
        cpus=tuple(CpuDiagnostics(id=number) for number in range(spec.vcpus)),
        disks=tuple(DiskDiagnostics(device=device.removeprefix("/dev/")) for device in devices),
        nics=tuple(NicDiagnostics(mac_address=nic.mac) for nic in spec.nics),
    )
