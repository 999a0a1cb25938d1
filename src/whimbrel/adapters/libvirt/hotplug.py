"""Hot-plugs devices into running guests, and unplugs them.

Invariant: the domain's XML shows which devices it has. A guest releases a device when it handles the request, which a
booting guest does not: the request is repeated, for a limited time.
"""

import asyncio
import contextlib
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass

from whimbrel.adapters.libvirt.connection import Libvirt, OnLibvirt, find_domain
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import ServerId

Finding = Callable[[str], ET.Element | None]
"""Returns a device's element in a domain's XML."""

RELEASES_WITHIN_S = 15.0
ASK_AGAIN_S = 2.0
POLL_S = 0.05


@dataclass(frozen=True)
class HotPlug(OnLibvirt):
    releases_within_s: float

    async def attach(self, server: ServerId, device: ET.Element, found: Finding) -> None:
        """Ensure that the running guest has a device. Raises: Unavailable: the guest or the backend is down."""
        await self.connection.run(lambda libvirtd: self._attach(libvirtd, server, device, found))

    async def detach(self, server: ServerId, found: Finding) -> None:
        """Ensure that the guest, if it runs, does not have a device. Raises: Unavailable: it keeps it."""
        loop = asyncio.get_running_loop()
        begun, asked = loop.time(), -ASK_AGAIN_S
        while await self.connection.run(lambda libvirtd: self._has(libvirtd, server, found)):
            waited = loop.time() - begun
            if waited >= self.releases_within_s:
                raise Unavailable("the guest has not released the device yet")
            if waited - asked >= ASK_AGAIN_S:
                asked = waited
                await self.connection.run(lambda libvirtd: self._request_release(libvirtd, server, found))
            else:
                await asyncio.sleep(POLL_S)

    def _attach(self, libvirtd: Libvirt, server: ServerId, device: ET.Element, found: Finding) -> None:
        domain = self.existing(libvirtd, server)
        if found(domain.XMLDesc(0)) is None:
            domain.attachDeviceFlags(ET.tostring(device, encoding="unicode"), self.libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def _has(self, libvirtd: Libvirt, server: ServerId, found: Finding) -> bool:
        domain = find_domain(self.libvirt, libvirtd, server)
        return domain is not None and bool(domain.isActive()) and found(domain.XMLDesc(0)) is not None

    def _request_release(self, libvirtd: Libvirt, server: ServerId, found: Finding) -> None:
        libvirt = self.libvirt
        domain = find_domain(libvirt, libvirtd, server)
        device = found(domain.XMLDesc(0)) if domain else None
        with contextlib.suppress(libvirt.libvirtError):  # requested already, or gone: observed later
            if domain and device is not None:
                domain.detachDeviceFlags(ET.tostring(device, encoding="unicode"), libvirt.VIR_DOMAIN_AFFECT_LIVE)
