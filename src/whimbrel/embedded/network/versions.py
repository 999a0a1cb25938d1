"""The versions and the extensions of the API that are supported."""

from typing import Any

from whimbrel.domain.errors import NotFound
from whimbrel.embedded.network.request import Call
from whimbrel.http.reply import Reply
from whimbrel.http.request import Request

EXTENSIONS = (
    ("agent", "agent", "The agents of hosts."),
    ("allowed-address-pairs", "Allowed Address Pairs", "Further addresses that a port may use."),
    ("binding", "Port Binding", "Where and how a port is connected."),
    ("binding-extended", "Port Bindings Extended", "Several bindings of a port, one of them active."),
    ("ext-gw-mode", "Neutron L3 Configurable external gateway mode", "Gateways of routers with SNAT or without it."),
    ("external-net", "Neutron external network", "Networks for gateways of routers and for floating IPs."),
    ("extraroute", "Neutron Extra Route", "Further routes of routers."),
    ("extraroute-atomic", "Atomically add/remove extra routes", "Some of the further routes are added or removed."),
    ("filter-validation", "Filter parameters validation", "Filters that are not known are refused."),
    ("fip-port-details", "Floating IP Port Details Extension", "Floating IPs show their port."),
    ("multi-provider", "Multi Provider Network", "Networks of several segments."),
    ("net-mtu", "Network MTU", "Networks have an MTU."),
    ("net-mtu-writable", "Network MTU (writable)", "The MTU of a network can be set."),
    ("network-ip-availability", "Network IP Availability", "How many addresses networks have."),
    ("pagination", "Pagination support", "Lists come in pages."),
    ("port-resource-request", "Port Resource Request", "What a port asks of Placement."),
    ("port-resource-request-groups", "Port Resource Request Groups", "It asks in groups."),
    ("port-security", "Port Security", "Ports can do without filters."),
    ("project-id", "project_id field enabled", "A tenant is a project."),
    ("provider", "Provider Network", "What networks are made of."),
    ("qos", "Quality of Service", "Policies and their rules."),
    ("qos-bw-limit-direction", "Direction for QoS bandwidth limit rule", "Limits in either direction."),
    ("qos-bw-minimum-ingress", "Ingress direction for QoS minimum bandwidth rule", "Guarantees in either direction."),
    ("qos-default", "QoS default policy", "A policy for the new networks of its project."),
    ("qos-port-network-policy", "QoS Port Network Policy", "Ports show the policy of their network."),
    ("qos-pps-minimum", "QoS Minimum Packet Rate", "Guaranteed packet rates."),
    ("qos-rule-type-details", "Details of QoS rule types", "What rules of a type can say."),
    ("quota_details", "Quota details management support", "What projects have of it."),
    ("quotas", "Quota management support", "What projects may have."),
    ("revision-if-match", "If-Match constraints based on revision_number", "Changes of what was seen only."),
    ("router", "Neutron L3 Router", "Routers and floating IPs."),
    ("security-group", "security-group", "What may come in and go out."),
    ("segment", "Segment", "The segments of networks."),
    ("service-type", "Neutron Service Type Management", "Providers of services: no others than this one."),
    ("sorting", "Sorting support", "Lists come in an order."),
    ("standard-attr-description", "standard-attr-description", "Descriptions."),
    ("standard-attr-revisions", "Resource revision numbers", "Every change counts."),
    ("standard-attr-tag", "Tag support for resources with standard attribute", "Tags."),
    ("standard-attr-timestamp", "Resource timestamps", "When it was made and changed."),
    ("stateful-security-group", "Stateful security group", "Security groups without a state."),
    ("subnet-external-network", "Subnets of external networks", "All projects see subnets of external networks."),
    ("subnet-service-types", "Subnet service types", "Subnets for some owners of ports."),
    ("tag-creation", "Tag creation extension", "Several tags are added with one request."),
)
GROUPS = "port-resource-request-groups"
UPDATED = "2026-01-01T00:00:00-00:00"


class ExtensionNotFound(NotFound):
    """There is no such extension."""


async def list_versions(request: Request) -> Reply:
    """List the versions; needs no token."""
    links = [{"rel": "self", "href": f"{request.root_url}/v2.0/"}]
    return Reply({"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]})


async def list_resources(request: Request) -> Reply:
    """List the resources below v2.0."""
    names = (
        "network",
        "subnet",
        "port",
        "security_group",
        "security_group_rule",
        "segment",
        "agent",
        "extension",
        "router",
        "floatingip",
        "quota",
    )
    resources = [
        {
            "name": name,
            "collection": f"{name}s",
            "links": [{"rel": "self", "href": f"{request.root_url}/v2.0/{name.replace('_', '-')}s"}],
        }
        for name in names
    ]
    return Reply({"resources": resources})


async def list_extensions(call: Call) -> Reply:
    return Reply({"extensions": _served(call)})


async def show_extension(call: Call) -> Reply:
    for extension in _served(call):
        if extension["alias"] == call.path("alias"):
            return Reply({"extension": extension})
    raise ExtensionNotFound(f"Extension with alias {call.path('alias')} does not exist")


async def list_service_providers(call: Call) -> Reply:
    """List the providers of routers, VPNs and the like that can be chosen: none.

    openstacksdk asks before it cleans up a project, and gives up if there is no answer.
    """
    return Reply({"service_providers": []})


def _served(call: Call) -> list[dict[str, Any]]:
    return [
        {"alias": alias, "name": name, "description": description, "updated": UPDATED, "links": []}
        for alias, name, description in EXTENSIONS
        if alias != GROUPS or call.context.in_groups
    ]
