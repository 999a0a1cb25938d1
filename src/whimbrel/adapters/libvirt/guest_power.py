"""Power operations on guests: start, stop, reboot.

Invariant: the caller holds the lock of the server's guests.
"""

import asyncio
from dataclasses import dataclass

from whimbrel.adapters.libvirt.definitions import Definitions
from whimbrel.adapters.libvirt.disk_exports import Exports
from whimbrel.adapters.libvirt.domain_control import Domains
from whimbrel.adapters.libvirt.observation import HostObserver
from whimbrel.adapters.libvirt.slots import Slots
from whimbrel.adapters.libvirt.volume_connections import VolumeConnections
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.domain import device_assignment
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import GuestKey

POLL_S = 0.1
ASK_AGAIN_S = 10.0  # a guest that is booting ignores its power button


@dataclass(frozen=True)
class Power:
    domains: Domains
    slots: Slots
    observer: HostObserver
    exports: Exports
    definitions: Definitions
    volumes: VolumeConnections

    async def start(self, key: GuestKey, *, paused: bool = False) -> None:
        slot = self.slots.at(key)
        domain = await self.domains.seen(key.server)
        if domain and domain.is_active:
            if domain.is_of(key) and domain.power == "paused" and not paused:
                raise Refused("the guest is paused")
            if domain.is_of(key):
                return
            raise Refused("another guest of the same server runs on this host")
        spec, xml = await in_thread(slot.read_spec), await in_thread(slot.read_definition)
        if spec is None or xml is None:
            raise NotFound(f"no guest {key.slot} of server {key.server} to start")
        slot.check_disks(spec)
        device_assignment.check_bootable(spec)
        await self.observer.check_pci_free(spec)
        await self.volumes.check(spec.volumes)
        await self.exports.close(slot)  # a reader gets an error, not a torn copy
        await self.volumes.connect(key.server, spec.volumes)
        if await self.volumes.paths(spec):
            await self.definitions.write(spec, domain)
            xml = (await in_thread(slot.read_definition)) or xml
        await self.domains.boot(key, xml, paused=paused)

    async def stop(self, key: GuestKey, timeout_s: float) -> None:
        if not await self._goes_down(key, timeout_s):
            await self.domains.switch_off(key)
        await self.volumes.release(key.server)

    async def reboot(self, key: GuestKey, hard: bool) -> None:
        # A soft reboot presses the power button and boots when the guest is down; a later observation shows the result.
        if hard:
            await self.domains.switch_off(key)
            await self.start(key)
            return
        if not self.slots.at(key).definition.exists():
            raise NotFound(f"no guest {key.slot} of server {key.server} to reboot")
        await self.domains.request_reboot(key)

    async def _goes_down(self, key: GuestKey, timeout_s: float) -> bool:
        """Ask the guest to shut down and wait; return whether it is down."""
        loop = asyncio.get_running_loop()
        begun, asked = loop.time(), -ASK_AGAIN_S
        while (domain := await self.domains.seen(key.server)) and domain.runs and domain.is_of(key):
            waited = loop.time() - begun
            if waited >= timeout_s or domain.power == "paused":  # a paused guest does not react
                return False
            if waited - asked >= ASK_AGAIN_S:
                asked = waited
                await self.domains.request_shutdown(key.server)
            await asyncio.sleep(POLL_S)
        return True
