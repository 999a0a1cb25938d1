"""Keeps the networks of a host as the control plane says: it asks at intervals, and before a guest starts.

Invariant: as long as nothing is known of the networks, nothing is changed; so a host that is cut off keeps what it has.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from whimbrel.domain.errors import Unavailable, WorldError
from whimbrel.domain.host_networks import HostNetworks
from whimbrel.domain.ids import ServerId
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.data_plane import DataPlane

log = structlog.get_logger(__name__)

ASK_S = 5.0
"""The interval of requests to the control plane: a changed security group is in force within this time."""

REPAIR_S = 60.0
"""The interval after which unchanged networks are made again: another program may have changed something here."""

Ask = Callable[[str], Awaitable[HostNetworks | None]]
"""Returns the networks of the host; None: they have the given digest."""


class NetworkKeeper:
    """Implements ports.hosts.data_plane.GuestNetworks."""

    def __init__(self, ask: Ask, plane: DataPlane, clock: Clock) -> None:
        self._ask = ask
        self._plane = plane
        self._clock = clock
        self._known: tuple[HostNetworks, str] | None = None  # with its digest
        self._made_at: float | None = None  # None: not completely
        self._failed: dict[str, str] = {}  # network or router -> why it is not there
        self._is_quiet = False
        self._lock = asyncio.Lock()

    async def refresh(self, server: ServerId) -> None:
        failed = await self._refreshed()
        for network in self._known[0].networks if self._known else ():
            if network.id in failed and any(port.server == server for port in network.ports):
                raise Unavailable(f"network {network.id} could not be made: {failed[network.id]}")

    async def _refreshed(self) -> dict[str, str]:
        """Return why each network or router that is not there could not be made. Raises: Unavailable; Refused."""
        async with self._lock:
            state = await self._ask(self._known[1] if self._known else "")
            if state is not None:
                self._known, self._made_at = (state, state.digest()), None
            if self._known and (self._made_at is None or self._clock.now() - self._made_at >= REPAIR_S):
                self._failed = await self._plane.apply(self._known[0])
                self._made_at = None if self._failed else self._clock.now()
            return self._failed

    async def run(self) -> None:
        """Keep the networks until cancelled."""
        while True:
            try:
                trouble = next(iter((await self._refreshed()).values()), "")
            except WorldError as error:
                trouble = error.reason
            if trouble and not self._is_quiet:  # log once for each outage
                log.warning("the networks of the host are not up to date", reason=trouble)
            self._is_quiet = bool(trouble)
            await self._clock.sleep(ASK_S)
