"""Every URL of the network service and its handler."""

from whimbrel.embedded.network import (
    agents,
    bindings,
    floating_ips,
    ip_availability,
    networks,
    not_supported,
    ports,
    qos,
    quotas,
    router_interfaces,
    routers,
    security_groups,
    segments,
    subnets,
    tags,
    versions,
)
from whimbrel.embedded.network.lists import routes
from whimbrel.embedded.network.request import SHAPE, Context, Handler, admission
from whimbrel.embedded.network.segments import for_admins
from whimbrel.http.app import App, routed
from whimbrel.http.routes import OPEN, Route
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.embedded.network_store import (
    FloatingIp,
    Network,
    NetworkStore,
    Port,
    QosPolicy,
    Router,
    SecurityGroup,
    Subnet,
)
from whimbrel.ports.embedded.nics import Nics
from whimbrel.ports.services.identity import Identity
from whimbrel.ports.services.server_events import ServerEvents

NETWORKS = "/v2.0/networks"
SUBNETS = "/v2.0/subnets"
PORTS = "/v2.0/ports"
BINDINGS = PORTS + "/{id}/bindings"
GROUPS = "/v2.0/security-groups"
RULES = "/v2.0/security-group-rules"
POLICIES = "/v2.0/qos/policies"
SEGMENTS = "/v2.0/segments"
ROUTERS = "/v2.0/routers"
FLOATING_IPS = "/v2.0/floatingips"
QUOTAS = "/v2.0/quotas"

ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/v2.0/extensions", versions.list_extensions),
    ("GET", "/v2.0/extensions/{alias}", versions.show_extension),
    ("GET", "/v2.0/service-providers", versions.list_service_providers),
    ("POST", NETWORKS, networks.create),
    ("PUT", NETWORKS + "/{id}", networks.update),
    *routes(NETWORKS, networks.NETWORKS),
    *tags.routes(NETWORKS, Network),
    ("POST", SUBNETS, subnets.create),
    ("PUT", SUBNETS + "/{id}", subnets.update),
    *routes(SUBNETS, subnets.SUBNETS),
    *tags.routes(SUBNETS, Subnet),
    ("GET", PORTS, ports.PORTS.search),
    ("POST", PORTS, ports.create),
    ("GET", PORTS + "/{id}", ports.PORTS.show),
    ("PUT", PORTS + "/{id}", ports.update),
    ("DELETE", PORTS + "/{id}", ports.delete),
    *tags.routes(PORTS, Port),
    ("GET", BINDINGS, for_admins(bindings.search)),
    ("POST", BINDINGS, for_admins(bindings.create)),
    ("GET", BINDINGS + "/{host}", for_admins(bindings.show)),
    ("PUT", BINDINGS + "/{host}", for_admins(bindings.update)),
    ("DELETE", BINDINGS + "/{host}", for_admins(bindings.delete)),
    ("PUT", BINDINGS + "/{host}/activate", for_admins(bindings.activate)),
    ("GET", GROUPS, security_groups.search),
    ("POST", GROUPS, security_groups.create),
    ("GET", GROUPS + "/{id}", security_groups.GROUPS.show),
    ("PUT", GROUPS + "/{id}", security_groups.update),
    ("DELETE", GROUPS + "/{id}", security_groups.delete),
    *tags.routes(GROUPS, SecurityGroup),
    ("POST", RULES, security_groups.create_rules),
    *routes(RULES, security_groups.RULES),
    ("POST", POLICIES, qos.create),
    ("PUT", POLICIES + "/{id}", qos.update),
    *routes(POLICIES, qos.POLICIES),
    *tags.routes(POLICIES, QosPolicy),
    *tags.routes("/v2.0/policies", QosPolicy),  # Neutron has them here only
    ("GET", "/v2.0/qos/rule-types", qos.rule_types),
    ("GET", "/v2.0/qos/rule-types/{type}", qos.rule_type),
    *(route for kind in qos.BODIES for route in qos.Rules(kind).routes()),
    ("POST", SEGMENTS, for_admins(segments.create)),
    ("PUT", SEGMENTS + "/{id}", for_admins(segments.update)),
    *((method, path, for_admins(handler)) for method, path, handler in routes(SEGMENTS, segments.SEGMENTS)),
    ("POST", ROUTERS, routers.create),
    ("PUT", ROUTERS + "/{id}", routers.update),
    *routes(ROUTERS, routers.ROUTERS),
    ("PUT", ROUTERS + "/{id}/add_router_interface", router_interfaces.add),
    ("PUT", ROUTERS + "/{id}/remove_router_interface", router_interfaces.remove),
    ("PUT", ROUTERS + "/{id}/add_extraroutes", routers.add_routes),
    ("PUT", ROUTERS + "/{id}/remove_extraroutes", routers.remove_routes),
    *tags.routes(ROUTERS, Router),
    ("GET", FLOATING_IPS, floating_ips.FLOATING_IPS.search),
    ("POST", FLOATING_IPS, floating_ips.create),
    ("GET", FLOATING_IPS + "/{id}", floating_ips.FLOATING_IPS.show),
    ("PUT", FLOATING_IPS + "/{id}", floating_ips.update),
    ("DELETE", FLOATING_IPS + "/{id}", floating_ips.delete),
    *tags.routes(FLOATING_IPS, FloatingIp),
    ("GET", QUOTAS, quotas.search),
    ("GET", QUOTAS + "/{id}", quotas.show),
    ("PUT", QUOTAS + "/{id}", quotas.update),
    ("DELETE", QUOTAS + "/{id}", quotas.delete),
    ("GET", QUOTAS + "/{id}/default", quotas.show_default),
    ("GET", QUOTAS + "/{id}/details", quotas.show_details),
    ("GET", "/v2.0/agents", agents.search),
    ("GET", "/v2.0/agents/{id}", agents.show),
    ("PUT", "/v2.0/agents/{id}", for_admins(agents.update)),
    ("GET", "/v2.0/network-ip-availabilities", for_admins(ip_availability.search)),
    ("GET", "/v2.0/network-ip-availabilities/{id}", for_admins(ip_availability.show)),
    ("GET", "/v2.0/availability_zones", not_supported.list_zones),
)


def network_app(
    store: NetworkStore,
    identity: Identity,
    clock: Clock,
    ids: IdSource,
    nics: Nics,
    events: ServerEvents,
    *,
    in_groups: bool = True,
) -> App:
    """Create the application, to be mounted at /network. in_groups: see Context."""
    context = Context(
        store=store,
        identity=identity,
        clock=clock,
        ids=ids,
        nics=nics,
        events=events,
        in_groups=in_groups,
    )
    documents = (
        Route("GET", "/", versions.list_versions, OPEN),
        Route("GET", "/v2.0", versions.list_resources, OPEN),
    )
    served = (Route(*line) for line in (*ROUTES, *not_supported.routes()))
    return routed([*documents, *served], admission(context), SHAPE)
