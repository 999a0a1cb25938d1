"""News for the compute service about the ports of its servers, as Neutron sends them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class ServerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of news. Source: os-server-external-events of the compute API."""

    name: str  # "network-vif-plugged" | "network-vif-unplugged" | "network-vif-deleted" | "network-changed"
    server_id: str
    tag: str  # the port's id
    status: str = "completed"


class ServerEvents(Protocol):
    def tell(self, events: Sequence[ServerEvent]) -> None:
        """Pass these on when that is possible, in this order; nobody waits for it.

        A process that dies forgets what it has not passed on: whoever needs to know looks at the port.
        """
        ...
