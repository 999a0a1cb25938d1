"""The PCI devices of one cell's hosts, and the guests that hold them. Each method is one transaction.

Invariant: a device is held by at most one guest; a claim or release names its order, and is refused (Superseded) if
its epoch is older than the newest that this cell has seen of the run, as in `ports.stores.servers`.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.guest import GuestKey, Order
from whimbrel.domain.ids import HostName
from whimbrel.domain.pci import HeldDevice, PciDevice, PciRequest


class DeviceCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of devices that a host offers, and of those that are free."""

    offered: int
    free: int


class Devices(Protocol):
    async def register(self, host: HostName, devices: Sequence[PciDevice]) -> None:
        """Set the devices that a host offers; a held device stays with its holder and is removed on release."""

    async def of(self, host: HostName) -> list[HeldDevice]:
        """Return a host's devices by address, including withdrawn ones that are held."""

    async def held(self) -> list[tuple[HostName, HeldDevice]]:
        """Return the held devices of all hosts, by host and address."""

    async def counts(self) -> dict[HostName, DeviceCount]:
        """Count the devices of all hosts that offer any."""

    async def claim(self, order: Order, host: HostName, consumer: GuestKey, wanted: Sequence[PciRequest]) -> list[str]:
        """Claim devices for these requests, all or none. Return their addresses in the order of the requests.

        Devices that it holds for a request are kept: the same claim returns the same addresses. Other requests keep
        theirs.
        Raises: Refused: names the missing device; Superseded.
        """

    async def release(
        self, order: Order, host: HostName, consumer: GuestKey, requests: Sequence[str] | None = None
    ) -> None:
        """Release the guest's devices for these request ids (None: all of them). Idempotent.

        Raises: Superseded.
        """

    async def hand(self, order: Order, host: HostName, giver: GuestKey, taker: GuestKey) -> None:
        """Make all devices of one guest those of another on the same host, for the same requests. Idempotent.

        Raises: Superseded.
        """
