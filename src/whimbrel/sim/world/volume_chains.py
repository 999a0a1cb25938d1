"""The files of the volumes of a simulated host's guests: one for each snapshot that was made with the host's help.

A guest that came here later has one file of each volume, as far as is known here. So has one whose volume was swapped:
what is kept of the old one's files is of no volume that it uses.
"""

from msgspec.structs import replace

from whimbrel.domain import device_assignment, volume_merge
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.volume_merge import Merge
from whimbrel.sim.world.guests import SimulatedGuest, active_file, path_of
from whimbrel.sim.world.stored_guests import StoredGuests


class VolumeChains:
    def __init__(self, guests: StoredGuests) -> None:
        self._guests = guests

    async def add(self, key: GuestKey, volume_id: str, file: str) -> None:
        """Switch a guest to another file of a volume."""
        guest = await self._guests.get_defined(key)
        spec = device_assignment.with_snapshot_file(guest.spec, volume_id, file)
        if guest.power == "suspended":
            raise Refused(f"guest {path_of(key)} is suspended")
        if guest.power == "running" and guest.spec.requires_quiesce and not guest.spec.guest_agent:
            raise Refused(f"guest {path_of(key)} requires to be frozen for a snapshot, and has no agent")
        if spec != guest.spec:
            chain = (file, *files(guest, volume_id))
            await self._guests.change(key, spec=spec, chains={**guest.chains, volume_id: chain})

    async def check(self, key: GuestKey, volume_id: str, merge: Merge) -> None:
        """Raises: Refused: the files cannot be merged."""
        await self._merged(key, volume_id, merge)

    async def merge(self, key: GuestKey, volume_id: str, merge: Merge) -> None:
        guest = await self._merged(key, volume_id, merge)
        await self._guests.change(key, chains=guest.chains)

    async def _merged(self, key: GuestKey, volume_id: str, merge: Merge) -> SimulatedGuest:
        guest = await self._guests.get_defined(key)
        chain = volume_merge.merged(files(guest, volume_id), merge)
        if guest.power == "suspended" or (merge.top and not guest.is_live):
            raise Refused(f"guest {path_of(key)} does not run")
        return replace(guest, chains={**guest.chains, volume_id: tuple(chain)})


def files(guest: SimulatedGuest, volume_id: str) -> tuple[str, ...]:
    """Return the files of a guest's volume, from the active one down. Raises: Refused: it has no such volume."""
    active = active_file(device_assignment.volume_of(guest.spec, volume_id)) or volume_id
    chain = guest.chains.get(volume_id, ())
    return chain if chain[:1] == (active,) else (active,)
