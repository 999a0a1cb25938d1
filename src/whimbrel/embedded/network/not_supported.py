"""What Neutron has and this service does not: refused by name, with the status of a Neutron without the extension."""

from collections.abc import Iterator

from whimbrel.embedded.network.request import Call, Handler
from whimbrel.http.problem import refusing
from whimbrel.http.reply import Reply

NAMES = {
    "address-groups": "Address groups",
    "address-scopes": "Address scopes",
    "auto-allocated-topology": "Topologies that are allocated automatically",
    "bgp-speakers": "BGP speakers",
    "default-security-group-rules": "Rules of new security groups",
    "flavors": "Flavors of routers",
    "floatingips/{id}/port_forwardings": "Port forwardings",
    "local_ips": "Local IPs",
    "log/logs": "Logs of security groups",
    "metering/metering-label-rules": "Metering labels",
    "metering/metering-labels": "Metering labels",
    "ndp_proxies": "NDP proxies",
    "network_segment_ranges": "Ranges of segments",
    "qos/policies/{id}/dscp_marking_rules": "QoS rules of the type dscp_marking",
    "qos/policies/{id}/packet_rate_limit_rules": "QoS rules of the type packet_rate_limit",
    "rbac-policies": "RBAC policies",
    "routers/{id}/conntrack_helpers": "Conntrack helpers",
    "service_profiles": "Flavors of routers",
    "subnetpools": "Subnet pools",
    "trunks": "Trunks",
}
"""Path of the list below v2.0 -> name."""


def routes() -> Iterator[tuple[str, str, Handler]]:
    for path, name in NAMES.items():
        for method in ("GET", "POST"):
            yield method, f"/v2.0/{path}", _refusal(name)
        for method in ("GET", "PUT", "DELETE"):
            yield method, f"/v2.0/{path}/{{item}}", _refusal(name)


def _refusal(name: str) -> Handler:
    return refusing(404, f"{name} are not supported by the embedded network service.")


async def list_zones(call: Call) -> Reply:
    """List the availability zones of networks and routers: they have none."""
    return Reply({"availability_zones": []})
