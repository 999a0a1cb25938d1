"""The claims that Placement must hold for a settled server: derived from its flavor, image and ports.

A move chooses which providers of a host's tree serve the request groups of a flavor. With groups, the claims of a
tree
are therefore summed under its root.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from whimbrel.domain.flavor import Flavor
from whimbrel.moves import needs
from whimbrel.moves.facts import MovedPort
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.ports.services.network import Port

Claims = list[tuple[str, dict[str, int]]]
"""Claims of a consumer: (provider, amounts)."""

Roots = Mapping[str, str]
"""Provider -> root of its tree."""


class Due(msgspec.Struct, frozen=True):
    """either: the accepted claims; the second applies where no host could satisfy the flavor's preferred request."""

    either: tuple[Claims, ...]
    by_tree: bool

    def is_held(self, claims: Claims, roots: Roots) -> bool:
        return (_by_tree(claims, roots) if self.by_tree else sorted(claims)) in self.either


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Flavor).decode

NOTHING = Due(([],), by_tree=False)


def due(
    flavor: Flavor,
    properties: Mapping[str, str],
    root: str,
    ports: Sequence[Port | MovedPort],
    roots: Roots,
    *,
    has_local_root: bool,
) -> Due:
    """root: the host's root provider. ports: their profiles name the providers that serve them."""
    asked, by_tree = _asked(_encode(flavor), tuple(sorted(properties.items())), has_local_root)
    either = [_with_ports(root, dict(amounts), ports) for amounts in asked]
    return Due(tuple(_by_tree(claims, roots) if by_tree else claims for claims in either), by_tree)


@lru_cache(maxsize=1024)
def _asked(
    flavor: bytes, properties: tuple[tuple[str, str], ...], local: bool
) -> tuple[tuple[dict[str, int], ...], bool]:
    """Return the amounts for a flavor and for its fallback, and whether claims are summed by tree. Cached."""
    resources = needs.of_flavor(_decode(flavor), dict(properties), has_local_root=local)
    return tuple(_all_of(one) for one in (resources, resources.otherwise) if one), bool(resources.groups)


def _all_of(resources: ResourceRequest) -> dict[str, int]:
    amounts = dict(resources.own)
    for group in resources.groups:
        _add(amounts, group.resources)
    return amounts


def _with_ports(root: str, resources: dict[str, int], ports: Sequence[Port | MovedPort]) -> Claims:
    """Return the claim on a host and on the providers that the ports' profiles name."""
    held = {root: dict(resources)}
    for port in ports:
        for request in port.requests:
            server = (port.profile.get("allocation") or {}).get(request.id, "nobody")
            _add(held.setdefault(server, {}), request.resources)
    return sorted(held.items())


def _by_tree(claims: Claims, roots: Roots) -> Claims:
    held: dict[str, dict[str, int]] = {}
    for provider, amounts in claims:
        _add(held.setdefault(roots.get(provider, provider), {}), amounts)
    return sorted(held.items())


def _add(given: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        given[name] = given.get(name, 0) + amount
