"""The names of what we make on a host. What has none of these names is not ours."""

from typing import Final

NETWORK_PREFIX: Final = "wnet-"
ROUTER_PREFIX: Final = "wrtr-"
TABLE: Final = "whimbrel"
BRIDGE: Final = "br"
ALIAS: Final = "whimbrel"
"""The alias of our taps: those of others may have the same form of name."""

OUTER_PREFIX: Final = "wo"
PORT_PREFIX: Final = "wp"
TUNNEL_PREFIX: Final = "wt"
LEG_PREFIX: Final = "wl"
LEG_END_PREFIX: Final = "we"
UPLINK_PREFIX: Final = "wu"
ID_LENGTH: Final = 11  # a device's name has at most 15 characters


def network_namespace(network_id: str) -> str:
    return NETWORK_PREFIX + network_id


def router_namespace(router_id: str) -> str:
    return ROUTER_PREFIX + router_id


def bridge(network_id: str) -> str:
    return BRIDGE + network_id[:ID_LENGTH]


def outer(port_id: str) -> str:
    """Return the device in the host's own namespace that a port's tap is joined to."""
    return OUTER_PREFIX + port_id[:ID_LENGTH]


def inner(port_id: str) -> str:
    """Return the device of a port on the bridge of its network."""
    return PORT_PREFIX + port_id[:ID_LENGTH]


def leg(port_id: str) -> str:
    """Return the device of a router on one of its networks."""
    return LEG_PREFIX + port_id[:ID_LENGTH]


def leg_end(port_id: str) -> str:
    """Return the other end of a router's device, on the bridge of the network."""
    return LEG_END_PREFIX + port_id[:ID_LENGTH]


def tunnel(network_id: str) -> str:
    return TUNNEL_PREFIX + network_id[:ID_LENGTH]


def uplink(network_id: str) -> str:
    """Return both ends of the pair that joins a network's bridge to a bridge of the host."""
    return UPLINK_PREFIX + network_id[:ID_LENGTH]
