"""Writes the definitions of guests, to their slots and to libvirt.

Invariant: a slot's definition matches its spec after every complete call. The caller holds the lock of the server's
guests.
"""

from dataclasses import dataclass

from whimbrel.adapters.libvirt import config_drive_file
from whimbrel.adapters.libvirt.device_xml import Plugging
from whimbrel.adapters.libvirt.domain_control import Domains
from whimbrel.adapters.libvirt.domain_xml import Domain, domain_xml
from whimbrel.adapters.libvirt.host_capabilities import VirtType
from whimbrel.adapters.libvirt.slots import Slots
from whimbrel.adapters.libvirt.volume_connections import VolumeConnections
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.domain.guest import GuestSpec


@dataclass(frozen=True)
class Definitions:
    """The definitions of one host. plugging: None: NICs are unsupported there."""

    domains: Domains
    slots: Slots
    virt_type: VirtType
    plugging: Plugging | None
    volumes: VolumeConnections

    async def write(self, spec: GuestSpec, domain: Domain | None) -> None:
        """Write `spec` as the slot's definition. domain: the last observed state of the server's domain.

        libvirt does not get it while another slot of the server runs.
        """
        slot = self.slots.at(spec.key)
        xml = await self.of(spec)
        if not domain or not domain.is_active or domain.is_of(spec.key):
            await self.domains.define(spec.key, xml)
        await in_thread(lambda: slot.write_spec(spec))
        await in_thread(lambda: slot.write_definition(xml))

    async def of(self, spec: GuestSpec) -> str:
        """Write the guest's config drive, and return its definition as XML."""
        slot = self.slots.at(spec.key)
        await in_thread(lambda: config_drive_file.ensure(slot, spec.config_drive))
        virt_type = await self.domains.virt_type(self.virt_type)
        paths = await self.volumes.paths(spec)
        return domain_xml(spec, slot, virt_type, self.plugging, paths)
