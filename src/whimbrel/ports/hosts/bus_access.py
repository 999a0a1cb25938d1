"""Access of hosts to the bus: what a host needs to connect to it, and how its access ends."""

from typing import Protocol

import msgspec

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import CellName, HostName


class BusAccess(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent of a host needs to connect, besides its private key."""

    urls: tuple[str, ...]
    ca_pem: str  # of the certificates of the bus; "": the system trusts them
    jwt: str  # claims that admit the host's key


class BusAccesses(Protocol):
    @property
    def problem(self) -> str | None:
        """Return why this process is not connected to the bus; "": it is; None: the cloud has no bus."""

    async def grant(self, cell: CellName, host: HostName, public_key: str) -> BusAccess:
        """Return access for a host's key. Raises: Refused: the cloud has no bus; Unavailable."""

    async def revoke(self, cell: CellName, public_key: str) -> None:
        """End the access of a key that was granted until now; within a minute. Idempotent. Raises: Unavailable."""


NO_BUS = "This cloud has no bus: name its servers in the settings, [bus] urls, and start the API again."


class NoBus:
    """Implements BusAccesses for a cloud whose hosts are all in one process."""

    problem = None

    async def grant(self, cell: CellName, host: HostName, public_key: str) -> BusAccess:
        raise Refused(NO_BUS)

    async def revoke(self, cell: CellName, public_key: str) -> None:
        return
