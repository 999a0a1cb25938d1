"""The description of a host of this process: its settings, and what its hypervisor reports."""

from collections.abc import Awaitable
from typing import TypeVar

import structlog
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from whimbrel.domain.errors import WorldError
from whimbrel.domain.guest import Capacity
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_hardware import Hardware
from whimbrel.domain.ids import HostName
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.hypervisor import Hypervisor
from whimbrel.settings import LibvirtHost, SimulatedHost

log = structlog.get_logger(__name__)

LISTED_S = 600.0
"""How often the NICs and PCI devices are listed: they seldom change, and there may be hundreds."""

Found = TypeVar("Found")


class DescribedHost:
    """Describes one host, and logs how what it has differs from its settings: at first, and when that changes."""

    def __init__(self, host: SimulatedHost | LibvirtHost, hypervisor: Hypervisor, clock: Clock) -> None:
        self._host = host
        self._hypervisor = hypervisor
        self._clock = clock
        self._hardware: Hardware | UnsetType = UNSET
        self._listed_at = float("-inf")
        self._logged: list[str] = []

    async def describe(self) -> HostDescription:
        """Return the description. If the hypervisor does not answer, its part is that of the settings."""
        host, answers = self._host, True
        try:
            capacity = await self._hypervisor.capacity()
            await self._list()
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
            hardware=self._hardware,
        )

    async def _list(self) -> None:
        """List the NICs and PCI devices if that was long ago; those that cannot be listed are not checked."""
        if 0 <= self._clock.now() - self._listed_at < LISTED_S:
            return
        problems: list[str] = []
        names = [card.name for card in self._host.cards]
        self._hardware = Hardware(
            nics=await _listed("NICs", self._hypervisor.nics(names), problems),
            pci=await _listed("PCI devices", self._hypervisor.pci_devices(), problems),
        )
        self._listed_at = self._clock.now()
        problems += self._hardware.mismatches(self._host.net, self._host.pci)
        for problem in problems:
            if problem not in self._logged:
                log.warning("a host is not as its settings say", host=self._host.name, problem=problem)
        self._logged = problems


async def _listed(what: str, found: Awaitable[tuple[Found, ...]], problems: list[str]) -> tuple[Found, ...] | None:
    try:
        return await found
    except WorldError as trouble:
        problems.append(f"its {what} cannot be listed, so those of its settings are not checked: {trouble.reason}")
        return None
