"""Makes the hypervisors of the hosts that the settings name: simulated ones, and libvirt's."""

from whimbrel.adapters.sql.keep import SqlKeep
from whimbrel.datadir import DataDir
from whimbrel.domain.guest import Capacity
from whimbrel.domain.ids import CellName, HostName
from whimbrel.embedded.image.files import LocalImages
from whimbrel.ports.clock import Clock
from whimbrel.ports.hypervisor import Hypervisor
from whimbrel.settings import CloudConfig, LibvirtHost, SimulatedHost
from whimbrel.sim.hosts import SimulatedWorld
from whimbrel.sim.hypervisor import SimulatedHypervisor, Times


def hypervisors_of(
    config: CloudConfig, data: DataDir, keep: SqlKeep, clock: Clock, images: LocalImages
) -> dict[HostName, Hypervisor]:
    world = SimulatedWorld()
    times = Times(**{name: getattr(config.simulated, name) for name in config.simulated.__struct_fields__})
    made: dict[HostName, Hypervisor] = {}
    for cell, host in config.hosts():
        name = HostName(host.name)
        if isinstance(host, SimulatedHost):
            made[name] = SimulatedHypervisor(
                name, world, keep, times, clock, cell=CellName(cell.name), capacity=_capacity(host), images=images
            )
        else:
            made[name] = _libvirt(host, data, images)
    return made


def _capacity(host: SimulatedHost) -> Capacity:
    return Capacity(
        vcpus=host.vcpus,
        memory_mib=host.memory_mib,
        disk_gib=host.disk_gib,
        hypervisor_type="simulated",
        hypervisor_version=1000,
        numa=host.numa,
    )


def _libvirt(host: LibvirtHost, data: DataDir, images: LocalImages) -> Hypervisor:
    from whimbrel.adapters.libvirt.hypervisor import LibvirtHypervisor  # an extra: only where it is used

    return LibvirtHypervisor(
        host.uri,
        host.guests_in(data.path),
        images,
        vcpus=host.vcpus,
        memory_mib=host.memory_mib,
        disk_gib=host.disk_gib,
        virt_type=host.virt_type,
        nbd_address=host.nbd_address,
        host=host.name,
        nics=host.guest_nics,
    )
