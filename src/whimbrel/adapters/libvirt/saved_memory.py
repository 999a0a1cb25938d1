"""Suspended guests: their memory in a file of their slot, `memory.save`, written and read by libvirt.

Invariant: while the file is whole, the guest has not run since it was written. A guest is restored paused, the file is
removed, and only then it runs. The caller holds the lock of the server's guests.
"""

from dataclasses import dataclass

from whimbrel.adapters.libvirt import transfer_xml
from whimbrel.adapters.libvirt.connection import Libvirt, OnLibvirt, find_domain
from whimbrel.adapters.libvirt.definitions import Definitions
from whimbrel.adapters.libvirt.domain_control import Domains, runs
from whimbrel.adapters.libvirt.observation import HostObserver
from whimbrel.adapters.libvirt.slots import SlotDirectory, Slots
from whimbrel.adapters.libvirt.volume_connections import VolumeConnections
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import GuestKey


@dataclass(frozen=True)
class SavedMemory(OnLibvirt):
    domains: Domains
    slots: Slots
    observer: HostObserver
    definitions: Definitions
    volumes: VolumeConnections

    async def is_kept(self, key: GuestKey) -> bool:
        """Check whether a guest is suspended."""
        return await in_thread(self.slots.at(key).has_memory)

    async def check_not_kept(self, key: GuestKey) -> None:
        """Raises: Refused: the guest is suspended."""
        if await self.is_kept(key):
            raise Refused(f"guest {key.slot} of server {key.server} is suspended")

    async def suspend(self, key: GuestKey) -> None:
        """Write the guest's memory to its file and end its process. Raises: Refused: it is stopped."""
        if await self.is_kept(key):
            await self.volumes.release(key.server)
            return
        if not runs(await self.domains.seen(key.server), key):
            raise Refused(f"guest {key.slot} of server {key.server} does not run")
        slot = self.slots.at(key)
        await in_thread(slot.remove_memory)  # what an interrupted suspend has left
        await self.connection.run(lambda c: self._save(c, slot))
        await in_thread(slot.sync_memory)
        await self.volumes.release(key.server)

    async def resume(self, key: GuestKey) -> None:
        """Restore the guest and let it run. Raises: Refused: another guest of its server runs here, or has a device."""
        slot = self.slots.at(key)
        domain = await self.domains.seen(key.server)
        if domain and domain.is_active and not domain.is_of(key):
            raise Refused("another guest of the same server runs on this host")
        if not runs(domain, key):
            await self._restore(slot)
        await in_thread(slot.remove_memory)
        await self.connection.run(lambda c: self._run(c, slot))

    async def discard(self, key: GuestKey) -> None:
        """Forget the memory of a guest; a process that was restored from it ends. Idempotent."""
        if await self.is_kept(key):
            await self.domains.switch_off(key)
        await in_thread(self.slots.at(key).remove_memory)

    async def _restore(self, slot: SlotDirectory) -> None:
        spec, xml = await in_thread(slot.read_spec), await in_thread(slot.read_definition)
        if spec is None or xml is None:
            raise NotFound(f"no guest {slot.key.slot} of server {slot.key.server} to resume")
        slot.check_disks(spec)
        await self.observer.check_pci_free(spec)
        await self.volumes.check(spec.volumes)
        await self.volumes.connect(slot.key.server, spec.volumes)
        is_connected = bool(await self.volumes.paths(spec))
        if is_connected:
            xml = await self.definitions.of(spec)
        await self.domains.define(slot.key, xml)
        await self.connection.run(lambda c: self._load(c, slot, xml if is_connected else None))

    def _save(self, libvirtd: Libvirt, slot: SlotDirectory) -> None:
        domain = find_domain(self.libvirt, libvirtd, slot.key.server)
        if domain is None:
            raise Refused(f"guest {slot.key.slot} of server {slot.key.server} does not run")
        domain.saveFlags(str(slot.memory), None, 0)

    def _load(self, libvirtd: Libvirt, slot: SlotDirectory, definition: str | None) -> None:
        """Restore the guest. definition: with the volumes as they are now: their paths may differ; None: as it was."""
        xml = None
        if definition:
            saved = libvirtd.saveImageGetXMLDesc(str(slot.memory), self.libvirt.VIR_DOMAIN_SAVE_IMAGE_XML_SECURE)
            xml = transfer_xml.with_disks_of(saved, definition)
        libvirtd.restoreFlags(str(slot.memory), xml, self.libvirt.VIR_DOMAIN_SAVE_PAUSED)

    def _run(self, libvirtd: Libvirt, slot: SlotDirectory) -> None:
        domain = find_domain(self.libvirt, libvirtd, slot.key.server)
        if domain and domain.state()[0] == self.libvirt.VIR_DOMAIN_PAUSED:
            domain.resume()
