"""The networks that a host's agent makes on the machine, so that guests have addresses and a packet filter.

An adapter keeps no state in memory that matters: each call looks at what is there.
"""

from typing import Protocol

from whimbrel.domain.host_networks import HostNetworks
from whimbrel.domain.ids import ServerId


class DataPlane(Protocol):
    async def check(self) -> None:
        """Check that this machine can do it. Raises: Refused: what it lacks."""

    async def apply(self, state: HostNetworks) -> dict[str, str]:
        """Make the networks of this host so, and remove all others that were made before. Idempotent.

        Return why each network or router that is not so could not be made; calling it again may help.
        """


class GuestNetworks(Protocol):
    async def refresh(self, server: ServerId) -> None:
        """Make the networks of this host as the control plane says now.

        Raises: Unavailable: it does not answer, or a network of this server could not be made. Refused.
        """


class UnmanagedNetworks:
    """Implements GuestNetworks for a host whose networks are made by others, such as Neutron's agents."""

    async def refresh(self, server: ServerId) -> None:
        return
