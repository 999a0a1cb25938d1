"""Simulated hosts whose transfers take the time that their links need, for guests of a snapshot.

Invariant: a host answers about a transfer when there is something new: at its end, or when its policy may act. So a
simulated hour costs what happens in it, and not its seconds.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from whimbrel.domain import local_disks
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import DiskExport, DiskName, GuestKey, GuestSpec
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.live_transfer import LiveGuest, TransferOptions, TransferProgress, TransferTarget
from whimbrel.maintenance.cloud_snapshot import KnownGuest
from whimbrel.ports.hosts.hypervisor import Percent
from whimbrel.sim.maintenances.network_links import NEVER, Flow, Links
from whimbrel.sim.world.guests import Sending, SimulatedGuest
from whimbrel.sim.world.hypervisor import SimulatedHypervisor
from whimbrel.sim.world.live_transfers import MIB, THROTTLE_EVERY_S, LiveTransfers

LATER_S = 1e-6
"""Added to computed ends, so that rounding does not put them before the real ones."""


@dataclass
class Behaviour:
    """What the hosts of a simulation share. deadlines: seconds after which the policy of a live migration may act.

    copied: bytes copied of each server.
    """

    links: Links
    known: dict[ServerId, KnownGuest]
    deadlines: dict[ServerId, float]
    copied: dict[ServerId, float] = field(default_factory=dict)

    def end(self, server: ServerId, name: str) -> None:
        if flow := self.links.end(name):
            self.count(server, flow)

    def count(self, server: ServerId, flow: Flow) -> None:
        self.copied[server] = self.copied.get(server, 0.0) + flow.copied


class LinkedHypervisor(SimulatedHypervisor):
    """behaviour: as `Behaviour`; the other arguments are those of its base."""

    def __init__(self, behaviour: Behaviour, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._behaviour = behaviour
        self._linked = LinkedTransfers(behaviour, self.host, self._guests, self._world, self._clock, 1.0)
        self._transfers = self._linked

    async def examine(self, key: GuestKey, movable: tuple[str, ...] = ()) -> LiveGuest:
        """Return the guest as its real host has described it."""
        found, known = await super().examine(key, movable), self._behaviour.known.get(key.server, KnownGuest())
        if known.refused:
            raise Refused(known.refused)
        return replace(found, cpu=known.cpu, hypervisor_version=known.hypervisor_version, immovable=known.immovable)

    async def transfer_progress(self, key: GuestKey, target: str) -> TransferProgress:
        """Return the progress at the end of the transfer, or when its policy may act."""
        while True:
            progress = await super().transfer_progress(key, target)
            deadline_s = self._behaviour.deadlines.get(key.server, 0.0)
            if progress.state != "active" or progress.elapsed_s >= deadline_s:
                return progress
            guest = await self._guests.get(key)
            assert guest.sending, "it is active"
            ends_in_s = self._linked.ends_in_s(guest.sending)
            await self._behaviour.links.wait(min(ends_in_s, deadline_s - progress.elapsed_s))

    async def import_disk(self, spec: GuestSpec, export: DiskExport, percent: Percent, disk: DiskName = "root") -> None:
        source = HostName(export.location.partition("/")[0])
        await self._carry(spec.key, source, self.host, disk, export.size_bytes)
        await super().import_disk(spec, export, percent, disk)

    async def fetch_disk(self, spec: GuestSpec, image_id: str, percent: Percent, disk: DiskName = "root") -> None:
        await self._carry(spec.key, None, self.host, disk, local_disks.size_bytes(spec, disk))
        await super().fetch_disk(spec, image_id, percent, disk)

    async def read_snapshot(self, key: GuestKey, percent: Percent, disk: DiskName = "root") -> Any:
        guest = await self._guests.get(key)
        await self._carry(key, self.host, None, disk, guest.disks[disk].size_bytes)
        async for chunk in super().read_snapshot(key, percent, disk):
            yield chunk

    async def _carry(
        self, key: GuestKey, source: HostName | None, target: HostName | None, disk: DiskName, amount: int
    ) -> None:
        flow = Flow(source, target, float(amount))
        await self._behaviour.links.carry(f"{disk} of {key.server} from {source} to {target}", flow)
        self._behaviour.count(key.server, flow)


class LinkedTransfers(LiveTransfers):
    """The live transfers of one host over its link. The address of the target names a transfer."""

    def __init__(self, behaviour: Behaviour, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._behaviour = behaviour
        self._links = behaviour.links

    async def start(self, key: GuestKey, target: TransferTarget, options: TransferOptions) -> None:
        await super().start(key, target, options)
        if target.address in self._links.flows:
            return
        guest = await self._guests.get(key)
        assert guest.sending, "it has started"
        flow = Flow(
            source=self._host,
            target=HostName(target.address.partition("/")[0]),
            total=self._total(guest),
            written=self._dirty_rate(guest, guest.sending),
            most=options.bandwidth_mib_s * MIB,
        )
        self._links.begin(target.address, flow)

    async def end(self, key: GuestKey) -> None:
        guest = await self._guests.find(key)
        await super().end(key)
        if guest and guest.sending:
            self._behaviour.end(key.server, guest.sending.target)

    def ends_in_s(self, sending: Sending) -> float:
        """Return when the guest switches over if all rates stay, or when it is to be looked at again."""
        flow = self._links.flows[sending.target]
        gained = flow.rate - flow.written
        if gained <= 0:  # it converges once the guest is slowed down enough
            return THROTTLE_EVERY_S if sending.options.auto_converge else NEVER
        left = flow.remaining - flow.rate * sending.options.max_pause_ms / 1000
        return max(0.0, left) / gained + LATER_S

    async def _switch_over(self, guest: SimulatedGuest, sending: Sending) -> str:
        flow = self._links.flows[sending.target]
        flow.written = 0.0  # it is paused while the rest is copied
        await asyncio.sleep(flow.remaining / flow.rate)
        address = await super()._switch_over(guest, sending)
        if address:
            self._behaviour.end(guest.key.server, sending.target)
        return address

    async def _fail(self, guest: SimulatedGuest, sending: Sending, trouble: str) -> None:
        await super()._fail(guest, sending, trouble)
        self._behaviour.end(guest.key.server, sending.target)

    def _rate(self, sending: Sending) -> float:
        flow = self._links.flows.get(sending.target)
        return flow.rate if flow else 0.0

    def _remaining(self, guest: SimulatedGuest, sending: Sending) -> float:
        """Return the bytes still to be copied. A guest that writes too fast is slowed down from now on."""
        if sending.target not in self._links.flows:
            return 0.0
        left = self._links.remaining(sending.target)
        flow = self._links.flows[sending.target]
        flow.written = self._dirty_rate(guest, sending)
        return 0.0 if sending.remaining == 0.0 else left  # post-copy: what is left follows
