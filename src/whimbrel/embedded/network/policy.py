"""The policy of attributes of networks and ports, in one table.

The owner of a resource may change it; the attributes below are more restricted. Defaults are never refused.
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
            *("provider:segmentation_id", "router:external", "is_default"),
        }
    ),
    "port": frozenset({"binding:host_id", "binding:profile"}),
    "policy": frozenset({"shared", "is_default"}),
    "router": frozenset({"distributed", "ha"}),
    "floatingip": frozenset({"floating_ip_address"}),
}
"""Resource -> attributes that only administrators and services set."""

ENABLE_SNAT: Final = "enable_snat"
"""Attribute of a router's gateway that only administrators and services set; external_fixed_ips is the other one."""

NETWORK_OWNERS_ONLY: Final = frozenset({"mac_address", "port_security_enabled", "allowed_address_pairs"})
"""Attributes of a port that its network's owner sets, but not other users of a shared network."""

NETWORK_DEVICE: Final = "network:"
"""Prefix of the device_owner of the network's own ports, which its owner may set too."""

HIDDEN: Final[Mapping[str, frozenset[str]]] = {
    "network": ADMINS_ONLY["network"] - {"shared", "router:external", "is_default"},
    "router": frozenset({"distributed", "ha"}),
    "port": frozenset(
        {"binding:host_id", "binding:profile", "binding:vif_type", "binding:vif_details", "resource_request"}
    ),
}
"""Resource -> attributes that only administrators and services see."""


def is_admin(principal: Principal) -> bool:
    return bool(principal.roles & SEES_ALL)


def shown(resource: str, principal: Principal, view: dict[str, Any]) -> dict[str, Any]:
    """Remove from a view the attributes that are hidden from the requester."""
    hidden = HIDDEN.get(resource)
    if hidden is None or is_admin(principal):
        return view
    return {name: value for name, value in view.items() if name not in hidden}
