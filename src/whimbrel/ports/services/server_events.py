"""Events for the compute service about its servers' ports, as Neutron sends them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class ServerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event. Source: os-server-external-events of the compute API."""

    name: str  # "network-vif-plugged" | "network-vif-unplugged" | "network-vif-deleted" | "network-changed"
    server_id: str
    tag: str  # the port's id
    status: str = "completed"


class ServerEvents(Protocol):
    def tell(self, events: Sequence[ServerEvent]) -> None:
        """Queue these events for delivery, in this order, without waiting.

        Undelivered events are lost when the process dies: `reconcilers.changed_ports` reads the ports.
        """
        ...
