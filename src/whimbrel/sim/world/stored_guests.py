"""The guests of one simulated host: values in a key-value store, read once and written through.

Invariant: what could not be written has not happened.
"""

import asyncio

import msgspec
from msgspec.structs import replace

from whimbrel.domain import device_assignment, local_disks
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import Capacity, GuestKey, GuestSpec
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.ports.hosts.key_value_store import KeyValueStore
from whimbrel.sim.world.guests import SimulatedGuest, path_of

_decode = msgspec.json.Decoder(SimulatedGuest).decode
_encode = msgspec.json.Encoder().encode


class StoredGuests:
    def __init__(self, host: HostName, store: KeyValueStore, holders: dict[ServerId, set[HostName]]) -> None:
        """holders: server -> hosts that have a guest of it; shared by all hosts."""
        self.host = host
        self._holders = holders
        self.store = store
        self._space = f"guests/{host}"
        self._guests: dict[ServerId, dict[Slot, SimulatedGuest]] | None = None
        self._opening = asyncio.Lock()

    async def opened(self) -> dict[ServerId, dict[Slot, SimulatedGuest]]:
        if self._guests is None:
            async with self._opening:  # at each first start of a guest, all hosts are asked about it
                if self._guests is None:
                    kept = await self.store.scan(self._space)
                    found = [_decode(value) for value in kept.values()]
                    self._guests = {}
                    for guest in found:
                        self._put(self._guests, guest)
        return self._guests

    def all(self) -> list[SimulatedGuest]:
        """Return all guests without waiting; they must have been opened."""
        assert self._guests is not None, f"{self.host} was not opened"
        return [guest for slots in self._guests.values() for guest in slots.values()]

    def of(self, server: ServerId) -> list[SimulatedGuest]:
        """Return the guests of a server, as `all` does."""
        assert self._guests is not None, f"{self.host} was not opened"
        return list(self._guests.get(server, {}).values())

    async def find(self, key: GuestKey) -> SimulatedGuest | None:
        return (await self.opened()).get(key.server, {}).get(key.slot)

    async def get(self, key: GuestKey) -> SimulatedGuest:
        guest = await self.find(key)
        if guest is None:
            raise NotFound(f"nothing of {path_of(key)} is on {self.host}")
        return guest

    async def get_defined(self, key: GuestKey) -> SimulatedGuest:
        guest = await self.get(key)
        if guest.power == "reserved":
            raise NotFound(f"guest {path_of(key)} is not defined on {self.host}")
        return guest

    async def change(self, key: GuestKey, **fields: object) -> None:
        await self.save(replace(await self.get(key), **fields))

    async def save(self, guest: SimulatedGuest) -> None:
        guests = await self.opened()
        await self.store.put(self._space, path_of(guest.key), _encode(guest))
        # After the put: what could not be written has not happened.
        self._put(guests, guest)

    def _put(self, guests: dict[ServerId, dict[Slot, SimulatedGuest]], guest: SimulatedGuest) -> None:
        guests.setdefault(guest.key.server, {})[guest.key.slot] = guest
        self._holders.setdefault(guest.key.server, set()).add(self.host)

    async def drop(self, key: GuestKey) -> None:
        """Delete a guest. Idempotent."""
        if await self.find(key) is None:
            return
        await self.store.delete(self._space, path_of(key))
        guests = await self.opened()
        slots = guests.get(key.server, {})
        slots.pop(key.slot, None)
        if not slots:
            guests.pop(key.server, None)
            self._holders.get(key.server, set()).discard(self.host)

    # Whether a guest and its devices fit

    def check_room(self, spec: GuestSpec, capacity: Capacity) -> None:
        """Raises: Refused: its memory or its disks do not fit."""
        specs = [guest.spec for guest in self.all()]
        memory_mib = capacity.memory_mib - sum(other.memory_mib for other in specs)
        disk_gib = capacity.disk_gib - sum(map(local_disks.gib_of, specs))
        wanted_gib = local_disks.gib_of(spec)
        if spec.memory_mib > memory_mib:
            raise Refused(f"{self.host} has {memory_mib} MiB of memory left, {spec.memory_mib} are wanted")
        if wanted_gib and wanted_gib > disk_gib:
            raise Refused(f"{self.host} has {disk_gib} GiB of disk left, {wanted_gib} are wanted")

    def check_ports_free(self, spec: GuestSpec) -> None:
        """Raises: Refused: another server's guest has one of these ports."""
        if wanted := {nic.port_id for nic in spec.nics}:
            for other in self._others(spec):
                if other.key.server != spec.key.server and (taken := wanted.intersection(other.observed.ports)):
                    raise Refused(f"port {min(taken)} is in a guest of server {other.key.server}")

    def check_pci_free(self, spec: GuestSpec) -> None:
        """Raises: Refused: another running guest has one of these devices."""
        if wanted := set(device_assignment.pci_of(spec)):
            for other in self._others(spec):
                if other.power == "running" and (taken := wanted.intersection(device_assignment.pci_of(other.spec))):
                    raise Refused(f"PCI device {min(taken)} is in a running guest of server {other.key.server}")

    def _others(self, spec: GuestSpec) -> list[SimulatedGuest]:
        return [guest for guest in self.all() if guest.key != spec.key]
