"""The address translation of a router, as text for nft: floating IPs, and the gateway's address for the others."""

from collections.abc import Iterator

from whimbrel.adapters.host_network.names import TABLE, leg
from whimbrel.domain.host_networks import HostRouter

FROM_OUTSIDE = 2
"""The mark of packets that have come by the gateway."""


def router_ruleset(router: HostRouter) -> str:
    """Return the text for `nft -f -` in the namespace of the router. It replaces the table as one transaction."""
    return "\n".join([f"table ip {TABLE} {{}}", f"delete table ip {TABLE}", *_table(router)]) + "\n"


def _table(router: HostRouter) -> Iterator[str]:
    yield f"table ip {TABLE} {{"
    if router.gateway:
        own = [address.partition("/")[0] for address in router.gateway.addresses if ":" not in address]
        yield from _inward(router, leg(router.gateway.port))
        yield from _outward(router, leg(router.gateway.port), own)
    yield "}"


def _inward(router: HostRouter, outside: str) -> Iterator[str]:
    yield " chain prerouting { type nat hook prerouting priority -100; policy accept;"
    yield f'  iifname "{outside}" meta mark set {FROM_OUTSIDE}'
    for floating, fixed in router.floating:
        yield f"  ip daddr {floating} dnat to {fixed}"
    yield " }"


def _outward(router: HostRouter, outside: str, own: list[str]) -> Iterator[str]:
    yield " chain postrouting { type nat hook postrouting priority 100; policy accept;"
    if own:  # a guest that speaks to a floating IP of its own network: else the answer would not come back this way
        yield f'  oifname != "{outside}" meta mark != {FROM_OUTSIDE} ct status dnat snat to {own[0]}'
    for floating, fixed in router.floating:
        yield f'  oifname "{outside}" ip saddr {fixed} snat to {floating}'
    if own and router.translates:
        yield f'  oifname "{outside}" ip saddr != {{ {", ".join(own)} }} snat to {own[0]}'
    yield " }"
