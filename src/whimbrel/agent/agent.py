"""The agent of one host: obeys orders in the order of arrival, and refuses stale ones.

Invariants: the fence is checked when an order arrives and again when its turn comes, so that an order that waited
while a newer epoch arrived does nothing. Orders on one server never interleave. Only the named slot is changed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

import structlog

from whimbrel.agent.console_relay import LOOPBACK, ConsoleListen, ConsoleRelay
from whimbrel.agent.ended_transfers import EndedTransfers
from whimbrel.agent.fence import Fence
from whimbrel.agent.image_fetches import ImageFetches
from whimbrel.agent.long_orders import Job, Jobs
from whimbrel.domain import local_disks
from whimbrel.domain.console import ConsoleAddress, ConsoleKind
from whimbrel.domain.errors import NotFound, Refused, WorldError
from whimbrel.domain.guest import DiskExport, DiskName, Guest, GuestKey, GuestSpec, Ledger, Order, Progress
from whimbrel.domain.guest_diagnostics import Diagnostics
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.live_transfer import (
    CpuFit,
    GuestCpu,
    LiveGuest,
    Steering,
    TransferOptions,
    TransferProgress,
    TransferTarget,
)
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.domain.server_devices import GuestNic, GuestVolume
from whimbrel.domain.volume_merge import Merge
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.data_plane import GuestNetworks, UnmanagedNetworks
from whimbrel.ports.hosts.hypervisor import Hypervisor, Percent
from whimbrel.ports.hosts.key_value_store import KeyValueStore
from whimbrel.ports.services.images import Images

log = structlog.get_logger(__name__)

WAIT_S = 3.0


class HostAgent:
    """Implements ports.hosts.agent.Agent."""

    def __init__(
        self,
        host: HostName,
        hypervisor: Hypervisor,
        store: KeyValueStore,
        images: Images,
        clock: Clock,
        wait_s: float = WAIT_S,
        console_at: ConsoleListen = LOOPBACK,
        *,
        effects_in_store: bool = False,
    ) -> None:
        """wait_s: how long a request waits for the end of a job before it is answered with the progress.

        console_at: where clients of consoles connect. effects_in_store: the hypervisor has its guests in `store`, too.
        """
        self.host = host
        self.networks: GuestNetworks = UnmanagedNetworks()
        self._hypervisor = hypervisor
        self._images = images
        self._fence = Fence(host, store, clock, effects_in_store=effects_in_store)
        self._jobs = Jobs(clock, wait_s)
        self._fetches = ImageFetches(host, hypervisor, clock)
        self._consoles = ConsoleRelay(console_at)
        self._ended_transfers = EndedTransfers(host, store, clock)
        self._locks: WeakValueDictionary[ServerId, asyncio.Lock] = WeakValueDictionary()

    # The process

    async def open(self) -> list[Guest]:
        """Return the guests at the start of the process. No job is resumed: the conductor repeats its orders.

        What a killed process has left connected is disconnected.
        """
        found = await self._hypervisor.guests()
        await self._release_volumes()
        return found

    async def close(self) -> None:
        """Cancel all jobs, which a repeated order starts anew, and end all connections to consoles."""
        await self._jobs.close()
        await self._fetches.close()
        await self._consoles.close()

    async def prune(self, before: float) -> None:
        """Forget runs without new orders since `before`, which must precede every order that may still arrive.

        Volumes that no live guest uses are disconnected: those of guests that ended by themselves.
        """
        self._jobs.prune(before)
        await self._fence.prune(before)
        await self._ended_transfers.prune(before)
        await self._release_volumes()

    async def _release_volumes(self) -> None:
        try:
            await self._hypervisor.release_volumes()
        except WorldError as trouble:  # repeated later; the operations on a guest report it
            log.warning("unused volumes are still connected", host=self.host, reason=trouble.reason)

    # Reading

    async def look(self, key: GuestKey) -> Guest | None:
        return await self._hypervisor.look(key)

    async def guests(self) -> list[Guest]:
        return await self._hypervisor.guests()

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        return await self._hypervisor.console_log(key, lines)

    async def open_console(self, key: GuestKey, kind: ConsoleKind) -> ConsoleAddress:
        return await self._consoles.offer(await self._hypervisor.connect_console(key, kind))

    async def firmware_variables(self, key: GuestKey) -> bytes:
        return await self._hypervisor.firmware_variables(key)

    async def diagnostics(self, key: GuestKey) -> Diagnostics:
        return await self._hypervisor.diagnostics(key)

    async def uptime(self) -> str:
        return await self._hypervisor.uptime()

    async def connector(self) -> dict[str, Any]:
        return await self._hypervisor.connector()

    # Images

    async def cache_image(self, image_id: str) -> Progress:
        return await self._fetches.ask(image_id)

    # The ledger

    async def ledger(self, newest: int = 0) -> Ledger:
        return await self._fence.ledger(newest)

    async def adopt(self, incarnation: int) -> None:
        await self._fence.adopt(incarnation)

    # Short orders

    async def prepare(self, order: Order, spec: GuestSpec) -> None:
        async with self._turn(order, spec.key):
            await self._hypervisor.reserve(spec)

    async def export_disk(self, order: Order, key: GuestKey, disk: DiskName = "root") -> DiskExport:
        async with self._turn(order, key):
            return await self._hypervisor.export_disk(key, disk)

    async def unexport_disk(self, order: Order, key: GuestKey) -> None:
        async with self._turn(order, key):
            await self._hypervisor.unexport_disk(key)

    async def define(self, order: Order, spec: GuestSpec) -> None:
        async with self._turn(order, spec.key):
            await self._hypervisor.define(spec)

    async def start(self, order: Order, key: GuestKey, paused: bool = False) -> None:
        async with self._turn(order, key):
            await self.networks.refresh(key.server)
            await self._hypervisor.start(key, paused)

    async def stop(self, order: Order, key: GuestKey, timeout_s: float) -> None:
        async with self._turn(order, key):
            await self._hypervisor.stop(key, timeout_s)

    async def reboot(self, order: Order, key: GuestKey, hard: bool) -> None:
        async with self._turn(order, key):
            if hard:
                await self.networks.refresh(key.server)
            await self._hypervisor.reboot(key, hard)

    async def plug(self, order: Order, key: GuestKey, nic: GuestNic) -> None:
        async with self._turn(order, key):
            await self.networks.refresh(key.server)
            await self._hypervisor.plug(key, nic)

    async def unplug(self, order: Order, key: GuestKey, port_id: str) -> None:
        async with self._turn(order, key):
            await self._hypervisor.unplug(key, port_id)

    async def attach_volume(self, order: Order, key: GuestKey, volume: GuestVolume) -> None:
        async with self._turn(order, key):
            await self._hypervisor.attach_volume(key, volume)

    async def detach_volume(self, order: Order, key: GuestKey, volume_id: str) -> None:
        async with self._turn(order, key):
            await self._hypervisor.detach_volume(key, volume_id)

    async def extend_volume(self, order: Order, key: GuestKey, volume_id: str, size_gib: int) -> None:
        async with self._turn(order, key):
            await self._hypervisor.extend_volume(key, volume_id, size_gib)

    async def take_volume_snapshot(self, order: Order, key: GuestKey, volume_id: str, file: str) -> None:
        async with self._turn(order, key):
            await self._hypervisor.take_volume_snapshot(key, volume_id, file)

    async def pause(self, order: Order, key: GuestKey) -> None:
        async with self._turn(order, key):
            await self._hypervisor.pause(key)

    async def suspend(self, order: Order, key: GuestKey) -> None:
        async with self._turn(order, key):
            await self._hypervisor.suspend(key)

    async def resume(self, order: Order, key: GuestKey) -> None:
        async with self._turn(order, key):
            await self.networks.refresh(key.server)
            await self._hypervisor.resume(key)

    async def inject_nmi(self, order: Order, key: GuestKey) -> None:
        async with self._turn(order, key):
            await self._hypervisor.inject_nmi(key)

    async def set_password(self, order: Order, key: GuestKey, user: str, password: str) -> None:
        async with self._turn(order, key):
            await self._hypervisor.set_password(key, user, password)

    async def enter_rescue(self, order: Order, key: GuestKey) -> None:
        async with self._turn(order, key):
            await self._hypervisor.enter_rescue(key)

    async def leave_rescue(self, order: Order, key: GuestKey) -> None:
        async with self._turn(order, key):
            await self._hypervisor.leave_rescue(key)

    async def discard_rescue_disk(self, order: Order, key: GuestKey) -> None:
        async with self._turn_without_jobs(order, key):
            await self._hypervisor.discard_rescue_disk(key)

    async def discard_disk(self, order: Order, key: GuestKey) -> None:
        async with self._turn_without_jobs(order, key):
            await self._hypervisor.discard_disk(key)

    async def destroy(self, order: Order, key: GuestKey) -> None:
        async with self._turn_without_jobs(order, key):
            await self._hypervisor.destroy(key)

    async def end_volume_swap(self, order: Order, key: GuestKey, volume_id: str, attachment_id: str) -> None:
        async with self._turn_without_jobs(order, key):
            await self._hypervisor.end_volume_swap(key, volume_id, attachment_id)

    # Live transfers: the hypervisor carries them out, so that none of these orders is long

    async def examine(self, key: GuestKey, movable: tuple[str, ...] = ()) -> LiveGuest:
        return await self._hypervisor.examine(key, movable)

    async def compare_cpu(self, cpu: GuestCpu) -> CpuFit:
        return await self._hypervisor.compare_cpu(cpu)

    async def receive(self, order: Order, spec: GuestSpec, live: LiveGuest) -> TransferTarget:
        async with self._turn(order, spec.key):
            await self.networks.refresh(spec.key.server)
            return await self._hypervisor.receive(spec, live)

    async def transfer(
        self, order: Order, key: GuestKey, target: TransferTarget, options: TransferOptions
    ) -> TransferProgress:
        async with self._turn(order, key):
            progress = await self._hypervisor.transfer_progress(key, target.address)
            if progress.state == "none":
                await self._ended_transfers.check(order)
                await self._hypervisor.start_transfer(key, target, options)
                progress = await self._hypervisor.transfer_progress(key, target.address)
            if progress.state == "failed":
                raise Refused(progress.trouble)
            return progress

    async def steer_transfer(self, order: Order, key: GuestKey, steering: Steering) -> None:
        async with self._turn(order, key):
            await self._hypervisor.steer_transfer(key, steering)

    async def end_transfer(self, order: Order, key: GuestKey) -> None:
        async with self._turn(order, key):
            await self._ended_transfers.note(order)
            await self._hypervisor.end_transfer(key)

    async def settle_arrival(self, order: Order, key: GuestKey) -> None:
        async with self._turn(order, key):
            await self._hypervisor.settle_arrival(key)

    # Long orders

    async def build_disk(self, order: Order, spec: GuestSpec) -> Progress:
        return await self._job(
            order,
            "build_disk",
            spec.key,
            is_done=lambda: self._has_disks(spec.key, local_disks.names_of(spec)),
            act=lambda percent: self._hypervisor.create_disk(spec, percent),
        )

    async def import_disk(self, order: Order, spec: GuestSpec, export: DiskExport, disk: DiskName = "root") -> Progress:
        return await self._job(
            order,
            f"import_disk {disk}",
            spec.key,
            is_done=lambda: self._has_disks(spec.key, [disk]),
            act=lambda percent: self._hypervisor.import_disk(spec, export, percent, disk),
        )

    async def fetch_disk(self, order: Order, spec: GuestSpec, image_id: str, disk: DiskName = "root") -> Progress:
        return await self._job(
            order,
            f"fetch_disk {disk}",
            spec.key,
            is_done=lambda: self._has_disks(spec.key, [disk]),
            act=lambda percent: self._hypervisor.fetch_disk(spec, image_id, percent, disk),
        )

    async def build_rescue_disk(self, order: Order, key: GuestKey, rescue: RescueDisk) -> Progress:
        return await self._job(
            order,
            "build_rescue_disk",
            key,
            is_done=lambda: self._has_rescue_disk(key, rescue),
            act=lambda percent: self._hypervisor.create_rescue_disk(key, rescue, percent),
        )

    async def swap_volume(self, order: Order, key: GuestKey, volume_id: str, new: GuestVolume) -> Progress:
        return await self._job(
            order,
            f"swap_volume {new.attachment_id}",
            key,
            is_done=_is_left_to_hypervisor,
            act=lambda percent: self._hypervisor.swap_volume(key, volume_id, new, percent),
        )

    async def merge_volume_files(self, order: Order, key: GuestKey, volume_id: str, merge: Merge) -> Progress:
        return await self._job(
            order,
            f"merge_volume_files {volume_id} {merge.top} {merge.base}",
            key,
            is_done=_is_left_to_hypervisor,
            act=lambda percent: self._hypervisor.merge_volume_files(key, volume_id, merge, percent),
        )

    async def upload_snapshot(self, order: Order, key: GuestKey, image_id: str, disk: DiskName = "root") -> Progress:
        return await self._job(
            order,
            f"upload_snapshot {image_id}",
            key,
            is_done=lambda: self._is_active(image_id),
            act=lambda percent: self._images.write(image_id, self._hypervisor.read_snapshot(key, percent, disk)),
        )

    async def _has_disks(self, key: GuestKey, disks: Collection[DiskName]) -> bool:
        """Check whether complete disks exist: they prove that a job has ended, also after a restart."""
        guest = await self._hypervisor.look(key)
        return guest is not None and set(disks) <= set(guest.disks)

    async def _has_rescue_disk(self, key: GuestKey, rescue: RescueDisk) -> bool:
        guest = await self._hypervisor.look(key)
        return guest is not None and guest.rescue == rescue

    async def _is_active(self, image_id: str) -> bool:
        return (await self._images.show(image_id)).status == "active"

    # Turns

    @asynccontextmanager
    async def _turn(self, order: Order, key: GuestKey) -> AsyncIterator[None]:
        """Wait until no other order on this server is in progress. Raises: Superseded, before or after the wait."""
        async with self._fence.admitted(order, key.server), self._lock(key):
            self._fence.check(order, key.server)
            try:
                yield
            except NotFound as missing:
                raise Refused(missing.reason) from missing

    @asynccontextmanager
    async def _turn_without_jobs(self, order: Order, key: GuestKey) -> AsyncIterator[None]:
        """Like `_turn`, but cancel the jobs of this slot first: their copies are no longer needed."""
        async with self._fence.admitted(order, key.server):
            await self._jobs.end(key)
            async with self._turn(order, key):
                yield

    async def _job(
        self,
        order: Order,
        kind: str,
        key: GuestKey,
        is_done: Callable[[], Awaitable[bool]],
        act: Callable[[Percent], Awaitable[None]],
    ) -> Progress:
        """Start or join a job. is_done checks the result itself, so a finished job is recognized after any crash."""

        async def work(job: Job) -> None:
            async with self._lock(key):
                if not await is_done():
                    # checked last: the wait and is_done may take long
                    self._fence.check(job.order, key.server)
                    await act(job.show)

        async with self._fence.admitted(order, key.server):
            return await self._jobs.ask(order, kind, key, work)

    def _lock(self, key: GuestKey) -> AbstractAsyncContextManager[Any]:
        return self._locks.setdefault(key.server, asyncio.Lock())


async def _is_left_to_hypervisor() -> bool:
    """Leave it to the hypervisor to find out which volume, and which files, the guest uses."""
    return False
