"""Rescue disks of simulated guests: whether a guest boots from its own.

Invariant: a guest with memory boots from the same disk as before.
"""

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import GuestKey
from whimbrel.sim.world.guests import SimulatedGuest, path_of
from whimbrel.sim.world.stored_guests import StoredGuests


class Rescues:
    """The rescued guests of one host."""

    def __init__(self, guests: StoredGuests) -> None:
        self._guests = guests

    async def enter(self, key: GuestKey) -> None:
        guest = await self._guests.get_defined(key)
        if guest.in_rescue:
            return
        _check_off(guest)
        if guest.observed.rescue is None:
            raise NotFound(f"guest {path_of(key)} has no rescue disk")
        await self._guests.change(key, in_rescue=True)

    async def leave(self, key: GuestKey) -> None:
        guest = await self._guests.find(key)
        if guest is None or not guest.in_rescue:
            return
        _check_off(guest)
        await self._guests.change(key, in_rescue=False)

    async def discard(self, key: GuestKey) -> None:
        guest = await self._guests.find(key)
        if guest is None or guest.rescue is None:
            return
        if guest.in_rescue:
            raise Refused(f"guest {path_of(key)} boots from its rescue disk")
        await self._guests.change(key, rescue=None, rescue_disk=None)


def _check_off(guest: SimulatedGuest) -> None:
    if guest.has_memory:
        raise Refused(f"guest {path_of(guest.key)} is not off")
