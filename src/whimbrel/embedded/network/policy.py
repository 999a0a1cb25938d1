"""Who may say what about networks and ports, in one table.

Whoever owns a thing may change it; the names below are for fewer. An attribute at its default is nobody's to ask for.
"""

from collections.abc import Mapping
from typing import Any, Final

from whimbrel.ports.services.identity import Principal

SEES_ALL: Final = frozenset({"admin", "service"})
WRITES: Final = frozenset({"member", *SEES_ALL})

ADMINS_ONLY: Final[Mapping[str, frozenset[str]]] = {
    "network": frozenset(
        {
            *("shared", "segments", "provider:network_type", "provider:physical_network"),
            *("provider:segmentation_id",),
        }
    ),
    "port": frozenset({"binding:host_id", "binding:profile"}),
    "policy": frozenset({"shared", "is_default"}),
}
"""Resource -> attributes that only an administrator or a service sets."""

NETWORK_OWNERS_ONLY: Final = frozenset({"mac_address", "port_security_enabled", "allowed_address_pairs"})
"""Attributes of a port that its network's owner sets, and nobody else who may use a shared network."""

NETWORK_DEVICE: Final = "network:"
"""How the device_owner of a port of the network itself begins, which is for the network's owner to set too."""

HIDDEN: Final[Mapping[str, frozenset[str]]] = {
    "network": ADMINS_ONLY["network"] - {"shared"},
    "port": frozenset(
        {"binding:host_id", "binding:profile", "binding:vif_type", "binding:vif_details", "resource_request"}
    ),
}
"""Resource -> attributes that only an administrator or a service sees."""


def is_admin(principal: Principal) -> bool:
    return bool(principal.roles & SEES_ALL)


def shown(resource: str, principal: Principal, view: dict[str, Any]) -> dict[str, Any]:
    """Leave out of a view what is not for this caller's eyes."""
    hidden = HIDDEN.get(resource)
    if hidden is None or is_admin(principal):
        return view
    return {name: value for name, value in view.items() if name not in hidden}
