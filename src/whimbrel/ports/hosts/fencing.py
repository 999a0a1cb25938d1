"""Fence devices: they cut the power of a machine, whatever its own software does, and say whether it has power.

A device belongs to a host by the settings of the cloud. Raises, in all methods: Unavailable: no answer; it may have
happened. Refused: the device says no, and asking again changes nothing.
"""

from typing import Literal, Protocol

from whimbrel.domain.ids import HostName

Power = Literal["on", "off"]


class FenceDevice(Protocol):
    @property
    def kind(self) -> str:
        """Return the protocol, for display: "redfish", "ipmi", "simulated"."""

    @property
    def address(self) -> str:
        """Return where the device is, for display. It has no secrets."""

    async def power_off(self) -> None:
        """Cut the power of the machine at once, without a shutdown. Idempotent.

        An answer means that the device took the order; only `power` says that the machine is off.
        """

    async def power(self) -> Power:
        """Return whether the machine has power, as the device sees it now. "off" is certain, "on" is anything else."""


class Fences(Protocol):
    def of(self, host: HostName) -> FenceDevice | None:
        """Return the fence device of a host, without contacting it. None: it has none."""


class NoFences:
    """Implements Fences for a cloud without fence devices."""

    def of(self, host: HostName) -> FenceDevice | None:
        return None
