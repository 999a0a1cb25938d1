"""Adds devices to guests and removes them, in their definitions and, while they run, in their domains.

Invariant: the definition changes first when a device is added, and last when it is removed: after a crash the operation
is repeated, and completes what is missing. The caller holds the lock of the server's guests.
"""

import xml.etree.ElementTree as ET
from dataclasses import dataclass

from whimbrel.adapters.libvirt import device_xml
from whimbrel.adapters.libvirt.definitions import Definitions
from whimbrel.adapters.libvirt.device_xml import Plugging
from whimbrel.adapters.libvirt.domain_control import Domains, runs
from whimbrel.adapters.libvirt.hotplug import Finding, HotPlug
from whimbrel.adapters.libvirt.observation import HostObserver
from whimbrel.adapters.libvirt.saved_memory import SavedMemory
from whimbrel.adapters.libvirt.slots import Slots
from whimbrel.adapters.libvirt.volume_connections import VolumeConnections
from whimbrel.adapters.libvirt.volume_xml import volume_xml
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.domain import device_assignment
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.server_devices import GuestNic, GuestVolume


@dataclass(frozen=True)
class DeviceChanges:
    """The devices of one host's guests."""

    domains: Domains
    slots: Slots
    observer: HostObserver
    hotplug: HotPlug
    memory: SavedMemory
    definitions: Definitions
    plugging: Plugging | None
    volumes: VolumeConnections

    async def plug(self, key: GuestKey, nic: GuestNic) -> None:
        spec = device_assignment.with_nic(await self._defined(key), nic)
        device = device_xml.nic_xml(nic, self.plugging, spec.hardware.vif_model)
        await self.observer.check_ports_free(spec)
        await self._add(spec, device, lambda xml: device_xml.nic_in(xml, nic.port_id))

    async def unplug(self, key: GuestKey, port_id: str) -> None:
        spec = await in_thread(self.slots.at(key).read_spec)
        rest = device_assignment.without_nic(spec, port_id) if spec else None
        await self._take_out(key, rest, lambda xml: device_xml.nic_in(xml, port_id))

    async def attach(self, key: GuestKey, volume: GuestVolume) -> None:
        spec = device_assignment.with_volume(await self._defined(key), volume)
        volume_xml(volume, None, spec.hardware)  # refuses what no host knows
        await self.volumes.check_known((volume,))
        await self.memory.check_not_kept(key)
        domain = await self.domains.seen(key.server)
        if domain and runs(domain, key) and volume.volume_id not in domain.fitted.volumes:
            await self.volumes.check((volume,))
            await self.volumes.connect(key.server, (volume,))
        path = (await self.volumes.paths(spec)).get(volume.volume_id)
        await self._add(
            spec, volume_xml(volume, path, spec.hardware), lambda xml: device_xml.volume_in(xml, volume.volume_id)
        )

    async def detach(self, key: GuestKey, volume_id: str) -> None:
        spec = await in_thread(self.slots.at(key).read_spec)
        if spec and runs(await self.domains.seen(key.server), key):
            device_assignment.check_not_booted_from(spec, volume_id)
        rest = device_assignment.without_volume(spec, volume_id) if spec else None
        await self._take_out(key, rest, lambda xml: device_xml.volume_in(xml, volume_id))
        await self.volumes.release(key.server)

    async def _add(self, spec: GuestSpec, device: ET.Element, found: Finding) -> None:
        """Add a device to a guest. spec: its new definition."""
        await self.memory.check_not_kept(spec.key)
        domain = await self.domains.seen(spec.key.server)
        if runs(domain, spec.key):
            await self.observer.check_pci_free(spec)
        await self.definitions.write(spec, domain)
        if runs(domain, spec.key):
            await self.hotplug.attach(spec.key.server, device, found)

    async def _take_out(self, key: GuestKey, rest: GuestSpec | None, found: Finding) -> None:
        """Remove a device from a guest. rest: its new definition; None: only libvirt knows the guest."""
        if rest and rest != await in_thread(self.slots.at(key).read_spec):
            await self.memory.check_not_kept(key)
        domain = await self.domains.seen(key.server)
        if runs(domain, key):
            await self.hotplug.detach(key.server, found)
        if rest and self.slots.at(key).definition.exists():
            await self.definitions.write(rest, domain)

    async def _defined(self, key: GuestKey) -> GuestSpec:
        return await in_thread(self.slots.at(key).read_defined_spec)
