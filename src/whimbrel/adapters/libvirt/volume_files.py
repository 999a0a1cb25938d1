"""Snapshots of volumes that are files of a share: a guest writes to another file of its volume, and files are merged.

Invariant: the domain shows the chain of files that a live guest uses, and the headers of the files that of a stopped
one: nothing else is asked whether something is done. Each file names the one below it without a directory, as the
volume service needs it. A job outlives this process and libvirtd; whenever it breaks off, the chain is as before it.
The caller holds the lock of the server's guests.
Source: https://libvirt.org/kbase/live_full_disk_backup.html, virDomainBlockPull, virDomainBlockCommit
"""

import contextlib
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from whimbrel.adapters.libvirt import device_xml, volume_formats
from whimbrel.adapters.libvirt.connection import Libvirt, OnLibvirt, find_domain
from whimbrel.adapters.libvirt.definitions import Definitions
from whimbrel.adapters.libvirt.domain_control import Domains, runs
from whimbrel.adapters.libvirt.domain_xml import observe
from whimbrel.adapters.libvirt.saved_memory import SavedMemory
from whimbrel.adapters.libvirt.slots import Slots, safe_name
from whimbrel.adapters.libvirt.volume_connections import VolumeConnections
from whimbrel.adapters.libvirt.volume_xml import CONNECTED_AS
from whimbrel.adapters.qemu import own_processes
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain import device_assignment, volume_merge
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.server_devices import GuestVolume
from whimbrel.domain.volume_merge import Merge
from whimbrel.ports.hosts.hypervisor import Percent


class File(NamedTuple):
    """A file of a live guest's disk. number: by which libvirt names it in orders."""

    path: Path
    number: str


@dataclass(frozen=True)
class VolumeFiles(OnLibvirt):
    """The files of the volumes of one host's guests."""

    domains: Domains
    slots: Slots
    memory: SavedMemory
    definitions: Definitions
    volumes: VolumeConnections
    tools: Tools

    async def snapshot(self, key: GuestKey, volume_id: str, name: str) -> None:
        """Switch the guest to another file. The definition follows."""
        spec, volume = await self._defined(key, volume_id)
        wanted = device_assignment.with_snapshot_file(spec, volume_id, safe_name(name))
        await self.memory.check_not_kept(key)
        if runs(await self.domains.seen(key.server), key):
            await self._check_file(spec, volume_id, name)
            await self.connection.run(lambda c: self._switch(c, spec, volume_id, name))
        await self.volumes.change_file(key.server, volume, device_assignment.volume_of(wanted, volume_id))
        await self.definitions.write(wanted, await self.domains.seen(key.server))

    async def _check_file(self, spec: GuestSpec, volume_id: str, name: str) -> None:
        """Raises: Refused: the guest would not start from this file later."""
        if at := (await self.volumes.paths(spec)).get(volume_id):
            await volume_formats.check_chain(self.tools, volume_id, Path(at).with_name(name))

    async def carry_on(self, key: GuestKey, volume_id: str, merge: Merge, *, begun: bool) -> int | None:
        """Begin to merge files of a live guest, or join that. Return its percentage; None: it is done.

        begun: by the caller, so that one that is not there any more has failed.
        """
        return await self.connection.run(lambda c: self._carry_on(c, key, volume_id, merge, begun))

    async def is_live(self, key: GuestKey, volume_id: str) -> bool:
        """Check whether the guest of a volume runs. Raises: NotFound; Refused: it has no such volume; suspended."""
        await self._defined(key, volume_id)
        await self.memory.check_not_kept(key)
        return runs(await self.domains.seen(key.server), key)

    async def merge_stopped(self, key: GuestKey, volume_id: str, merge: Merge, percent: Percent) -> None:
        """Take what is between the active file of a stopped guest and another one into the active one."""
        spec, volume = await self._defined(key, volume_id)
        if merge.top is not None:
            raise Refused(f"guest {key.slot} of server {key.server} does not run: files are committed while it does")
        await self.volumes.check((volume,))
        await self.volumes.connect(key.server, (volume,))
        try:
            active = Path((await self.volumes.paths(spec))[volume_id])
            await own_processes.end(await own_processes.at_work("qemu-img", active))  # of a killed process
            chain = await self.tools.chain(active)
            if volume_merge.merged([file.name for file in chain], merge) != [file.name for file in chain]:
                await self._rebase(active, chain, merge, percent)
        finally:
            await self.volumes.release(key.server)

    async def _rebase(self, active: Path, chain: Mapping[Path, str], merge: Merge, percent: Percent) -> None:
        formats = {file.name: disk_format for file, disk_format in chain.items()}
        below = ["-b", merge.base, "-F", formats[merge.base]] if merge.base else ["-b", ""]
        command = ["rebase", "-p", "-f", "qcow2", *below, str(active)]
        await self.tools.run("qemu-img", *command, percent=percent)

    async def _defined(self, key: GuestKey, volume_id: str) -> tuple[GuestSpec, GuestVolume]:
        """Raises: NotFound: no guest; Refused: it has no such volume, or not as a file that the host connects."""
        spec = await in_thread(self.slots.at(key).read_defined_spec)
        volume = device_assignment.volume_of(spec, volume_id)
        kind = str(volume.connection.get("driver_volume_type"))
        if CONNECTED_AS.get(kind) != "file":
            raise Refused(f"volume {volume_id} is reached by {kind!r}, and not as a file of a share")
        return spec, volume

    # Run in a thread

    def _switch(self, libvirtd: Libvirt, spec: GuestSpec, volume_id: str, name: str) -> None:
        """Make the active file of a live guest's disk be another one of the same directory, unless it is."""
        domain, disk = self._disk(libvirtd, spec.key, volume_id)
        seen = observe(self.libvirt, domain)
        is_awake = seen is not None and seen.power == "running"
        has_agent = is_awake and spec.guest_agent
        active = _chain(disk)[0].path
        if active.name == name:
            self._thaw(domain, has_agent)  # a killed process may have left it frozen
            return
        order = _snapshot_xml(domain.XMLDesc(0), device_xml.target_of(disk), active.with_name(name))
        trouble = "it has no agent"
        if has_agent:
            trouble = self._take(domain, order, self.libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_QUIESCE)
            self._thaw(domain, bool(trouble))
            if self._is_at(libvirtd, spec, volume_id, name):
                return
        if is_awake and spec.requires_quiesce:
            raise Refused(f"the guest requires to be frozen for a snapshot, and cannot: {trouble}")
        trouble = self._take(domain, order, 0)
        if not self._is_at(libvirtd, spec, volume_id, name):
            raise Refused(f"no snapshot of volume {volume_id}: {trouble}")

    def _take(self, domain: Libvirt, order: str, more: int) -> str:
        """Return why a snapshot was not taken, or not as requested; "": it was. more: flags."""
        flags = (
            self.libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY
            | self.libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REUSE_EXT
            | self.libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA
            | self.libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC
        )
        try:
            domain.snapshotCreateXML(order, flags | more)
        except self.libvirt.libvirtError as error:
            return str(error.get_error_message())
        return ""

    def _is_at(self, libvirtd: Libvirt, spec: GuestSpec, volume_id: str, name: str) -> bool:
        return _chain(self._disk(libvirtd, spec.key, volume_id)[1])[0].path.name == name

    def _thaw(self, domain: Libvirt, may_be_frozen: bool) -> None:
        with contextlib.suppress(self.libvirt.libvirtError):  # it was not frozen, or its agent does not answer
            if may_be_frozen:
                domain.fsThaw()

    def _carry_on(self, libvirtd: Libvirt, key: GuestKey, volume_id: str, merge: Merge, begun: bool) -> int | None:
        domain, disk = self._disk(libvirtd, key, volume_id)
        device = device_xml.target_of(disk)
        job = domain.blockJobInfo(device)
        chain = _chain(self._disk(libvirtd, key, volume_id)[1])  # read last: a job that has ended has changed it
        names = [file.path.name for file in chain]
        if volume_merge.merged(names, merge) == names:
            return None
        if job:
            return int(100 * job["cur"] // job["end"]) if job["end"] else 0
        if begun:
            raise Refused(f"the merge of files of volume {volume_id} failed")
        named = {file.path.name: f"{device}[{file.number}]" for file in chain}
        relative = self.libvirt.VIR_DOMAIN_BLOCK_COMMIT_RELATIVE
        if merge.top is not None:
            domain.blockCommit(device, named[merge.base or ""], named[merge.top], 0, relative)
        elif merge.base is not None:
            domain.blockRebase(device, named[merge.base], 0, self.libvirt.VIR_DOMAIN_BLOCK_REBASE_RELATIVE)
        else:
            domain.blockPull(device, 0, 0)
        return 0

    def _disk(self, libvirtd: Libvirt, key: GuestKey, volume_id: str) -> tuple[Libvirt, ET.Element]:
        """Return a live guest's domain, and its disk. Raises: Unavailable: it went meanwhile."""
        domain = find_domain(self.libvirt, libvirtd, key.server)
        if domain is None or not runs(observe(self.libvirt, domain), key):
            raise Unavailable(f"guest {key.slot} of server {key.server} went meanwhile")
        disk = device_xml.volume_in(domain.XMLDesc(0), volume_id)
        if disk is None:
            raise Unavailable(f"guest {key.slot} of server {key.server} does not have volume {volume_id} now")
        return domain, disk


def _chain(disk: ET.Element) -> list[File]:
    """Return the files of a disk, from the active one down."""
    found: list[File] = []
    at: ET.Element | None = disk
    while at is not None and (source := at.find("source")) is not None:
        found.append(File(Path(source.get("file", "")), at.get("index") or source.get("index") or ""))
        at = at.find("backingStore")
    return found


def _snapshot_xml(domain_xml: str, device: str, file: Path) -> str:
    """Return the order of a snapshot of one disk, and of no other."""
    root = ET.Element("domainsnapshot")
    disks = ET.SubElement(root, "disks")
    for disk in ET.fromstring(domain_xml).iterfind("devices/disk"):
        if (name := device_xml.target_of(disk)) != device:
            ET.SubElement(disks, "disk", name=name, snapshot="no")
    mine = ET.SubElement(disks, "disk", name=device, snapshot="external", type="file")
    ET.SubElement(mine, "driver", type="qcow2")
    ET.SubElement(mine, "source", file=str(file))
    return ET.tostring(root, encoding="unicode")
