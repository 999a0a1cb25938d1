"""Live transfers between simulated hosts: what is copied is worked out from the time that has passed.

Invariants: the source records that the guest has left before the target lets it run, so that it never runs twice. A
transfer goes on while its process is down, as libvirt's do; the target asks the source whether a guest has left.
"""

import asyncio
from collections.abc import Collection

from msgspec.structs import replace

from whimbrel.domain import device_assignment, local_disks
from whimbrel.domain.errors import NotFound, Refused, WorldError
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.ids import HostName
from whimbrel.domain.live_transfer import (
    GuestCpu,
    LiveGuest,
    Steering,
    TransferOptions,
    TransferProgress,
    TransferTarget,
    check_devices,
)
from whimbrel.ports.clock import Clock
from whimbrel.sim.world.guests import CONSOLE_LINES, Sending, SimulatedGuest, path_of, variables_of, with_disks
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.stored_guests import StoredGuests

MIB = 1024**2
SCHEME = "simulated"
THROTTLE_EVERY_S = 5.0


class LiveTransfers:
    """The transfers of one host. mib_s: the speed of its migration network; 0: a transfer takes no time."""

    def __init__(self, host: HostName, guests: StoredGuests, world: SimulatedWorld, clock: Clock, mib_s: float) -> None:
        self._host = host
        self._guests = guests
        self._world = world
        self._clock = clock
        self._mib_s = mib_s
        self._moving = asyncio.Lock()

    # Source

    async def examine(self, key: GuestKey, version: int, movable: Collection[str] = ()) -> LiveGuest:
        guest = await self._guests.get_live(key)
        devices = sorted({*device_assignment.pci_of(guest.spec)}.difference(movable))
        return LiveGuest(
            address=self._address(key),
            cpu=guest.cpu or GuestCpu(),
            hypervisor_type=SCHEME,
            hypervisor_version=version,
            disks={name: disk.size_bytes for name, disk in guest.disks.items()},
            config_drive=guest.spec.config_drive,
            hardware=guest.spec.hardware,
            machine=guest.spec.hardware.machine,
            immovable=f"PCI device {devices[0]} is passed through to it" if devices else "",
        )

    async def start(self, key: GuestKey, target: TransferTarget, options: TransferOptions) -> None:
        guest = await self._guests.get_live(key)
        if (sending := guest.sending) and sending.state == "active":
            if sending.target != target.address:
                raise Refused(f"guest {path_of(key)} is being transferred to {sending.target}")
            return
        if target.scheme != SCHEME:
            raise Refused(f"this host cannot transfer a guest to a {target.scheme} host")
        if devices := sorted({*device_assignment.pci_of(guest.spec)}.difference(target.pci)):
            raise Refused(f"PCI device {devices[0]} is passed through to guest {path_of(key)}")
        now, total = self._clock.now(), self._total(guest)
        sending = Sending(target=target.address, options=options, began=now, at=now, remaining=total)
        await self._guests.save(replace(guest, sending=sending))

    async def progress(self, key: GuestKey, target: str) -> TransferProgress:
        await self.catch_up(key)
        guest = await self._guests.get(key)
        sending = guest.sending
        if sending is None or sending.target != target:
            return TransferProgress(state="none")
        memory = guest.spec.memory_mib * MIB
        disks = sum(disk.size_bytes for disk in guest.disks.values())
        left = int(self._remaining(guest, sending)) if sending.state == "active" else 0
        is_post_copy = sending.state == "arrived" and self._clock.now() < sending.rest_until
        in_memory = min(left, memory)
        return TransferProgress(
            state="active" if is_post_copy else sending.state,
            target=target,
            is_post_copy=is_post_copy,
            memory_total=memory,
            memory_processed=memory - in_memory,
            memory_remaining=in_memory,
            disk_total=disks,
            disk_processed=disks - (left - in_memory),
            disk_remaining=left - in_memory,
            dirty_rate=self._dirty_rate(guest, sending),
            rate=int(self._rate(sending)),
            throttle_percent=self._throttle(sending),
            elapsed_s=self._clock.now() - sending.began,
            trouble=sending.trouble,
        )

    async def steer(self, key: GuestKey, steering: Steering) -> None:
        await self.catch_up(key)
        guest = await self._guests.find(key)
        if guest is None or guest.sending is None or guest.sending.state != "active":
            return
        sending = guest.sending
        if steering.post_copy and not sending.options.post_copy:
            raise Refused("the transfer was begun without leave for post-copy")
        options = sending.options
        if steering.bandwidth_mib_s is not None:
            options = replace(options, bandwidth_mib_s=steering.bandwidth_mib_s)
        if steering.max_pause_ms is not None:
            options = replace(options, max_pause_ms=steering.max_pause_ms)
        now, remaining = self._clock.now(), self._remaining(guest, sending)
        if steering.post_copy:
            options = replace(options, bandwidth_mib_s=0)  # QEMU limits the rest by another figure, which is not set
        rate = self._rate(replace(sending, options=options))
        changed = replace(
            sending,
            options=options,
            at=now,
            remaining=0.0 if steering.post_copy else remaining,
            rest_until=now + remaining / rate if steering.post_copy and rate else sending.rest_until,
            suspended=sending.suspended or steering.suspend,
        )
        await self._guests.save(replace(guest, sending=changed))
        await self.catch_up(key)

    async def end(self, key: GuestKey) -> None:
        await self.catch_up(key)
        guest = await self._guests.find(key)
        if guest and guest.sending and guest.sending.state != "arrived":
            await self._guests.save(replace(guest, sending=None))

    async def catch_up(self, key: GuestKey) -> None:
        """Switch a guest over if its transfer is complete, and notify its target."""
        if target := await self._caught_up(key):
            await self._world.tell_arrived(target)

    async def _caught_up(self, key: GuestKey) -> str:
        """Switch a guest over if it is time. Return the address to which it has just left; "": it has not."""
        async with self._moving:
            guest = await self._guests.find(key)
            if guest is None or guest.sending is None or guest.sending.state != "active":
                return ""
            sending = guest.sending
            if not guest.is_live:
                await self._fail(guest, sending, "the guest was stopped")
            elif self._remaining(guest, sending) <= self._rate(sending) * sending.options.max_pause_ms / 1000:
                return await self._switch_over(guest, sending)
            return ""

    async def _switch_over(self, guest: SimulatedGuest, sending: Sending) -> str:
        try:
            expected = await self._world.expects(sending.target, self._address(guest.key))
        except WorldError as trouble:
            await self._fail(guest, sending, trouble.reason)
            return ""
        if not expected:
            await self._fail(guest, sending, f"nothing waits for the guest at {sending.target}")
            return ""
        left = replace(sending, state="arrived", remaining=0.0, power=guest.power)
        await self._guests.save(replace(guest, power="stopped", sending=left))
        return sending.target

    async def _fail(self, guest: SimulatedGuest, sending: Sending, trouble: str) -> None:
        await self._guests.save(replace(guest, sending=replace(sending, state="failed", trouble=trouble)))

    async def left(self, path: str, target: str) -> SimulatedGuest | None:
        """Return a guest as it left for this target; None: it is here."""
        guest = self._guests.at_path(path)
        if guest is None:
            raise NotFound(f"nothing of {path} is on {self._host}")
        await self._caught_up(guest.key)  # the target is asking: it is not told besides
        guest = await self._guests.find(guest.key)
        has_left = guest and guest.sending and guest.sending.state == "arrived" and guest.sending.target == target
        return guest if has_left else None

    # Target

    async def receive(self, spec: GuestSpec, live: LiveGuest) -> TransferTarget:
        guest = await self._guests.get(spec.key)
        spec = device_assignment.with_disks_of(spec, guest.spec)
        device_assignment.check(spec)
        check_devices(live.pci, device_assignment.pci_of(spec))
        self._guests.check_ports_free(spec)
        if guest.is_live:
            return self._target(guest, live)
        if guest.power == "stopped":
            raise Refused(f"guest {path_of(spec.key)} is defined here already")
        self._guests.check_pci_free(spec)
        incoming = replace(guest, spec=spec, power="incoming", comes_from=live.address)
        if incoming != guest:
            await self._guests.save(incoming)
        return self._target(incoming, live)

    def _target(self, guest: SimulatedGuest, live: LiveGuest) -> TransferTarget:
        disks = local_disks.names_of(guest.spec)
        return TransferTarget(scheme=SCHEME, address=self._address(guest.key), disks=disks, pci=live.pci)

    def expects(self, path: str, source: str) -> bool:
        """Check whether a guest waits here for the one at `source`."""
        guest = self._guests.at_path(path)
        return guest is not None and guest.power == "incoming" and guest.comes_from == source

    async def look_for(self, key: GuestKey) -> None:
        """Start an incoming guest here if it has left its source. No effect if the source does not answer."""
        async with self._moving:
            guest = await self._guests.find(key)
            if guest is None or guest.power != "incoming":
                return
            try:
                left = await self._world.left(guest.comes_from, self._address(key))
            except WorldError:
                return
            guest = await self._guests.find(key)
            if left is None or guest is None or guest.power != "incoming":
                return
            assert left.sending, "it has left"
            line = f"{guest.spec.name}: live transfer, now on {self._host}; memory of {left.memory}"
            arrived = replace(
                with_disks(guest, left.disks),
                spec=replace(guest.spec, firmware_variables=variables_of(left)),
                power=left.sending.power,
                memory=left.memory,
                cpu=left.cpu,
                console=(*left.console, line)[-CONSOLE_LINES:],
            )
            await self._guests.save(arrived)
            await self._world.watch_start(self._host, key.server)

    # Inside

    def _address(self, key: GuestKey) -> str:
        return f"{self._host}{f'@{self._world.address}' if self._world.address else ''}/{path_of(key)}"

    def _total(self, guest: SimulatedGuest) -> float:
        return guest.spec.memory_mib * MIB + sum(disk.size_bytes for disk in guest.disks.values())

    def _rate(self, sending: Sending) -> float:
        limit = sending.options.bandwidth_mib_s
        mib_s = min(limit, self._mib_s) if limit and self._mib_s else limit or self._mib_s
        return mib_s * MIB

    def _remaining(self, guest: SimulatedGuest, sending: Sending) -> float:
        """Return the bytes still to be copied. They grow again while the guest writes faster than they are copied."""
        rate = self._rate(sending)
        if not rate:
            return 0.0
        written = self._dirty_rate(guest, sending)
        left = sending.remaining - (rate - written) * (self._clock.now() - sending.at)
        return min(max(left, 0.0), self._total(guest))

    def _dirty_rate(self, guest: SimulatedGuest, sending: Sending) -> int:
        if sending.suspended or guest.power == "paused":
            return 0
        return self._world.dirty_rates.get(guest.key.server, 0) * (100 - self._throttle(sending)) // 100

    def _throttle(self, sending: Sending) -> int:
        """Return by how many percent the guest is slowed down: more every few seconds."""
        if not sending.options.auto_converge:
            return 0
        return min(99, 20 + 10 * int((self._clock.now() - sending.began) / THROTTLE_EVERY_S))
