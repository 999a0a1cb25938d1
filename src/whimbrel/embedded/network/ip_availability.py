"""How many addresses networks have, and how many of them ports have: for administrators."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from whimbrel.domain.ip_addresses import Pool, parse_subnet
from whimbrel.embedded.network.request import Call, pruned
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.network_store import Network, Port, Query, Subnet

FILTERS = {"network_id": "id", "network_name": "name", "project_id": "project_id", "tenant_id": "project_id"}


async def search(call: Call) -> Reply:
    """List networks by the filters of Neutron; others are ignored, as there."""
    params = call.request.query_params
    where = {FILTERS[name]: params.getlist(name) for name in params if name in FILTERS}
    networks = await call.store.search(Network, Query(where=where))
    ids = {"network_id": [network.id for network in networks]} if where else {}
    views = await _views(call, networks, ids, set(params.getlist("ip_version")))
    return Reply({"network_ip_availabilities": [pruned(view, params.getlist("fields")) for view in views]})


async def show(call: Call) -> Reply:
    network = await call.seen(Network, call.path("id"))
    [view] = await _views(call, [network], {"network_id": [network.id]}, set())
    return Reply({"network_ip_availability": pruned(view, call.request.query_params.getlist("fields"))})


async def _views(
    call: Call, networks: Sequence[Network], where: dict[str, list[str]], versions: set[str]
) -> list[dict[str, Any]]:
    """Return the views. where: of their subnets and ports. versions: of IP; empty: both."""
    subnets: dict[str, list[Subnet]] = {}
    for subnet in await call.store.search(Subnet, Query(where=where)):
        if not versions or str(subnet.ip_version) in versions:
            subnets.setdefault(subnet.network_id, []).append(subnet)
    ports = await call.store.search(Port, Query(where=where))
    used = Counter(fixed.subnet_id for port in ports for fixed in port.fixed_ips or ())
    found = []
    for network in networks:
        own = [_of_subnet(subnet, used[subnet.id]) for subnet in subnets.get(network.id, [])]
        if own or not versions:
            found.append(_of_network(network, own))
    return found


def _of_network(network: Network, subnets: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "network_id": network.id,
        "network_name": network.name,
        "project_id": network.project_id,
        "tenant_id": network.project_id,
        "subnet_ip_availability": subnets,
        "total_ips": sum(subnet["total_ips"] for subnet in subnets),
        "used_ips": sum(subnet["used_ips"] for subnet in subnets),
    }


def _of_subnet(subnet: Subnet, used: int) -> dict[str, Any]:
    """Return the view of a subnet. Without pools all its addresses count, as in Neutron."""
    total = sum(_size(pool) for pool in subnet.pools) or parse_subnet(subnet.cidr).num_addresses
    return {
        "subnet_id": subnet.id,
        "subnet_name": subnet.name,
        "cidr": subnet.cidr,
        "ip_version": subnet.ip_version,
        "total_ips": total,
        "used_ips": used,
    }


def _size(pool: Pool) -> int:
    first, last = pool.ends
    return int(last) - int(first) + 1
