"""The source of live transfers: libvirt copies a running guest to another host's libvirt.

Invariants: the guest's memory is moved by libvirtd, so that a killed agent does not end a transfer. After a silence,
what both libvirts have shows where the guest is, see VERDICTS. A guest that has left is never started here again. The
caller holds the lock of the server's guests, except for `progress`.
"""

import asyncio
import contextlib
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal

from msgspec.structs import replace

from whimbrel.adapters.libvirt import arrival, transfer_xml
from whimbrel.adapters.libvirt.arrival import Arrival
from whimbrel.adapters.libvirt.connection import Connection, Libvirt, OnLibvirt, find_domain
from whimbrel.adapters.libvirt.departure import Departure, address_of
from whimbrel.adapters.libvirt.domain_control import Domains
from whimbrel.adapters.libvirt.domain_xml import POST_COPY, is_paused_for, observe
from whimbrel.adapters.libvirt.migration_jobs import is_copying, set_bandwidth, statistics
from whimbrel.adapters.libvirt.migration_settings import SCHEME, MigrationSettings
from whimbrel.adapters.libvirt.migration_threads import Carrier
from whimbrel.adapters.libvirt.slots import SlotDirectory, Slots
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.domain import local_disks
from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.guest import DiskName, GuestKey, GuestSpec
from whimbrel.domain.live_transfer import LiveGuest, Steering, TransferOptions, TransferProgress, TransferTarget

BEGINS_WITHIN_S = 20.0
BEGINS_LATE_S = 1.0
ENDS_WITHIN_S = 60.0
POLL_S = 0.05
INTERRUPTED = "the transfer was interrupted: libvirt or the agent of this host ended"

Here = Literal["copying", "running", "paused", "stopped", "left"]
"""A guest at its source, as libvirt has it without a transfer of this process."""

Verdict = Literal["copying", "failed", "left"]

VERDICTS: dict[tuple[Here, Arrival], Verdict] = {
    ("paused", "none"): "failed",
    ("paused", "coming"): "copying",
    ("paused", "asleep"): "left",
    ("paused", "awake"): "left",
    ("paused", "stopped"): "failed",  # it slept there until it was lost: what is here is all that there is of it
    ("stopped", "none"): "failed",
    ("stopped", "coming"): "copying",
    ("stopped", "asleep"): "left",
    ("stopped", "awake"): "left",
    ("stopped", "stopped"): "failed",  # the same; both disks have the same contents
}
"""What has become of an interrupted transfer. A guest that runs here has not left."""


@dataclass(frozen=True)
class LiveTransfers(OnLibvirt):
    """The transfers from one host. uri: of its libvirt."""

    uri: str
    domains: Domains
    slots: Slots
    settings: MigrationSettings
    _carriers: dict[GuestKey, Carrier] = field(default_factory=dict, init=False)
    _peers: dict[str, Connection] = field(default_factory=dict, init=False)

    # Before a transfer

    async def examine(self, key: GuestKey, movable: tuple[str, ...] = ()) -> LiveGuest:
        slot, spec = await self._running(key)
        live = await self.connection.run(lambda c: self._live_xml(c, key))
        sizes = await self.connection.run(lambda c: self._disk_sizes(c, spec))
        kind, version = await self.connection.run(lambda c: (c.getType(), c.getVersion()))
        return LiveGuest(
            address=address_of(self.settings.peer_uri or "", slot.key),
            cpu=transfer_xml.guest_cpu(live),
            hypervisor_type=kind,
            hypervisor_version=version,
            disks=sizes,
            config_drive=spec.config_drive,
            hardware=spec.hardware,
            machine=transfer_xml.machine_of(live),
            immovable=transfer_xml.immovable(live, movable),
        )

    async def _running(self, key: GuestKey) -> tuple[SlotDirectory, GuestSpec]:
        slot = self.slots.reserved(key)
        spec = await in_thread(slot.read_spec)
        domain = await self.domains.seen(key.server)
        departure = await in_thread(slot.read_departure)
        if departure and departure.has_left:
            raise Refused(f"guest {key.slot} of server {key.server} has left this host")
        if not spec or not domain or not domain.is_of(key) or not domain.runs:
            raise Refused(f"guest {key.slot} of server {key.server} does not run here")
        return slot, spec

    def _live_xml(self, libvirtd: Libvirt, key: GuestKey) -> str:
        secure = self.libvirt.VIR_DOMAIN_XML_SECURE  # with the secrets of its volumes
        xml: str = self._domain(libvirtd, key).XMLDesc(self.libvirt.VIR_DOMAIN_XML_MIGRATABLE | secure)
        return xml

    def _disk_sizes(self, libvirtd: Libvirt, spec: GuestSpec) -> dict[DiskName, int]:
        domain, targets = self._domain(libvirtd, spec.key), local_disks.targets_of(spec)
        return {name: domain.blockInfo(target)[0] for name, target in targets.items()}

    # A transfer

    async def start(self, key: GuestKey, target: TransferTarget, options: TransferOptions) -> None:
        if await self._is_under_way(key, target.address):
            return
        slot, spec = await self._running(key)
        if target.scheme != SCHEME:
            raise Refused(f"this host cannot transfer a guest to a {target.scheme} host")
        live = await self.connection.run(lambda c: self._live_xml(c, key))
        if reason := transfer_xml.immovable(live, target.pci):
            raise Refused(f"the guest cannot be moved while it runs: {reason}")
        domain = await self.domains.seen(key.server)
        assert domain, "it was here at once before"
        carrier = Carrier(
            self.libvirt,
            self.uri,
            slot,
            target,
            live=transfer_xml.at_target(live, target.definition, domain.power, target.pci),
            disks=[local_disks.targets_of(spec)[name] for name in target.disks],
            tls=self.settings.tls,
            suspends=await self._suspends(live),
        )
        departure = Departure(target=target.address, options=options, power_before=domain.power)
        await in_thread(lambda: slot.write_departure(departure))
        self._carriers[key] = carrier
        carrier.start()
        await self._await_copying(slot, departure)

    async def _suspends(self, live: str) -> bool:
        version = await self.connection.run(lambda c: c.getVersion())
        return self.settings.suspends(ET.fromstring(live).get("type", ""), version)

    async def _is_under_way(self, key: GuestKey, target: str) -> bool:
        """Check whether a transfer to this target is under way. Raises: Refused: one to another target is."""
        departure = await in_thread(self.slots.reserved(key).read_departure)
        if departure is None or not departure.is_open:
            return False
        if (await self.progress(key, departure.target)).state != "active":
            return False
        if departure.target != target:
            raise Refused(f"guest {key.slot} of server {key.server} is being transferred to {departure.target}")
        return True

    async def progress(self, key: GuestKey, target: str) -> TransferProgress:
        slot = self.slots.reserved(key)
        departure = await in_thread(slot.read_departure)
        if departure is None or departure.target != target:
            return TransferProgress(state="none")
        if self._is_carried(key):
            return await self._copied(slot, departure)
        departure = await in_thread(slot.read_departure)  # as its thread left it
        assert departure, "only an order removes it"
        if departure.is_open and await self._settle(slot, departure) == "copying":
            return await self._copied(slot, departure)
        return _result(await self._woken(slot))

    def _is_carried(self, key: GuestKey) -> bool:
        carrier = self._carriers.get(key)
        return carrier is not None and carrier.is_at_work

    async def _copied(self, slot: SlotDirectory, departure: Departure) -> TransferProgress:
        found = await self.connection.run(lambda c: statistics(self.libvirt, c, slot.key.server))
        return replace(found, target=departure.target)

    async def _woken(self, slot: SlotDirectory) -> Departure:
        """Ensure that a guest that has left runs at its target. Raises: Unavailable: the target does not answer."""
        departure = await in_thread(slot.read_departure)
        assert departure, "only an order removes it"
        if departure.state != "left":
            return departure
        await self._peer(departure).run(lambda c: arrival.wake(self.libvirt, c, departure.key))
        await in_thread(lambda: slot.update_departure(lambda d: replace(d, state="arrived")))
        return replace(departure, state="arrived")

    # What has become of an interrupted transfer

    async def _settle(self, slot: SlotDirectory, departure: Departure) -> Verdict:
        here = await self.connection.run(lambda c: self._here(c, slot.key))
        if here != "copying" and slot.key not in self._carriers:
            await asyncio.sleep(BEGINS_LATE_S)  # libvirt may have the order of a killed process, and not have begun
            here = await self.connection.run(lambda c: self._here(c, slot.key))
        verdict = await self._verdict(here, departure)
        if verdict == "left":
            await self.connection.run(lambda c: self._end_remains(c, slot.key))
            await in_thread(lambda: slot.update_departure(lambda d: replace(d, state="left")))
        elif verdict == "failed":
            await self.connection.run(lambda c: self._take_back(c, slot.key, departure))
            carrier = self._carriers.pop(slot.key, None)
            trouble = (carrier and carrier.trouble) or INTERRUPTED
            await in_thread(lambda: slot.update_departure(lambda d: replace(d, state="failed", trouble=trouble)))
        return verdict

    async def _verdict(self, here: Here, departure: Departure) -> Verdict:
        """Return what has become of a transfer that this process does not carry, or does not carry any more."""
        if here == "copying" or here == "left":
            return here
        if here == "running":
            return "failed"
        there = await self._peer(departure).run(lambda c: arrival.arrival(self.libvirt, c, departure.key))
        if departure.options.post_copy and (here, there) == ("stopped", "stopped"):
            return "left"  # it may have run there
        return VERDICTS[here, there]

    def _here(self, libvirtd: Libvirt, key: GuestKey) -> Here:
        domain = find_domain(self.libvirt, libvirtd, key.server)
        seen = observe(self.libvirt, domain) if domain else None
        if domain is None or seen is None or not seen.is_of(key):
            return "stopped"
        if is_copying(self.libvirt, domain) or seen.runs_elsewhere:
            return "copying"
        state, reason = domain.state()
        if not seen.is_active:
            return "left" if reason == self.libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED else "stopped"
        return "paused" if state == self.libvirt.VIR_DOMAIN_PAUSED else "running"

    def _end_remains(self, libvirtd: Libvirt, key: GuestKey) -> None:
        """End what is left here of a guest that has left."""
        domain = find_domain(self.libvirt, libvirtd, key.server)
        if domain and domain.isActive():
            domain.destroy()

    def _take_back(self, libvirtd: Libvirt, key: GuestKey, departure: Departure) -> None:
        """Resume a guest that has not left, unless it was paused before."""
        domain = find_domain(self.libvirt, libvirtd, key.server)
        if domain is None or not domain.isActive() or departure.power_before != "running":
            return
        if domain.state()[0] == self.libvirt.VIR_DOMAIN_PAUSED:
            domain.resume()

    def _peer(self, departure: Departure) -> Connection:
        return self._peers.setdefault(departure.uri, Connection(departure.uri))

    # Orders during a transfer

    async def steer(self, key: GuestKey, steering: Steering) -> None:
        slot = self.slots.at(key)
        departure = await in_thread(slot.read_departure)
        if departure is None or (await self.progress(key, departure.target)).state != "active":
            return
        await self._await_copying(slot, departure)
        if steering.post_copy and not (await in_thread(slot.read_departure) or departure).options.post_copy:
            raise Refused("the transfer was begun without leave for post-copy, or this host does not have it")
        await self.connection.run(lambda c: self._steer(c, key, steering))
        if steering.post_copy:
            await in_thread(lambda: slot.update_departure(lambda d: replace(d, asks_post_copy=True)))
            await self.connection.run(lambda c: self._begin_post_copy(c, key))

    async def _await_copying(self, slot: SlotDirectory, departure: Departure) -> None:
        async with _within(BEGINS_WITHIN_S, "the transfer has not begun yet"):
            while (now := await self.progress(slot.key, departure.target)).state == "active":
                if now.disk_total or now.memory_total:  # before, QEMU has no job to be changed
                    return
                await asyncio.sleep(POLL_S)

    def _steer(self, libvirtd: Libvirt, key: GuestKey, steering: Steering) -> None:
        domain = self._domain(libvirtd, key)
        if not is_copying(self.libvirt, domain):
            return
        if steering.bandwidth_mib_s is not None:
            set_bandwidth(domain, steering.bandwidth_mib_s)
        if steering.max_pause_ms is not None:
            domain.migrateSetMaxDowntime(steering.max_pause_ms)
        if steering.suspend and domain.state()[0] == self.libvirt.VIR_DOMAIN_RUNNING:
            domain.suspend()

    def _begin_post_copy(self, libvirtd: Libvirt, key: GuestKey) -> None:
        domain = self._domain(libvirtd, key)
        if not is_paused_for(self.libvirt, domain, POST_COPY):
            domain.migrateStartPostCopy()

    async def end(self, key: GuestKey) -> None:
        slot = self.slots.at(key)
        departure = await in_thread(slot.read_departure)
        if departure and departure.is_open:
            await self._abort(slot, departure)
        elif departure:
            await self._woken(slot)  # whoever looks for a guest that has left finds it at its target
        departure = await in_thread(slot.read_departure)
        if departure and departure.state == "failed":
            await in_thread(lambda: slot.departure.unlink(missing_ok=True))

    async def _abort(self, slot: SlotDirectory, departure: Departure) -> None:
        if departure.asks_post_copy:
            raise Refused("the transfer is in post-copy: the guest runs at the target, and needs what is still here")
        if carrier := self._carriers.get(slot.key):
            carrier.ends = True
        async with _within(ENDS_WITHIN_S, "the transfer does not end"):
            while (await self.progress(slot.key, departure.target)).state == "active":
                await self.connection.run(lambda c: self._abort_job(c, slot.key))
                await asyncio.sleep(POLL_S)

    def _abort_job(self, libvirtd: Libvirt, key: GuestKey) -> None:
        domain = find_domain(self.libvirt, libvirtd, key.server)
        try:
            if domain and is_copying(self.libvirt, domain):
                domain.abortJob()
        except self.libvirt.libvirtError as error:
            if error.get_error_code() != self.libvirt.VIR_ERR_OPERATION_INVALID:  # it has ended, or ends
                raise

    # Other orders

    async def check_not_left(self, key: GuestKey) -> None:
        """Ensure that a guest may be started here. Raises: Refused: it has left; Unavailable: it may have."""
        departure = await in_thread(self.slots.at(key).read_departure)
        if departure is None:
            return
        state = (await self.progress(key, departure.target)).state
        if state == "arrived":
            raise Refused(f"guest {key.slot} of server {key.server} has left this host by a live transfer")
        if state == "active":
            raise Refused(f"guest {key.slot} of server {key.server} is being transferred")

    async def check_not_in_post_copy(self, key: GuestKey) -> None:
        """Raises: Refused: what runs at another host needs its memory here."""
        domain = await self.domains.seen(key.server)
        if domain and domain.is_of(key) and domain.runs_elsewhere:
            raise Refused("the guest is in post-copy: it runs at another host, and needs its memory here")

    def _domain(self, libvirtd: Libvirt, key: GuestKey) -> Libvirt:
        domain = find_domain(self.libvirt, libvirtd, key.server)
        if domain is None:
            raise NotFound(f"no guest of server {key.server} is here")
        return domain


def _result(departure: Departure) -> TransferProgress:
    if departure.state == "failed":
        return TransferProgress(state="failed", target=departure.target, trouble=departure.trouble)
    return replace(departure.last or TransferProgress(state="arrived"), state="arrived", target=departure.target)


@contextlib.asynccontextmanager
async def _within(seconds: float, trouble: str) -> AsyncIterator[None]:
    """Raises: Unavailable: the block takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unavailable(trouble) from error
