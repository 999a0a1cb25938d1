"""Operations on libvirt's domains: define, boot, shut down, switch off, remove.

Invariant: an operation for a slot only affects the domain of this slot, not of another slot of its server.
"""

import contextlib

from whimbrel.adapters.libvirt import host_capabilities
from whimbrel.adapters.libvirt.connection import Libvirt, OnLibvirt, find_domain
from whimbrel.adapters.libvirt.domain_xml import Domain, observe, observe_all
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import Capacity, GuestKey
from whimbrel.domain.ids import ServerId


def runs(domain: Domain | None, key: GuestKey) -> bool:
    """Check whether an observed domain is of this slot and runs."""
    return domain is not None and domain.runs and domain.is_of(key)


def is_active(domain: Domain | None, key: GuestKey) -> bool:
    """Check whether an observed domain is of this slot and has a process: it runs, or comes by a live transfer."""
    return domain is not None and domain.is_active and domain.is_of(key)


class Domains(OnLibvirt):
    """The domains of one libvirtd. Each method is one call in a thread; raises: see connection.ERRORS."""

    async def capacity(self, virt_type: host_capabilities.VirtType) -> Capacity:
        return await self.connection.run(lambda c: host_capabilities.capacity(self.libvirt, c, virt_type))

    async def cpu_times(self) -> tuple[dict[str, int], int]:
        return await self.connection.run(host_capabilities.cpu_times)

    async def virt_type(self, wanted: host_capabilities.VirtType) -> str:
        return await self.connection.run(lambda c: host_capabilities.usable_virt_type(self.libvirt, c, wanted))

    async def all(self) -> dict[ServerId, Domain]:
        return await self.connection.run(lambda c: observe_all(self.libvirt, c))

    async def seen(self, server: ServerId) -> Domain | None:
        return await self.connection.run(lambda c: self._found(c, server)[1])

    async def live_definition(self, key: GuestKey) -> str:
        """Return the XML of a running guest. Raises: NotFound: it is not here; Refused: it does not run."""
        return await self.connection.run(lambda c: self._live_definition(c, key))

    async def define(self, key: GuestKey, xml: str) -> None:
        await self.connection.run(lambda c: self._define(c, key, xml))

    async def boot(self, key: GuestKey, xml: str, *, paused: bool = False) -> None:
        """Define and start the domain. Idempotent."""
        await self.connection.run(lambda c: self._boot(c, key, xml, paused))

    async def request_shutdown(self, server: ServerId) -> None:
        """Press the power button. Whether the guest reacts is observed later."""
        await self.connection.run(lambda c: self._request_shutdown(c, server))

    async def request_reboot(self, key: GuestKey) -> None:
        """Press the power button, and boot again when the guest is down. Raises: Refused: it does not run."""
        await self.connection.run(lambda c: self._request_reboot(c, key))

    async def pause(self, key: GuestKey) -> None:
        """Suspend the guest in memory. Idempotent. Raises: Refused: it does not run."""
        await self.connection.run(lambda c: self._set_paused(c, key, True))

    async def resume(self, key: GuestKey) -> None:
        """Resume a paused guest. Idempotent. Raises: Refused: it does not run."""
        await self.connection.run(lambda c: self._set_paused(c, key, False))

    async def switch_off(self, key: GuestKey) -> None:
        """Switch it off. Idempotent."""
        await self.connection.run(lambda c: self._switch_off(c, key))

    async def undefine(self, key: GuestKey) -> None:
        """Switch it off and remove its definition. Idempotent."""
        await self.connection.run(lambda c: self._undefine(c, key))

    # Run in a thread

    def _define(self, libvirtd: Libvirt, key: GuestKey, xml: str) -> Libvirt:
        """Define the server's domain for this slot. A saved memory image of another slot must not be restored."""
        domain, seen = self._found(libvirtd, key.server)
        if domain and not (seen and seen.is_of(key)) and domain.hasManagedSaveImage():
            domain.managedSaveRemove()
        return libvirtd.defineXML(xml)

    def _live_definition(self, libvirtd: Libvirt, key: GuestKey) -> str:
        domain, seen = self._found(libvirtd, key.server)
        if not domain or not seen or not seen.is_of(key):
            raise NotFound(f"guest {key.slot} of server {key.server} is not defined here")
        if not seen.runs:
            raise Refused(f"guest {key.slot} of server {key.server} does not run")
        live: str = domain.XMLDesc(0)
        return live

    def _boot(self, libvirtd: Libvirt, key: GuestKey, xml: str, paused: bool) -> None:
        try:
            domain = self._define(libvirtd, key, xml)
            domain.createWithFlags(self.libvirt.VIR_DOMAIN_START_PAUSED if paused else 0)
        except self.libvirt.libvirtError as error:
            _, seen = self._found(libvirtd, key.server)
            if error.get_error_code() != self.libvirt.VIR_ERR_OPERATION_INVALID or not runs(seen, key):
                raise

    def _request_shutdown(self, libvirtd: Libvirt, server: ServerId) -> None:
        domain, _ = self._found(libvirtd, server)
        with contextlib.suppress(self.libvirt.libvirtError):  # down already, or unresponsive: observed later
            if domain:
                domain.shutdown()

    def _request_reboot(self, libvirtd: Libvirt, key: GuestKey) -> None:
        domain, seen = self._found(libvirtd, key.server)
        if not domain or not runs(seen, key):
            raise Refused("a guest that does not run cannot be asked to reboot")
        domain.reboot(self.libvirt.VIR_DOMAIN_REBOOT_ACPI_POWER_BTN)

    def _set_paused(self, libvirtd: Libvirt, key: GuestKey, paused: bool) -> None:
        domain, seen = self._found(libvirtd, key.server)
        if not domain or not seen or not runs(seen, key):
            raise Refused(f"guest {key.slot} of server {key.server} does not run")
        if paused and seen.power == "running":
            domain.suspend()
        elif not paused and seen.power == "paused":
            domain.resume()

    def _switch_off(self, libvirtd: Libvirt, key: GuestKey) -> None:
        domain, seen = self._found(libvirtd, key.server)
        if not domain or not is_active(seen, key):
            return
        try:
            domain.destroy()
        except self.libvirt.libvirtError:
            if is_active(observe(self.libvirt, domain), key):
                raise

    def _undefine(self, libvirtd: Libvirt, key: GuestKey) -> None:
        self._switch_off(libvirtd, key)
        domain, seen = self._found(libvirtd, key.server)
        if domain and seen and seen.is_of(key):
            domain.undefineFlags(
                self.libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
                | self.libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
                | self.libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
                | self.libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
            )

    def _found(self, libvirtd: Libvirt, server: ServerId) -> tuple[Libvirt | None, Domain | None]:
        domain = find_domain(self.libvirt, libvirtd, server)
        return domain, observe(self.libvirt, domain) if domain else None
