"""Routers: their gateway on an external network, and their further routes. router_interfaces.py has their other ports.

Invariant: a router and its gateway's port change in one transaction.
"""

from collections.abc import Callable, Sequence
from ipaddress import ip_address, ip_network
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from whimbrel.embedded.network import own_ports
from whimbrel.embedded.network.bodies import Body, Changed, New, Text, given, new_fields, one
from whimbrel.embedded.network.lists import Filter, Resource
from whimbrel.embedded.network.policy import ENABLE_SNAT
from whimbrel.embedded.network.port_addresses import Ips, ips, kept
from whimbrel.embedded.network.request import Call, forbidden
from whimbrel.embedded.network.subnets import Routes, SentRoute, parsed_routes
from whimbrel.embedded.network.views import common
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded import network_store as store
from whimbrel.ports.embedded.network_store import ROUTER_GATEWAY, Network, Port, Query, Removed, Router, Subnet, Write
from whimbrel.ports.services.network_errors import BadRequest, InvalidInput, InvalidRoutes, OverQuota

MOST_ROUTES = 30

FurtherRoutes = Annotated[tuple[SentRoute, ...], Meta(max_length=MOST_ROUTES)]


class SentGateway(Body, kw_only=True):
    network_id: Text | None = None
    enable_snat: bool = True
    external_fixed_ips: Ips = ()


class NewRouter(New, kw_only=True):
    admin_state_up: bool = True
    external_gateway_info: SentGateway | None = None
    distributed: bool | None = None
    ha: bool | None = None
    availability_zone_hints: tuple[Text, ...] = ()
    flavor_id: None = None


class SentRoutes(Body, kw_only=True):
    routes: FurtherRoutes


class ChangedRouter(Changed, kw_only=True):
    admin_state_up: bool | UnsetType = UNSET
    external_gateway_info: SentGateway | UnsetType | None = UNSET
    routes: FurtherRoutes | UnsetType | None = UNSET
    distributed: bool | None = None
    ha: bool | None = None


async def views(call: Call, records: Sequence[Router]) -> list[dict[str, Any]]:
    gateways = await _gateways(call, [router.id for router in records])
    return [_view(router, gateways.get(router.id)) for router in records]


async def _gateways(call: Call, routers: Sequence[str]) -> dict[str, Port]:
    """Return the gateway ports by router."""
    where = {"device_id": list(routers), "device_owner": [ROUTER_GATEWAY]}
    found = await call.store.search(Port, Query(where=where)) if routers else []
    return {port.device_id: port for port in found}


def _view(router: Router, gateway: Port | None) -> dict[str, Any]:
    return {
        **common(router),
        "admin_state_up": router.admin_state_up,
        "status": "ACTIVE",
        "external_gateway_info": gateway and {
            "network_id": gateway.network_id,
            "enable_snat": router.enable_snat,
            "external_fixed_ips": [msgspec.structs.asdict(each) for each in gateway.fixed_ips or ()],
        },
        "routes": list(router.routes),
        "distributed": False,
        "ha": False,
        "availability_zone_hints": [],
        "availability_zones": [],
        "flavor_id": None,
    }  # fmt: skip


ROUTERS = Resource(
    name="router",
    plural="routers",
    kind=Router,
    views=views,
    filters={
        "admin_state_up": Filter(field="admin_state_up", kind=bool),
        "status": Filter(constant="ACTIVE"),
        "distributed": Filter(kind=bool, constant=False),
        "ha": Filter(kind=bool, constant=False),
    },
)


async def create(call: Call) -> Reply:
    requested = await one(call, "router", NewRouter)
    _check_kind(requested)
    if requested.availability_zone_hints:
        raise InvalidInput("Invalid input for availability_zone_hints. Reason: routers have no zones here.")
    sent = requested.external_gateway_info
    network = await _external_network(call, sent)
    router = Router(
        **new_fields(call, requested),
        **given(requested, "name", "description", "admin_state_up"),
        enable_snat=sent.enable_snat if sent else True,
    )

    def writes() -> list[Write]:
        gateway = [_gateway(call, router, network, sent)] if sent and network else []
        return [router, *gateway]

    made, *_ = await own_ports.write(call, writes)
    return await ROUTERS.answer(call, [made], status=201)


async def update(call: Call) -> Reply:
    requested = await one(call, "router", ChangedRouter)
    _check_kind(requested)
    sent = requested.external_gateway_info
    network = None if sent is UNSET else await _external_network(call, sent)

    async def edit(router: Router) -> Router:
        changes = given(requested, "name", "description", "admin_state_up")
        if sent is not UNSET:
            changes["enable_snat"] = sent.enable_snat if sent else True
        if requested.routes is not UNSET:
            changes["routes"] = await _checked(call, router, parsed_routes(requested.routes or (), "routes"))
        return msgspec.structs.replace(router, **changes)

    async def gateway(router: Router) -> Callable[[], list[Write]]:
        if sent is UNSET:
            return list
        present = (await _gateways(call, [router.id])).get(router.id)
        return lambda: _gateway_writes(call, router, present, network, sent)

    _, now = await own_ports.changed(call, Router, call.path("id"), edit, gateway)
    return await ROUTERS.answer(call, [now])


async def add_routes(call: Call) -> Reply:
    """Add routes to those that the router has, whatever others add at the same time."""
    return await _changed_routes(call, lambda present, sent: (*present, *sent))


async def remove_routes(call: Call) -> Reply:
    """Remove routes. As in Neutron, those that the router does not have are no error."""
    return await _changed_routes(call, lambda present, sent: tuple(route for route in present if route not in sent))


async def _changed_routes(call: Call, change: Callable[[Routes, Routes], Routes]) -> Reply:
    sent = parsed_routes((await one(call, "router", SentRoutes)).routes, "routes")

    async def edit(router: Router) -> Router:
        return msgspec.structs.replace(router, routes=await _checked(call, router, change(router.routes, sent)))

    return await ROUTERS.change(call, edit)


def _check_kind(requested: NewRouter | ChangedRouter) -> None:
    """Raises: BadRequest: the router cannot be like this."""
    if requested.distributed:
        raise BadRequest("Bad router request: distributed routers are not supported by the embedded network service.")
    if requested.ha:
        raise BadRequest("Bad router request: HA routers are not supported by the embedded network service.")


async def _external_network(call: Call, sent: SentGateway | None) -> Network | None:
    """Return the network of a requested gateway. Raises: NetworkNotFound; BadRequest; Problem: 403."""
    if sent is None:
        return None
    for name, is_default in (("external_fixed_ips", not sent.external_fixed_ips), (ENABLE_SNAT, sent.enable_snat)):
        if not (is_default or call.is_admin):
            raise forbidden(f"rule:update_router:external_gateway_info:{name}")
    if sent.network_id is None:
        return None
    network = await call.seen(Network, sent.network_id)
    if not network.external:
        raise BadRequest(f"Bad router request: Network {network.id} is not an external network.")
    await _check_addresses(call, network, sent)
    return network


async def _check_addresses(call: Call, network: Network, sent: SentGateway) -> None:
    """Raises: BadRequest: an address of the gateway is that of the subnet's own gateway."""
    if not sent.external_fixed_ips:
        return
    subnets = await call.store.search(Subnet, Query(where={"network_id": [network.id]}))
    used = {subnet.gateway_ip for subnet in subnets if subnet.gateway_ip}
    for each in ips(sent.external_fixed_ips):
        if each.ip_address in used:
            raise BadRequest(f"Bad router request: External IP {each.ip_address} is the same as the gateway IP.")


def _gateway(call: Call, router: Router, network: Network, sent: SentGateway) -> Port:
    fixed_ips = ips(sent.external_fixed_ips) if sent.external_fixed_ips else None
    return own_ports.new(call, network.id, router.id, ROUTER_GATEWAY, fixed_ips=fixed_ips)


def _gateway_writes(
    call: Call, router: Router, present: Port | None, network: Network | None, sent: SentGateway | None
) -> list[Write]:
    """Return the writes that give a router the requested gateway."""
    if present and network and sent and present.network_id == network.id:
        if not sent.external_fixed_ips:
            return []
        fixed_ips = kept(present, ips(sent.external_fixed_ips))
        return [store.Changed(present, msgspec.structs.replace(present, fixed_ips=fixed_ips))]
    gone: list[Write] = [Removed(Port, present.id)] if present else []
    return [*gone, _gateway(call, router, network, sent)] if network and sent else gone


async def _checked(call: Call, router: Router, routes: Routes) -> Routes:
    """Return each route once. Raises: InvalidRoutes: one leads nowhere; OverQuota."""
    ports = await call.store.search(Port, Query(where={"device_id": [router.id]}))
    own = {each.ip_address for port in ports for each in port.fixed_ips or ()}
    ids = sorted({each.subnet_id for port in ports for each in port.fixed_ips or ()})
    subnets = await call.store.search(Subnet, Query(where={"id": ids})) if ids else []
    for route in routes:
        destination, nexthop = route["destination"], route["nexthop"]
        if not any(ip_address(nexthop) in ip_network(subnet.cidr) for subnet in subnets):
            raise InvalidRoutes(f"Invalid format for routes: {nexthop}, the nexthop is not connected with router.")
        if ip_network(destination).version != ip_address(nexthop).version:
            raise InvalidRoutes(f"Invalid format for routes: {nexthop} and {destination} are not of one IP version.")
        if nexthop in own:
            raise InvalidRoutes(f"Invalid format for routes: {nexthop}, the nexthop is used by router.")
    once = tuple(route for number, route in enumerate(routes) if route not in routes[:number])
    if len(once) > MOST_ROUTES:
        raise OverQuota(f"A router has at most {MOST_ROUTES} further routes.")
    return once
