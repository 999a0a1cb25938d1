"""Events for the compute service about its servers' ports and volumes, as Neutron and Cinder send them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class ServerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event. Source: os-server-external-events of the compute API."""

    name: str  # "network-vif-plugged" | "-unplugged" | "-deleted" | "network-changed" | "volume-extended"
    server_id: str
    tag: str  # the id of the port or volume
    status: str = "completed"


class ServerEvents(Protocol):
    def tell(self, events: Sequence[ServerEvent]) -> None:
        """Queue these events for delivery, in this order, without waiting.

        Undelivered events are lost when the process dies: `reconcilers.changed_ports` reads the ports, and a guest sees
        the new size of a volume when it starts.
        """


class UnheardEvents:
    """Implements ServerEvents without a compute service."""

    def tell(self, events: Sequence[ServerEvent]) -> None:
        pass
