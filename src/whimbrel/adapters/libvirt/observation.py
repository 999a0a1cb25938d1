"""Observes a host: its guests according to libvirt, the directory and /proc, and the devices that they use.

Invariant: nothing is cached; still, an observation may be stale when it is used.
"""

from pathlib import Path

from whimbrel.adapters.libvirt.domain_control import Domains
from whimbrel.adapters.libvirt.domain_xml import Domain, guest_of
from whimbrel.adapters.libvirt.slots import Slots
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.domain import device_assignment
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import Guest, GuestKey, GuestSpec


class HostObserver:
    """The guests of one host. directory: everything below it belongs to this host."""

    def __init__(self, domains: Domains, slots: Slots, directory: Path) -> None:
        self._domains = domains
        self._slots = slots
        self._directory = directory

    async def guests(self) -> list[Guest]:
        defined = await self._domains.all()
        slots = await in_thread(self._slots.all)
        seen = await in_thread(lambda: [guest_of(slot, defined.get(slot.key.server)) for slot in slots])
        known = {guest.key: guest for guest in seen if guest}
        orphans = (domain.as_guest() for domain in defined.values() if self._is_ours(domain))
        return list(({guest.key: guest for guest in orphans} | known).values())

    async def look(self, key: GuestKey) -> Guest | None:
        domain = await self._domains.seen(key.server)
        guest = await in_thread(lambda: guest_of(self._slots.at(key), domain))
        if guest is None and domain and domain.is_of(key) and self._is_ours(domain):
            return domain.as_guest()
        return guest

    async def check_ports_free(self, spec: GuestSpec) -> None:
        """Raises: Refused: the guest of another server has one of these ports."""
        wanted = {nic.port_id for nic in spec.nics}
        if not wanted:
            return
        for other in await self.guests():
            if other.key.server != spec.key.server and (taken := wanted.intersection(other.ports)):
                raise Refused(f"port {min(taken)} is in a guest of server {other.key.server}")

    async def check_pci_free(self, spec: GuestSpec) -> None:
        """Raises: Refused: another running guest has one of these devices."""
        wanted = set(device_assignment.pci_of(spec))
        if not wanted:
            return
        for other in (await self._domains.all()).values():
            if not other.is_of(spec.key) and (taken := wanted.intersection(other.fitted.pci)):
                raise Refused(f"PCI device {min(taken)} is in a running guest of server {other.server}")

    def _is_ours(self, domain: Domain) -> bool:
        """Check whether a domain is a guest of this host, even if its directory is gone."""
        if domain.slot is None or domain.home is None:
            return False
        return Path(domain.home).is_relative_to(self._directory)
