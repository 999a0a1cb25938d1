"""Reads one of a guest's disks as a compressed qcow2 image, while the guest is stopped or runs.

Invariant: the image of a running guest is crash-consistent: the disk at one instant. The guest is never paused, because
a killed process would leave it paused. With an agent in the guest its file systems are frozen for that instant.
libvirt's backup job (push mode) preserves the instant; it continues if this process dies, and the next snapshot ends a
leftover job.
Source: virDomainBackupBegin, https://libvirt.org/formatbackup.html
"""

import asyncio
import contextlib
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from whimbrel.adapters.libvirt.connection import Libvirt, OnLibvirt
from whimbrel.adapters.libvirt.domain_xml import Domain
from whimbrel.adapters.libvirt.slots import SlotDirectory
from whimbrel.adapters.qemu import own_processes
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain import local_disks
from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.guest import DiskName, GuestSpec
from whimbrel.domain.ids import ServerId
from whimbrel.ports.hosts.hypervisor import Percent

CHUNK_BYTES = 1 << 20
POLL_S = 0.1
ENDS_WITHIN_S = 30.0


@dataclass(frozen=True)
class Snapshots(OnLibvirt):
    tools: Tools

    async def read(
        self, slot: SlotDirectory, name: DiskName, domain: Domain | None, percent: Percent
    ) -> AsyncIterator[bytes]:
        """Yield the image in chunks. domain: its last observed state.

        Raises: NotFound: no disk. Refused: not the root disk, and the guest runs. Unavailable.
        """
        disk, is_running = slot.disk_file(name), domain and domain.runs and domain.is_of(slot.key)
        if not disk.exists():
            raise NotFound("no disk to take a snapshot of")
        if is_running and name != "root":
            raise Refused("the guest runs: of its disks only the root disk can be read")
        image = slot.part("snapshot")
        await own_processes.end(await own_processes.at_work("qemu-img", image))
        try:
            if is_running:
                await self._take_running(slot, image, percent, awake=domain is not None and domain.power == "running")
            else:
                await self.tools.copy(["-f", "qcow2", str(disk)], image, percent, compress=True)
            async for chunk in _chunks(image):
                yield chunk
        finally:
            image.unlink(missing_ok=True)

    async def _take_running(self, slot: SlotDirectory, image: Path, percent: Percent, *, awake: bool) -> None:
        """awake: whether the guest runs, and is not paused."""
        copy, spec = slot.part("backup"), await in_thread(slot.read_defined_spec)
        target = local_disks.targets_of(spec)["root"]
        await self._end_backup(slot.key.server)
        await in_thread(lambda: copy.unlink(missing_ok=True))
        try:
            await self.connection.run(
                lambda libvirtd: self._begin_frozen(libvirtd, slot, target, copy, spec if awake else None)
            )
            while (done := await self.connection.run(lambda c: self._percent(c, slot.key.server))) is not None:
                percent(done // 2)
                await asyncio.sleep(POLL_S)
            await self.tools.copy(
                ["-f", "qcow2", str(copy)], image, lambda done: percent(50 + done // 2), compress=True
            )
        finally:
            copy.unlink(missing_ok=True)

    def _begin_frozen(
        self, libvirtd: Libvirt, slot: SlotDirectory, target: str, copy: Path, spec: GuestSpec | None
    ) -> None:
        """Begin the backup of a guest while its file systems are frozen, if it can. spec: None: it is not asked.

        All of it is in one thread, so that only a killed process can leave the guest frozen, for less than a second;
        the snapshot is then taken again, and thaws it.
        Raises: Refused: it requires to be frozen, and cannot.
        """
        domain = self.existing(libvirtd, slot.key.server)
        trouble = self._freeze(domain) if spec and spec.guest_agent else "it has no agent"
        try:
            if trouble and spec and spec.requires_quiesce:
                raise Refused(f"the guest requires to be frozen for a snapshot, and cannot: {trouble}")
            self._begin_backup(libvirtd, slot.key.server, target, copy)
        finally:
            if spec and spec.guest_agent:
                with contextlib.suppress(self.libvirt.libvirtError):  # it was not frozen
                    domain.fsThaw()

    def _freeze(self, domain: Libvirt) -> str:
        """Return why the guest was not frozen; "": it was."""
        try:
            domain.fsFreeze()
        except self.libvirt.libvirtError as error:
            return str(error.get_error_message())
        return ""

    def _begin_backup(self, libvirtd: Libvirt, server: ServerId, target: str, copy: Path) -> None:
        root = ET.Element("domainbackup", mode="push")
        disk = ET.SubElement(ET.SubElement(root, "disks"), "disk", name=target, backup="yes", type="file")
        ET.SubElement(disk, "driver", type="qcow2")
        ET.SubElement(disk, "target", file=str(copy))
        self.existing(libvirtd, server).backupBegin(ET.tostring(root, encoding="unicode"), None, 0)

    def _percent(self, libvirtd: Libvirt, server: ServerId) -> int | None:
        """Return the progress of the backup; None: it is complete. Raises: Unavailable: it failed."""
        domain, libvirt = self.existing(libvirtd, server), self.libvirt
        job = domain.jobStats()
        if job["type"] != libvirt.VIR_DOMAIN_JOB_NONE:
            return 100 * int(job.get("disk_processed", 0)) // max(1, int(job.get("disk_total", 0)))
        ended = domain.jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED)
        if not ended.get("success"):
            raise Unavailable(f"the backup of the running disk failed: {ended.get('errmsg', 'no reason given')}")
        return None

    async def _end_backup(self, server: ServerId) -> None:
        """Abort a backup job left by a killed process. Raises: Unavailable: it does not end."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ENDS_WITHIN_S
        while await self.connection.run(lambda libvirtd: self._abort_backup(libvirtd, server)):
            if loop.time() > deadline:
                raise Unavailable("an earlier backup of the disk does not end")
            await asyncio.sleep(POLL_S)

    def _abort_backup(self, libvirtd: Libvirt, server: ServerId) -> bool:
        """Abort the backup job; return whether there was one."""
        domain, libvirt = self.existing(libvirtd, server), self.libvirt
        if domain.jobStats().get("operation") != libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP:
            return False
        with contextlib.suppress(libvirt.libvirtError):  # it ended in between: check again
            domain.abortJob()
        return True


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := await in_thread(lambda: file.read(CHUNK_BYTES)):
            yield chunk
