"""What only the simulation can see of a host: its guests and disks, whatever state they are in."""

from collections.abc import Sequence

from whimbrel.domain.config_drive import ConfigDrive
from whimbrel.domain.device_assignment import pci_of
from whimbrel.domain.guest import DiskName, Guest, GuestKey
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server_devices import GuestVolume
from whimbrel.sim.world import volume_chains
from whimbrel.sim.world.disk_phases import DiskPhases
from whimbrel.sim.world.disks import Disk
from whimbrel.sim.world.stored_guests import StoredGuests


class ObservedHost:
    """A base of the simulated hypervisor. Its methods are no calls of the port, and take no simulated time."""

    _guests: StoredGuests
    _disks: DiskPhases

    def observed(self) -> list[Guest]:
        """Return all guests without waiting; the hypervisor must have been used before."""
        return [guest.observed for guest in self._guests.all()]

    def observed_of(self, servers: Sequence[ServerId]) -> list[Guest]:
        """Return the guests of these servers, as `observed` does."""
        return [guest.observed for one in servers for guest in self._guests.of(one)]

    def offers(self) -> list[GuestKey]:
        """Return the guests whose disks are offered; the hypervisor must have been used before."""
        return [guest.key for guest in self._guests.all() if guest.offered]

    def disks(self) -> list[tuple[GuestKey, DiskName, Disk]]:
        """Return the disks of all guests, complete or not; the hypervisor must have been used before."""
        return [(guest.key, name, disk) for guest in self._guests.all() for name, disk in guest.disks.items()]

    def volumes_of(self, key: GuestKey) -> tuple[GuestVolume, ...]:
        """Return a guest's volumes without waiting; the hypervisor must have been used before."""
        return next((guest.spec.volumes for guest in self._guests.of(key.server) if guest.key == key), ())

    def pci_of(self, key: GuestKey) -> tuple[str, ...]:
        """Return a guest's PCI devices, also those of an incoming one, without waiting; as `volumes_of`."""
        return next((pci_of(guest.spec) for guest in self._guests.of(key.server) if guest.key == key), ())

    async def files_of(self, key: GuestKey, volume_id: str) -> tuple[str, ...]:
        """Return the files that a guest's volume consists of, from the active one down."""
        return volume_chains.files(await self._guests.get(key), volume_id)

    async def extended(self, key: GuestKey) -> dict[str, int]:
        """Return the volumes that became larger while the guest was live: volume -> its size in GiB."""
        return (await self._guests.get(key)).extended

    async def runs(self, server: ServerId) -> bool:
        await self._guests.opened()
        return any(guest.is_live for guest in self._guests.of(server))

    async def disk(self, key: GuestKey, name: DiskName = "root") -> Disk | None:
        """Return a guest's disk, complete or not."""
        guest = await self._guests.find(key)
        return guest.disks.get(name) if guest else None

    async def config_drive(self, key: GuestKey) -> ConfigDrive | None:
        """Return the config drive of a guest; None: it has none."""
        return (await self._guests.get(key)).spec.config_drive

    async def passwords(self, key: GuestKey) -> dict[str, str]:
        """Return the passwords that were set in a guest: user -> password."""
        return (await self._guests.get(key)).passwords

    async def offered(self, path: str) -> Disk:
        """Return the disk that is offered at `path`. Raises: Unavailable: it is not offered now."""
        return await self._disks.offered(path)
