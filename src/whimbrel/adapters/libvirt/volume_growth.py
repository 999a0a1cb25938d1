"""Lets a live guest see that one of its volumes has become larger: libvirt's block resize.

Invariant: a disk never becomes smaller: QEMU says how large it is. Resizing to the same size is harmless. The caller
holds the lock of the server's guests.
Source: https://libvirt.org/html/libvirt-libvirt-domain.html#virDomainBlockResize
"""

import asyncio
import xml.etree.ElementTree as ET
from dataclasses import dataclass

from whimbrel.adapters.libvirt import device_xml
from whimbrel.adapters.libvirt.connection import Libvirt, OnLibvirt, find_domain
from whimbrel.adapters.libvirt.domain_control import Domains, runs
from whimbrel.adapters.libvirt.domain_xml import observe
from whimbrel.adapters.libvirt.migration_jobs import ask_qemu
from whimbrel.adapters.libvirt.saved_memory import SavedMemory
from whimbrel.adapters.libvirt.slots import Slots
from whimbrel.adapters.libvirt.volume_connections import VolumeConnections
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.domain import device_assignment
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.local_disks import GIB
from whimbrel.domain.server_devices import GuestVolume

POLL_S = 0.2
ATTEMPTS = 50
"""To resize a disk of which QEMU connects anew."""


@dataclass(frozen=True)
class VolumeGrowth(OnLibvirt):
    """The sizes of the volumes of one host's live guests."""

    domains: Domains
    slots: Slots
    memory: SavedMemory
    volumes: VolumeConnections

    async def extend(self, key: GuestKey, volume_id: str, size_gib: int) -> None:
        spec = await in_thread(self.slots.at(key).read_defined_spec)
        volume = device_assignment.volume_of(spec, volume_id)
        await self.memory.check_not_kept(key)
        if not runs(await self.domains.seen(key.server), key):
            return  # it is connected anew when the guest starts
        wanted = size_gib * GIB
        found = await self.volumes.extend(key.server, volume)
        if found is not None and found < wanted:
            raise Refused(f"volume {volume_id} has {wanted} bytes, and the host sees {found} of them")
        for _ in range(ATTEMPTS):
            trouble = await self.connection.run(lambda c: self._resize(c, key, volume, found or wanted))
            if not trouble:
                return
            await asyncio.sleep(POLL_S)
        raise Refused(f"volume {volume_id} did not become larger: {trouble}")

    # Run in a thread

    def _resize(self, libvirtd: Libvirt, key: GuestKey, volume: GuestVolume, size_bytes: int) -> str:
        """Return why the guest does not see the new size yet; "": it does, or went meanwhile. Raises: Refused."""
        domain = find_domain(self.libvirt, libvirtd, key.server)
        if domain is None or not runs(observe(self.libvirt, domain), key):
            return ""
        disk = device_xml.volume_in(domain.XMLDesc(0), volume.volume_id)
        if disk is None:
            raise Refused(f"guest {key.slot} of server {key.server} does not have volume {volume.volume_id} now")
        device = device_xml.target_of(disk)
        if domain.blockInfo(device)[0] > size_bytes:
            return ""  # else also if they are equal, as after a live transfer: it is the resize that tells the guest
        try:
            domain.blockResize(device, size_bytes, self.libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)
        except self.libvirt.libvirtError as error:
            if error.get_error_code() != self.libvirt.VIR_ERR_INTERNAL_ERROR:  # of QEMU
                raise
            trouble = str(error.get_error_message())
            if volume.connection.get("driver_volume_type") != "nbd":
                raise Refused(f"volume {volume.volume_id} did not become larger: {trouble}") from error
            _reconnect(domain, disk)
            return trouble
        return ""


def _reconnect(domain: Libvirt, disk: ET.Element) -> None:
    """Make QEMU read from the server of a volume, which ended the connection when its file became larger.

    QEMU connects again when it notices that, and learns the size then. libvirt cannot make it read, so QEMU is asked,
    which taints the domain in libvirt's log. The guest does not see whether the read fails.
    """
    source = disk.find("source")
    node = f"libvirt-{'' if source is None else source.get('index', '')}-storage"
    ask_qemu(domain, "human-monitor-command", **{"command-line": f'qemu-io {node} "read 0 512"'})
