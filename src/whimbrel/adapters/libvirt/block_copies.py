"""Copies a live guest's volume to another one, which the guest uses from then on: libvirt's block copy and its pivot.

Invariant: the domain shows which volume the guest uses: the source of its disk, and the mirror while that is copied.
Both outlive this process and libvirtd. Where the target is was written before the copy began: a domain whose disk is
there was pivoted, also if it is off. The slot's definition follows. The caller holds the lock of the server's guests.
Source: https://libvirt.org/html/libvirt-libvirt-domain.html#virDomainBlockCopy
"""

import asyncio
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from whimbrel.adapters.libvirt import device_xml
from whimbrel.adapters.libvirt.connection import Libvirt, OnLibvirt, find_domain
from whimbrel.adapters.libvirt.definitions import Definitions
from whimbrel.adapters.libvirt.domain_control import Domains, runs
from whimbrel.adapters.libvirt.domain_xml import read_mark
from whimbrel.adapters.libvirt.slots import SlotDirectory, Slots, VolumeCopy
from whimbrel.adapters.libvirt.volume_connections import VolumeConnections
from whimbrel.adapters.libvirt.volume_xml import volume_xml
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.domain import device_assignment
from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.server_devices import GuestVolume

POLL_S = 0.2
ENDS_WITHIN = 100
"""Attempts to end a copy."""

Place = str
"""What tells the source of a disk from any other."""


class Disk(NamedTuple):
    """A volume in a domain. target: of its copy, None: it is not copied."""

    device: str
    place: Place
    target: Place | None = None
    is_ready: bool = False  # whether the copy is complete, and follows the guest's writes
    percent: int = 0


@dataclass(frozen=True)
class BlockCopies(OnLibvirt):
    """The copies on one host."""

    domains: Domains
    slots: Slots
    definitions: Definitions
    volumes: VolumeConnections

    async def carry_on(self, key: GuestKey, volume_id: str, new: GuestVolume, *, begun: bool) -> int | None:
        """Begin the copy, join it, or end it by the pivot. Return its percentage; None: the guest uses the new volume.

        begun: by the caller, so that one that is not there any more has failed.
        """
        slot = self.slots.at(key)
        spec = await in_thread(slot.read_defined_spec)
        if device_assignment.uses(spec, volume_id, new.attachment_id):
            await self._forget(slot)
            return None
        wanted = device_assignment.with_swapped(spec, volume_id, new)
        disk, copy = await self._disk(key, volume_id), await in_thread(slot.read_copy)
        is_ours = copy is not None and copy.attachment_id == new.attachment_id
        if copy and is_ours and disk.place == copy.place:
            await self._settle(wanted, volume_id, new)
            return None
        if not runs(await self.domains.seen(key.server), key):
            raise Refused(f"guest {key.slot} of server {key.server} does not run")
        if disk.target is None and begun:
            raise Refused(f"the copy of volume {volume_id} to volume {new.volume_id} failed")
        if disk.target is None:
            await self._begin(slot, spec, disk.device, new)
        elif copy is None or not is_ours or disk.target != copy.place:
            await self._end_job(key, disk.device, 0)
            raise Unavailable(f"volume {volume_id} was being copied to another one")
        elif disk.is_ready:
            await self._end_job(key, disk.device, self.libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
        return disk.percent

    async def end(self, key: GuestKey, volume_id: str, attachment_id: str) -> None:
        slot = self.slots.at(key)
        spec, copy = await in_thread(slot.read_spec), await in_thread(slot.read_copy)
        is_used = spec is not None and device_assignment.uses(spec, volume_id, attachment_id)
        if copy and copy.attachment_id == attachment_id and not is_used:
            is_used = await self._is_pivoted(key, volume_id, copy)
        if is_used:
            raise Refused(f"guest {key.slot} of server {key.server} uses the new volume for {volume_id}")
        if copy and copy.attachment_id == attachment_id:
            await self._forget(slot)

    async def _is_pivoted(self, key: GuestKey, volume_id: str, copy: VolumeCopy) -> bool:
        """End the copy, if there is one, and return whether the guest uses its target. Raises: Unavailable."""
        for _ in range(ENDS_WITHIN):
            try:
                disk = await self._disk(key, volume_id)
            except NotFound:
                return False
            if disk.target is None or disk.place == copy.place:
                return disk.place == copy.place
            await self._end_job(key, disk.device, 0)
            await asyncio.sleep(POLL_S)
        raise Unavailable(f"the copy of volume {volume_id} does not end")

    async def _begin(self, slot: SlotDirectory, spec: GuestSpec, device: str, new: GuestVolume) -> None:
        await self.volumes.check((new,))
        await self.volumes.connect(spec.key.server, (new,))
        target = await self._xml(spec, new)
        copy = VolumeCopy(new.attachment_id, place_of(target))
        await in_thread(lambda: slot.write_copy(copy))
        await self.connection.run(lambda c: self._copy(c, spec.key, device, ET.tostring(target, encoding="unicode")))

    async def _forget(self, slot: SlotDirectory) -> None:
        """Disconnect what the guest does not use, when its copy is over."""
        await in_thread(lambda: slot.copy.unlink(missing_ok=True))
        await self.volumes.release(slot.key.server)

    async def _xml(self, spec: GuestSpec, new: GuestVolume) -> ET.Element:
        paths = await self.volumes.paths(replace(spec, volumes=(new,)))
        return volume_xml(new, paths.get(new.volume_id), spec.hardware)

    async def _settle(self, wanted: GuestSpec, volume_id: str, new: GuestVolume) -> None:
        """Disconnect the old volume, and let the definition follow the pivot."""
        await self.volumes.hand_over(wanted.key.server, new, volume_id)
        await self.definitions.write(wanted, await self.domains.seen(wanted.key.server))
        await self._forget(self.slots.at(wanted.key))

    async def _disk(self, key: GuestKey, volume_id: str) -> Disk:
        """Raises: NotFound: the guest, or the volume, is not in libvirt."""
        return await self.connection.run(lambda c: self._found(c, key, volume_id))

    async def _end_job(self, key: GuestKey, device: str, flags: int) -> None:
        """flags: of virDomainBlockJobAbort. What has become of the job is observed afterwards."""
        await self.connection.run(lambda c: self._end(c, key, device, flags))

    # Run in a thread

    def _found(self, libvirtd: Libvirt, key: GuestKey, volume_id: str) -> Disk:
        domain = find_domain(self.libvirt, libvirtd, key.server)
        is_here = domain is not None and read_mark(self.libvirt, domain).get("slot") == key.slot
        xml = device_xml.volume_in(domain.XMLDesc(0), volume_id) if domain and is_here else None
        if domain is None or xml is None:
            raise NotFound(f"guest {key.slot} of server {key.server} has no volume {volume_id}")
        target = xml.find("target")
        device = "" if target is None else target.get("dev", "")
        mirror = xml.find("mirror")
        if mirror is None:
            return Disk(device, place_of(xml))
        job = domain.blockJobInfo(device) if domain.isActive() else None
        percent = 100 * job["cur"] // job["end"] if job and job["end"] else 0
        return Disk(device, place_of(xml), place_of(mirror), mirror.get("ready") == "yes", percent)

    def _copy(self, libvirtd: Libvirt, key: GuestKey, device: str, target: str) -> None:
        """Begin to copy to what exists. A transient job: it ends with the guest's process."""
        flags = self.libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT | self.libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB
        self.existing(libvirtd, key.server).blockCopy(device, target, flags=flags)

    def _end(self, libvirtd: Libvirt, key: GuestKey, device: str, flags: int) -> None:
        try:
            self.existing(libvirtd, key.server).blockJobAbort(device, flags)
        except self.libvirt.libvirtError as error:
            if error.get_error_code() not in (
                self.libvirt.VIR_ERR_INVALID_ARG,  # there is no job any more
                self.libvirt.VIR_ERR_OPERATION_INVALID,
                self.libvirt.VIR_ERR_BLOCK_COPY_ACTIVE,
            ):
                raise


def place_of(element: ET.Element) -> Place:
    """Return the source of a disk or of a mirror, without what libvirt adds to it."""
    source = element.find("source")
    if source is None:
        return ""
    named = [source.get(name, "") for name in ("protocol", "name", "file", "dev")]
    return " ".join(named + sorted(f"{host.get('name')}:{host.get('port')}" for host in source.iterfind("host")))
