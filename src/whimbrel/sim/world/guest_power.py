"""Power operations of a simulated host: start, stop, reboot, pause, suspend.

Invariants: at most one guest of a server runs here; a change of power is one write, when its time has passed.
"""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from whimbrel.domain import device_assignment
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestKey, Power
from whimbrel.domain.ids import HostName
from whimbrel.domain.live_transfer import GuestCpu
from whimbrel.sim.world.guests import SimulatedGuest, booted, path_of
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.stored_guests import StoredGuests


class GuestPower:
    """The power of one host's guests. cpu: of the host. take: lets so many seconds pass."""

    def __init__(
        self,
        host: HostName,
        guests: StoredGuests,
        world: SimulatedWorld,
        cpu: GuestCpu,
        take: Callable[[float], Awaitable[None]],
    ) -> None:
        self._host = host
        self._guests = guests
        self._world = world
        self._cpu = cpu
        self._take = take

    async def start(self, key: GuestKey, seconds: float, *, paused: bool = False) -> None:
        guest = await self._guests.get_defined(key)
        if guest.power == "paused" and paused:
            return
        if guest.power in ("paused", "suspended"):
            raise Refused(f"guest {path_of(key)} is {guest.power}: it can be resumed")
        if guest.power != "running":
            await self._boot(key, seconds, power="paused" if paused else "running")

    async def stop(self, key: GuestKey, seconds: float) -> None:
        guest = await self._guests.find(key)
        if guest is None or not guest.has_memory:
            return
        await self._take(seconds)
        if (guest := await self._guests.find(key)) and guest.has_memory:
            await self._guests.change(key, power="stopped")

    async def reboot(self, key: GuestKey, hard: bool, stop_s: float, start_s: float) -> None:
        guest = await self._guests.get_defined(key)
        if guest.power != "running" and not hard:
            raise Refused(f"guest {path_of(key)} does not run: nobody is there to be asked to restart")
        await self._check_may_boot(guest)
        if hard and guest.in_rescue:
            await self._guests.change(key, in_rescue=False)
        if not hard:
            await self._take(stop_s)
        # The guest counts as running throughout, so that an order interrupted between off and on can be repeated.
        await self._boot(key, start_s)

    async def _boot(self, key: GuestKey, seconds: float, power: Power = "running") -> None:
        await self._check_may_boot(await self._guests.get_defined(key))
        await self._take(seconds)
        guest = await self._guests.get_defined(key)
        await self._check_may_boot(guest)  # again: another start may have been faster
        await self._guests.save(replace(booted(guest, self._host, self._cpu), power=power))
        await self._world.watch_start(self._host, key.server)

    async def _check_may_boot(self, guest: SimulatedGuest) -> None:
        if guest.has_left:
            raise Refused(f"guest {path_of(guest.key)} has left {self._host} by a live transfer")
        device_assignment.check_bootable(guest.spec)
        for other in self._guests.of(guest.key.server):
            if other.key != guest.key and other.is_live:
                raise Refused(f"server {guest.key.server} runs on {self._host} already, as {other.key.slot}")
        self._guests.check_pci_free(guest.spec)

    async def pause(self, key: GuestKey) -> None:
        await self._set_live(key, "paused")

    async def suspend(self, key: GuestKey, seconds: float) -> None:
        guest = await self._guests.get_defined(key)
        if guest.is_live:
            await self._take(seconds)
            await self._guests.change(key, power="suspended")
        elif guest.power != "suspended":
            raise Refused(f"guest {path_of(key)} does not run")

    async def resume(self, key: GuestKey) -> None:
        guest = await self._guests.get_defined(key)
        if guest.power == "suspended":
            await self._check_may_boot(guest)
            await self._guests.change(key, power="running")
            await self._world.watch_start(self._host, key.server)
        else:
            await self._set_live(key, "running")

    async def _set_live(self, key: GuestKey, power: Power) -> None:
        guest = await self._guests.get_live(key)
        if guest.power != power:
            await self._guests.change(key, power=power)
