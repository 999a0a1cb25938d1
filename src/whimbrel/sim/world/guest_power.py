"""Power operations of a simulated host: start, stop, reboot, pause, suspend.

Invariants: at most one guest of a server runs here; a change of power is one write, when its time has passed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec.structs import replace

from whimbrel.domain import device_assignment
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestKey, Power
from whimbrel.domain.ids import HostName
from whimbrel.domain.live_transfer import GuestCpu
from whimbrel.sim.world.guests import SimulatedGuest, booted, path_of
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.stored_guests import StoredGuests


@dataclass(frozen=True)
class GuestPower:
    """The power of one host's guests. cpu: of the host. take: lets so many seconds pass."""

    host: HostName
    guests: StoredGuests
    world: SimulatedWorld
    cpu: GuestCpu
    take: Callable[[float], Awaitable[None]]

    async def start(self, key: GuestKey, seconds: float, *, paused: bool = False) -> None:
        guest = await self.guests.get_defined(key)
        if guest.power == "paused" and paused:
            return
        if guest.power in ("paused", "suspended"):
            raise Refused(f"guest {path_of(key)} is {guest.power}: it can be resumed")
        if guest.power != "running":
            await self._boot(key, seconds, power="paused" if paused else "running")

    async def stop(self, key: GuestKey, seconds: float) -> None:
        guest = await self.guests.find(key)
        if guest is None or not guest.has_memory:
            return
        await self.take(seconds)
        if (guest := await self.guests.find(key)) and guest.has_memory:
            await self.guests.change(key, power="stopped")

    async def reboot(self, key: GuestKey, hard: bool, stop_s: float, start_s: float) -> None:
        guest = await self.guests.get_defined(key)
        if guest.power != "running" and not hard:
            raise Refused(f"guest {path_of(key)} does not run: it cannot be asked to restart")
        await self._check_may_boot(guest)
        if hard and guest.in_rescue:
            await self.guests.change(key, in_rescue=False)
        if not hard:
            await self.take(stop_s)
        # The guest counts as running throughout, so that an order interrupted between off and on can be repeated.
        await self._boot(key, start_s)

    async def _boot(self, key: GuestKey, seconds: float, power: Power = "running") -> None:
        await self._check_may_boot(await self.guests.get_defined(key))
        await self.take(seconds)
        guest = await self.guests.get_defined(key)
        await self._check_may_boot(guest)  # again: another start may have been faster
        await self.guests.save(replace(booted(guest, self.host, self.cpu), power=power))
        await self.world.watch_start(self.host, key.server)

    async def _check_may_boot(self, guest: SimulatedGuest) -> None:
        if guest.has_left:
            raise Refused(f"guest {path_of(guest.key)} has left {self.host} by a live transfer")
        device_assignment.check_bootable(guest.spec)
        for other in self.guests.of(guest.key.server):
            if other.key != guest.key and other.is_live:
                raise Refused(f"server {guest.key.server} runs on {self.host} already, as {other.key.slot}")
        self.guests.check_pci_free(guest.spec)

    async def pause(self, key: GuestKey) -> None:
        await self._set_live(key, "paused")

    async def suspend(self, key: GuestKey, seconds: float) -> None:
        guest = await self.guests.get_defined(key)
        if guest.is_live:
            await self.take(seconds)
            await self.guests.change(key, power="suspended")
        elif guest.power != "suspended":
            raise Refused(f"guest {path_of(key)} does not run")

    async def resume(self, key: GuestKey) -> None:
        guest = await self.guests.get_defined(key)
        if guest.power == "suspended":
            await self._check_may_boot(guest)
            await self.guests.change(key, power="running")
            await self.world.watch_start(self.host, key.server)
        else:
            await self._set_live(key, "running")

    async def _set_live(self, key: GuestKey, power: Power) -> None:
        guest = await self.guests.get_live(key)
        if guest.power != power:
            await self.guests.change(key, power=power)
