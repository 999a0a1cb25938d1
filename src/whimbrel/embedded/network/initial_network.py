"""The initial network of a new cloud, for its first server."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from whimbrel.domain.errors import NotFound
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ip_addresses import first_host, usual_pools
from whimbrel.ports.clock import Clock
from whimbrel.ports.embedded.network_store import TUNNEL, Network, NetworkStore, Segment, Subnet

NAME = "private"
CIDR = "10.42.0.0/16"


async def seed_network(store: NetworkStore, clock: Clock, project_id: str, hosts: Iterable[HostNet]) -> None:
    """Ensure that this project has a shared network. Idempotent, before its first use.

    It is on a physical network that all hosts reach, so that bandwidth is counted on it; if there is none, it is a
    tunnel.
    """
    network_id, now = _id("network"), clock.now()
    with suppress(NotFound):
        await store.remove(Network, network_id)  # of an incomplete first start: its project does not exist
    common: dict[str, Any] = {"project_id": project_id, "created_at": now, "updated_at": now}
    physnet = _common_physnet(list(hosts))
    segment = Segment(
        id=_id("segment"),
        network_id=network_id,
        network_type="vlan" if physnet else TUNNEL,
        physical_network=physnet,
        **common,
    )
    gateway = first_host(CIDR)
    subnet = Subnet(
        id=_id("subnet"),
        network_id=network_id,
        name=NAME,
        ip_version=4,
        cidr=CIDR,
        gateway_ip=gateway,
        pools=tuple(usual_pools(CIDR, gateway)),
        **common,
    )
    await store.add([Network(id=network_id, name=NAME, shared=True, segments=(segment,), **common)])
    await store.add([subnet])


def _common_physnet(hosts: list[HostNet]) -> str:
    """Return the first physical network for which every host has a NIC for normal ports; "": there is none."""
    known = (card.physnet for host in hosts for card in host.cards)
    return next((physnet for physnet in known if all(host.serves(physnet, "normal") for host in hosts)), "")


def _id(kind: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"whimbrel:{kind}:{NAME}"))
