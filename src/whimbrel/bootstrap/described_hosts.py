"""The description of a host of this process: its settings, and what its hypervisor reports."""

import structlog
from msgspec import UNSET
from msgspec.structs import replace

from whimbrel.domain.errors import WorldError
from whimbrel.domain.guest import Capacity
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.hypervisor import Hypervisor
from whimbrel.settings import LibvirtHost, SimulatedHost

log = structlog.get_logger(__name__)


async def described(host: SimulatedHost | LibvirtHost, hypervisor: Hypervisor) -> HostDescription:
    """Return the description of a host. If the hypervisor does not answer, its part is that of the settings."""
    answers = True
    try:
        capacity = await hypervisor.capacity()
    except WorldError as trouble:
        log.warning("a host does not answer", host=host.name, reason=trouble.reason)
        answers = False
        capacity = Capacity(
            vcpus=host.vcpus,
            memory_mib=host.memory_mib,
            disk_gib=host.disk_gib,
            hypervisor_type="QEMU",
            hypervisor_version=1,
        )
    return HostDescription(
        name=HostName(host.name),
        zone=host.zone,
        driver="simulated" if isinstance(host, SimulatedHost) else "libvirt",
        vcpus=host.vcpus,
        memory_mib=host.memory_mib,
        disk_gib=host.disk_gib,
        net=host.net,
        dedicated_vcpus=host.dedicated_vcpus,
        traits=tuple(dict.fromkeys((*host.traits, *capacity.traits))),
        resources=host.resources,
        pci=tuple(replace(device, live_migratable=UNSET) for device in host.pci),
        live_migratable_pci=tuple(one.address for one in host.pci if one.is_live_migratable) or UNSET,
        hypervisor_type=capacity.hypervisor_type,
        hypervisor_version=capacity.hypervisor_version,
        cpu_info=capacity.cpu_info,
        numa=capacity.numa,
        answers=answers,
    )
