"""The target of live transfers: slots that wait for a guest, and guests that have arrived.

Invariants: libvirt gets the definition from the source, with the guest; until then only the slot has it. Disks are
complete when the guest has arrived. The caller holds the lock of the server's guests.
"""

from dataclasses import dataclass

from whimbrel.adapters.libvirt import arrival
from whimbrel.adapters.libvirt.connection import OnLibvirt
from whimbrel.adapters.libvirt.definitions import Definitions
from whimbrel.adapters.libvirt.departure import address_of
from whimbrel.adapters.libvirt.domain_control import Domains
from whimbrel.adapters.libvirt.migration_settings import SCHEME, MigrationSettings
from whimbrel.adapters.libvirt.observation import HostObserver
from whimbrel.adapters.libvirt.slots import SlotDirectory, Slots
from whimbrel.adapters.libvirt.volume_connections import VolumeConnections
from whimbrel.adapters.qemu.durable_files import finish, in_thread
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain import device_assignment, local_disks
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import DiskName, GuestKey, GuestSpec
from whimbrel.domain.live_transfer import LiveGuest, TransferTarget, check_devices


@dataclass(frozen=True)
class IncomingGuests(OnLibvirt):
    domains: Domains
    slots: Slots
    observer: HostObserver
    tools: Tools
    settings: MigrationSettings
    definitions: Definitions
    volumes: VolumeConnections

    async def receive(self, spec: GuestSpec, live: LiveGuest) -> TransferTarget:
        slot = self.slots.reserved(spec.key)
        reserved = await in_thread(slot.read_spec)
        spec = device_assignment.with_disks_of(spec, reserved or spec)
        domain = await self.domains.seen(spec.key.server)
        if domain and domain.is_active and not domain.is_of(spec.key):
            raise Refused("another guest of the same server is on this host")
        if slot.incoming.exists() and domain and domain.is_of(spec.key):
            return self._target(spec, await in_thread(slot.incoming.read_text), live)  # it comes, or has arrived
        if xml := await in_thread(slot.read_definition):
            if domain and domain.runs and domain.is_of(spec.key):
                return self._target(spec, xml, live)
            raise Refused("the guest is defined on this host already")
        await self._check(spec, live)
        for name, size_bytes in live.disks.items():
            await self._make_room(slot, name, size_bytes)
        await self.volumes.connect(spec.key.server, spec.volumes)
        xml = await self.definitions.of(spec)
        await in_thread(lambda: slot.write_spec(spec))
        await in_thread(lambda: slot.write_incoming(xml))
        return self._target(spec, xml, live)

    async def _check(self, spec: GuestSpec, live: LiveGuest) -> None:
        if not self.settings.peer_uri:
            raise Refused("this host takes no live transfers: its settings have no peer_uri, by which others reach it")
        if live.immovable:
            raise Refused(f"the guest cannot be moved while it runs: {live.immovable}")
        if differing := set(live.disks).symmetric_difference(local_disks.names_of(spec)):
            raise Refused(f"the disk {min(differing)} is not on both hosts")
        device_assignment.check(spec)
        check_devices(live.pci, device_assignment.pci_of(spec))
        await self.observer.check_ports_free(spec)
        await self.observer.check_pci_free(spec)
        await self.volumes.check(spec.volumes)

    async def _make_room(self, slot: SlotDirectory, name: DiskName, size_bytes: int) -> None:
        """Ensure that there is a disk of this virtual size, to which libvirt copies."""
        part, file = slot.disk_part(name), slot.disk_file(name)
        if file.exists() and (await self.tools.info(file, "qcow2")).virtual_size == size_bytes:
            return
        await in_thread(lambda: part.unlink(missing_ok=True))
        await self.tools.create(part, size_bytes)
        await in_thread(lambda: finish(part, file))

    def _target(self, spec: GuestSpec, xml: str, live: LiveGuest) -> TransferTarget:
        return TransferTarget(
            scheme=SCHEME,
            address=address_of(self.settings.peer_uri or "", spec.key),
            migration_uri=self.settings.migration_uri,
            definition=xml,
            disks=local_disks.names_of(spec),
            pci=live.pci,
        )

    async def settle(self, key: GuestKey) -> None:
        """Wake an arrived guest, unless its source did, and make its definition permanent. Raises: NotFound."""
        slot = self.slots.reserved(key)
        if not slot.incoming.exists() and slot.definition.exists():
            return
        await self.connection.run(lambda c: arrival.wake(self.libvirt, c, key))
        await self.adopt(key)
        if slot.incoming.exists() or not slot.definition.exists():
            raise NotFound(f"guest {key.slot} of server {key.server} has not arrived here")

    async def adopt(self, key: GuestKey) -> None:
        """Make a guest that has arrived one like every other; one that has not stays as it is."""
        slot = self.slots.at(key)
        if not slot.incoming.exists():
            return
        domain = await self.domains.seen(key.server)
        if domain and domain.is_of(key) and domain.power != "incoming":
            await in_thread(slot.adopt)

    async def check_not_incoming(self, key: GuestKey) -> None:
        """Raises: Refused: it waits for a live transfer."""
        await self.adopt(key)
        if self.slots.at(key).incoming.exists():
            raise Refused(f"guest {key.slot} of server {key.server} waits for a live transfer")
