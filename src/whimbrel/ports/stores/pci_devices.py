"""The PCI devices of one cell's hosts, and which guests hold them. Each method is one transaction.

Law: a device is held by one guest at most; a claim or release of a run names its order, and is refused an epoch older
than the newest that this cell has seen of that run (Superseded), as in `ports.stores.servers`.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.guest import GuestKey, Order
from whimbrel.domain.ids import HostName
from whimbrel.domain.pci import HeldDevice, PciDevice, PciRequest


class DeviceCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many devices a host offers, and how many of these nobody holds."""

    offered: int
    free: int


class Devices(Protocol):
    async def register(self, host: HostName, devices: Sequence[PciDevice]) -> None:
        """Make these the devices that a host offers; one that is held stays its holder's, and then goes."""
        ...

    async def of(self, host: HostName) -> list[HeldDevice]:
        """List a host's devices by address, the withdrawn ones too that somebody holds."""
        ...

    async def held(self) -> list[tuple[HostName, HeldDevice]]:
        """List the devices of all hosts that somebody holds, each with its host, by host and address."""
        ...

    async def counts(self) -> dict[HostName, DeviceCount]:
        """Count the devices of all hosts that offer some."""
        ...

    async def claim(self, order: Order, host: HostName, consumer: GuestKey, wanted: Sequence[PciRequest]) -> list[str]:
        """Have a guest hold devices for these requests, all of them or none; give their addresses in that order.

        What it holds for a request already stays so: the same claim gives the same addresses. Requests that are not
        named keep theirs.
        Raises: Refused: one is missing, with what; Superseded.
        """
        ...

    async def release(
        self, order: Order, host: HostName, consumer: GuestKey, requests: Sequence[str] | None = None
    ) -> None:
        """Have a guest hold nothing for these requests, by id, None: nothing at all; fine if it holds nothing.

        Raises: Superseded.
        """
        ...
