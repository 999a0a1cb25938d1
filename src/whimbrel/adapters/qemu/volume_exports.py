"""Exports volumes to guests over NBD, by the cloud's qemu-storage-daemon.

Invariant: a volume is one node of the daemon, whatever the number of its attachments, each of which has an export of
its own; so all see the same data. The state is read from the daemon each time.

The NBD port has no authentication and lists the names of all exports. Bind it to a network that only hosts can reach.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.adapters.qemu.qmp import Complaint, Monitor
from whimbrel.adapters.qemu.storage_daemon import StorageDaemon
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.ports.embedded.volume_backing import Export

POLL_S = 0.02
ENDS_WITHIN_S = 10.0
NO_ROOM = "No space left"


class NbdExports:
    """Implements ports.embedded.volume_backing.VolumeExports."""

    def __init__(self, daemon: StorageDaemon) -> None:
        self._daemon = daemon
        self._talking = asyncio.Lock()

    async def reach(self, name: str) -> dict[str, Any]:
        data = {"server": self._daemon.address, "port": await self._daemon.port(), "export": name}
        return {"driver_volume_type": "nbd", "data": data}

    async def open(self, export: Export) -> dict[str, Any]:
        async with self._talking, self._daemon.told() as monitor:
            await _open(monitor, export)
        return await self.reach(export.name)

    async def close(self, name: str) -> None:
        async with self._talking:
            if await self._daemon.runs():
                async with self._daemon.told() as monitor:
                    await _close(monitor, [name])

    async def keep(self, wanted: Callable[[], Awaitable[Sequence[Export]]]) -> None:
        async with self._talking:
            if not (await self._daemon.runs() or await wanted()):
                return
            async with self._daemon.told() as monitor:
                served = await _served(monitor)
                # Read after that: exports that are active but not recorded by now were abandoned meanwhile.
                exports = await wanted()
                await _close(monitor, set(served) - {export.name for export in exports})
                for export in exports:
                    await _open(monitor, export)
                for node in await _nodes(monitor):
                    await _forget_node(monitor, node)
                idle = not await _nodes(monitor)
            if idle:
                await self._daemon.end()

    async def grow(self, exports: Sequence[Export], enlarge: Callable[[], Awaitable[None]]) -> None:
        # An exported node cannot be resized. Guests reconnect after the short interruption.
        async with self._talking, self._daemon.told() as monitor:
            await _close(monitor, [export.name for export in exports])
            if _node(exports[0].volume_id) in await _nodes(monitor):
                raise Unavailable(f"volume {exports[0].volume_id} is being copied: it is enlarged later")
            try:
                await enlarge()
            finally:
                for export in exports:
                    await _open(monitor, export)

    async def copy(self, volume_id: str, source: Path, target: Path) -> bool:
        # The copy is of the moment at which it ends: earlier writes of guests are copied too.
        job, node = _copy_of(target), _node(volume_id)
        await in_thread(lambda: _make_file(target, source.stat().st_size))
        async with self._talking, self._daemon.told() as monitor:
            await _end_job(monitor, job)  # of an earlier attempt
            await _add_node(monitor, node, source)
            await _add_node(monitor, job, target)
            await monitor.run(
                "blockdev-mirror", job_id=job, device=node, target=job, sync="full",
                copy_mode="write-blocking", auto_dismiss=False,
            )  # fmt: skip
        try:
            await self._until(job, "ready")
            async with self._talking, self._daemon.told() as monitor:
                await monitor.run("block-job-cancel", device=job)  # on a ready job: complete it
            await self._until(job, "concluded")
        finally:
            async with self._talking, self._daemon.told() as monitor:
                await _end_job(monitor, job)
                await _forget_node(monitor, node)
        return True

    async def _until(self, job: str, status: str) -> None:
        """Wait until a job has this status. Raises: Refused: the disk is full; Unavailable: it failed, or is gone."""
        while True:
            async with self._talking, self._daemon.told() as monitor:
                found = await _job(monitor, job)
            if found is None or found.get("error"):
                reason = f"a volume could not be copied: {found['error'] if found else 'the daemon was started anew'}"
                raise Refused(reason) if NO_ROOM in reason else Unavailable(reason)
            if found["status"] in (status, "concluded"):
                return
            await asyncio.sleep(POLL_S)


# Commands to the daemon


async def _open(monitor: Monitor, export: Export) -> None:
    """Export a volume under a name. Idempotent."""
    if export.name in await _served(monitor):
        return
    node = _node(export.volume_id)
    await _add_node(monitor, node, export.file)
    await monitor.run(
        "block-export-add", id=_id(export.name), type="nbd", node_name=node, name=export.name, writable=export.writable
    )


async def _close(monitor: Monitor, names: Iterable[str]) -> None:
    """End exports, wait until they have ended, then close volumes that are no longer used."""
    served = await _served(monitor)
    ending = {name: served[name] for name in names if name in served}
    for name in ending:
        await monitor.run("block-export-del", id=_id(name), mode="hard")
    left = set(ending)
    async with asyncio.timeout(ENDS_WITHIN_S):
        while left:
            left &= set(await _served(monitor))
            await asyncio.sleep(POLL_S if left else 0)
    for node in set(ending.values()):
        await _forget_node(monitor, node)


async def _served(monitor: Monitor) -> dict[str, str]:
    """Return the active exports: name -> node."""
    found = await monitor.run("query-block-exports")
    return {each["id"].removeprefix(ID): each["node-name"] for each in found}


async def _add_node(monitor: Monitor, node: str, file: Path) -> None:
    if node in await _nodes(monitor):
        return
    below = {"driver": "file", "filename": str(file), "discard": "unmap", "aio": "threads"}
    await monitor.run("blockdev-add", driver="raw", node_name=node, discard="unmap", file=below)


async def _forget_node(monitor: Monitor, node: str) -> None:
    """Close a node's file unless it is in use."""
    if node in await _nodes(monitor) and node not in (await _served(monitor)).values():
        try:
            await monitor.run("blockdev-del", node_name=node)
        except Complaint:
            return  # it is being copied, and closed after that


async def _nodes(monitor: Monitor) -> set[str]:
    """Return the nodes of open volumes."""
    found = await monitor.run("query-named-block-nodes", flat=True)
    return {each["node-name"] for each in found if each["node-name"].startswith(NODE)}


async def _job(monitor: Monitor, job: str) -> dict[str, Any] | None:
    return next((each for each in await monitor.run("query-jobs") if each["id"] == job), None)


async def _end_job(monitor: Monitor, job: str) -> None:
    """Ensure that neither this job nor its node exists."""
    async with asyncio.timeout(ENDS_WITHIN_S):
        while (found := await _job(monitor, job)) and found["status"] != "concluded":
            if found["status"] in ("running", "ready", "paused", "standby"):
                await monitor.run("block-job-cancel", device=job, force=True)
            await asyncio.sleep(POLL_S)
    if found:
        await monitor.run("job-dismiss", id=job)
    if job in await _nodes(monitor):
        await monitor.run("blockdev-del", node_name=job)


ID = "export-"  # ids of the daemon begin with a letter
NODE = "volume"


def _id(name: str) -> str:
    return ID + name


def _node(volume_id: str) -> str:
    """Return the node name of a volume: the daemon allows 31 characters."""
    return f"{NODE}{volume_id.replace('-', '')[:25]}"


def _copy_of(target: Path) -> str:
    return f"{NODE}{hashlib.sha256(str(target).encode()).hexdigest()[:25]}"


def _make_file(target: Path, size_bytes: int) -> None:
    target.unlink(missing_ok=True)
    target.touch(mode=0o600)
    with target.open("r+b") as file:
        file.truncate(size_bytes)
