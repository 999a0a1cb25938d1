"""The guests of one simulated host: values in a key-value store, read once and written through.

Invariant: what could not be written has not happened.
"""

import asyncio
from collections.abc import Callable, Set

import msgspec
from msgspec.structs import replace

from whimbrel.domain import device_assignment, local_disks
from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.guest import Capacity, GuestKey, GuestSpec
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.ports.hosts.key_value_store import KeyValueStore
from whimbrel.sim.world.guests import SimulatedGuest, path_of

_decode = msgspec.json.Decoder(SimulatedGuest).decode
_encode = msgspec.json.Encoder().encode


class StoredGuests:
    def __init__(
        self, host: HostName, store: KeyValueStore, holders: dict[ServerId, set[HostName]], off: Set[HostName]
    ) -> None:
        """holders: server -> hosts that have a guest of it; off: hosts without power; shared by all hosts."""
        self.host = host
        self._off = off
        self._holders = holders
        self.store = store
        self._space = f"guests/{host}"
        self._guests: dict[ServerId, dict[Slot, SimulatedGuest]] | None = None
        self._opening = asyncio.Lock()
        self.listeners: set[Callable[[GuestKey, SimulatedGuest | None], None]] = set()  # None: the guest is gone

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

    def check_power(self) -> None:
        """Raises: Unavailable: the host has no power."""
        if self.host in self._off:
            raise Unavailable(f"host {self.host} does not answer: it has no power")

    async def find(self, key: GuestKey) -> SimulatedGuest | None:
        self.check_power()
        return (await self.opened()).get(key.server, {}).get(key.slot)

    def at_path(self, path: str) -> SimulatedGuest | None:
        """Return the guest at a path, as `all` does."""
        server, _, slot = path.partition("/")
        return next((guest for guest in self.of(ServerId(server)) if guest.key.slot == slot), None)

    async def get(self, key: GuestKey) -> SimulatedGuest:
        guest = await self.find(key)
        if guest is None:
            raise NotFound(f"nothing of {path_of(key)} is on {self.host}")
        return guest

    async def get_defined(self, key: GuestKey) -> SimulatedGuest:
        guest = await self.get(key)
        if guest.power in ("reserved", "incoming"):
            raise NotFound(f"guest {path_of(key)} is not defined on {self.host}")
        return guest

    async def get_live(self, key: GuestKey) -> SimulatedGuest:
        """Raises: NotFound: it is not defined here; Refused: it does not run."""
        guest = await self.get_defined(key)
        if not guest.is_live:
            raise Refused(f"guest {path_of(key)} does not run")
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
        self._announce(guest.key, guest)

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
        self._announce(key, None)

    def _announce(self, key: GuestKey, guest: SimulatedGuest | None) -> None:
        for listener in list(self.listeners):
            listener(key, guest)

    # Whether a guest and its devices fit

    def check_room(self, spec: GuestSpec, capacity: Capacity) -> None:
        """Raises: Refused: its memory or its disks do not fit."""
        specs = [guest.spec for guest in self.all()]
        used_mib: dict[ServerId, int] = {}  # of a server's slots one runs at a time
        for other in specs:
            used_mib[other.key.server] = max(other.memory_mib, used_mib.get(other.key.server, 0))
        memory_mib = capacity.memory_mib - sum(used_mib.values()) + used_mib.get(spec.key.server, 0)
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
        """Raises: Refused: another guest that runs, or waits for a live transfer, has one of these devices."""
        if wanted := set(device_assignment.pci_of(spec)):
            for other in self._others(spec):
                has_its_devices = other.is_live or other.power == "incoming"
                if has_its_devices and (taken := wanted.intersection(device_assignment.pci_of(other.spec))):
                    raise Refused(f"PCI device {min(taken)} is in a running guest of server {other.key.server}")

    def _others(self, spec: GuestSpec) -> list[SimulatedGuest]:
        return [guest for guest in self.all() if guest.key != spec.key]
