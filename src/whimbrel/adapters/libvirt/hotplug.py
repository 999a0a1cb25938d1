"""Devices that a running guest is given and gives back.

Law: what a domain's XML says is what it has. A guest lets go of a device when it hears that it shall, which one that
still boots does not: it is asked again and again, and waited for so long only.
"""

import asyncio
import contextlib
import xml.etree.ElementTree as ET
from collections.abc import Callable

from whimbrel.adapters.libvirt.connection import Connection, Libvirt
from whimbrel.adapters.libvirt.domain_xml import find_domain
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import ServerId

Finding = Callable[[str], ET.Element | None]
"""Gives a device as a domain's XML has it."""

RELEASES_WITHIN_S = 15.0
ASK_AGAIN_S = 2.0
POLL_S = 0.05


class HotPlug:
    def __init__(self, connection: Connection, releases_within_s: float) -> None:
        self._connection = connection
        self._releases_within_s = releases_within_s

    async def attach(self, server: ServerId, device: ET.Element, found: Finding) -> None:
        """Have a device in the server's running guest. Raises: Unavailable: it went down, or what it needs does."""
        await self._connection.run(lambda libvirtd: self._attach(libvirtd, server, device, found))

    async def detach(self, server: ServerId, found: Finding) -> None:
        """Have a device out of the server's guest; fine if it does not run. Raises: Unavailable: it keeps it."""
        loop = asyncio.get_running_loop()
        begun, asked = loop.time(), -ASK_AGAIN_S
        while await self._connection.run(lambda libvirtd: self._has(libvirtd, server, found)):
            waited = loop.time() - begun
            if waited >= self._releases_within_s:
                raise Unavailable("the guest has not let go of the device yet")
            if waited - asked >= ASK_AGAIN_S:
                asked = waited
                await self._connection.run(lambda libvirtd: self._ask_back(libvirtd, server, found))
            else:
                await asyncio.sleep(POLL_S)

    def _attach(self, libvirtd: Libvirt, server: ServerId, device: ET.Element, found: Finding) -> None:
        libvirt = self._connection.libvirt
        domain = find_domain(libvirt, libvirtd, server)
        if domain is None:
            raise Unavailable("the guest went while it was given a device")
        if found(domain.XMLDesc(0)) is None:
            domain.attachDeviceFlags(ET.tostring(device, encoding="unicode"), libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def _has(self, libvirtd: Libvirt, server: ServerId, found: Finding) -> bool:
        domain = find_domain(self._connection.libvirt, libvirtd, server)
        return domain is not None and bool(domain.isActive()) and found(domain.XMLDesc(0)) is not None

    def _ask_back(self, libvirtd: Libvirt, server: ServerId, found: Finding) -> None:
        libvirt = self._connection.libvirt
        domain = find_domain(libvirt, libvirtd, server)
        device = found(domain.XMLDesc(0)) if domain else None
        with contextlib.suppress(libvirt.libvirtError):  # asked already, or gone: that is seen soon
            if domain and device is not None:
                domain.detachDeviceFlags(ET.tostring(device, encoding="unicode"), libvirt.VIR_DOMAIN_AFFECT_LIVE)
