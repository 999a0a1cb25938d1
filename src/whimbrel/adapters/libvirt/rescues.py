"""Rescue disks of guests: a file of the slot, and whether the guest boots from it.

Invariant: `rescue.json` exists only beside a complete `rescue.qcow2`. The definition follows it: a call that was
interrupted between the two is repeated. The caller holds the lock of the server's guests.
"""

from dataclasses import dataclass

import msgspec

from whimbrel.adapters.libvirt.definitions import Definitions
from whimbrel.adapters.libvirt.domain_control import Domains
from whimbrel.adapters.libvirt.slots import Rescue, SlotDirectory, Slots
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import GuestKey


@dataclass(frozen=True)
class Rescues:
    domains: Domains
    slots: Slots
    definitions: Definitions

    async def enter(self, key: GuestKey) -> None:
        slot = self.slots.reserved(key)
        rescue = await in_thread(slot.read_rescue)
        if rescue is None:
            raise NotFound(f"guest {key.slot} of server {key.server} has no rescue disk")
        await self._use(slot, rescue, True)

    async def leave(self, key: GuestKey) -> None:
        slot = self.slots.at(key)
        if rescue := await in_thread(slot.read_rescue):
            await self._use(slot, rescue, False)

    async def discard(self, key: GuestKey) -> None:
        slot = self.slots.at(key)
        rescue = await in_thread(slot.read_rescue)
        if rescue and rescue.is_used:
            raise Refused(f"guest {key.slot} of server {key.server} boots from its rescue disk")
        await in_thread(slot.remove_rescue)

    async def end(self, key: GuestKey) -> None:
        """Switch a guest in rescue off, so that it boots as it is defined. Others are left alone."""
        rescue = await in_thread(self.slots.at(key).read_rescue)
        if rescue and rescue.is_used:
            await self.domains.switch_off(key)
            await self.leave(key)

    async def _use(self, slot: SlotDirectory, rescue: Rescue, is_used: bool) -> None:
        domain = await self.domains.seen(slot.key.server)
        is_on = domain is not None and domain.is_of(slot.key) and domain.is_active
        if rescue.is_used is is_used and is_on:
            return
        if is_on or await in_thread(slot.has_memory):
            raise Refused(f"guest {slot.key.slot} of server {slot.key.server} is not off")
        await in_thread(lambda: slot.write_rescue(msgspec.structs.replace(rescue, is_used=is_used)))
        if spec := await in_thread(slot.read_spec):
            await self.definitions.write(spec, domain)
