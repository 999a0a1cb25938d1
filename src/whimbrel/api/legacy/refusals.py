"""URLs that exist to refuse, as in Nova 34: with the status and sentence of a removed or unsupported feature.

Source: Nova 34, the decorators `removed` of its controllers.
"""

from typing import Any

from whimbrel.api.http.call import Route
from whimbrel.http.problem import refusing

NO_SUCH = "The resource could not be found."
MALFORMED = "The server could not comply with the request since it is either malformed or otherwise incorrect."
GONE = "This resource is no longer available. No forwarding address is given."


def refused(method: str, path: str, status: int, sentence: str, why: str, **more: Any) -> Route:
    """Return a route that refuses all requests. why: for the table of routes."""
    return Route(method, path, refusing(status, sentence), None, refuses=status, why=why, **more)


def _gone(why: str, *lines: str) -> tuple[Route, ...]:
    """Return routes that answer 410. lines: METHOD PATH, and the name of the action if the path has several."""
    return tuple(
        refused(method, path, 410, GONE, why, action=action[0] if action else None)
        for method, path, *action in (line.split() for line in lines)
    )


def _ironic(method: str, path: str, command: str, **more: Any) -> Route:
    sentence = f"Command not supported. Please use Ironic command {command} to perform this action."
    return refused(method, "/os-baremetal-nodes" + path, 400, sentence, "Ironic's own API does it", until=35, **more)


_NO_IRONIC = "Ironic client unavailable, cannot access Ironic."

NETWORK = "nova-network is no more"
XEN = "it needs Xen's driver, which is no more"

REFUSALS: tuple[Route, ...] = (
    *_gone(XEN, "GET /os-agents", "POST /os-agents", "PUT /os-agents/{id}", "DELETE /os-agents/{id}"),
    *_gone(
        XEN,
        "GET /servers/{server_id}/consoles",
        "POST /servers/{server_id}/consoles",
        "GET /servers/{server_id}/consoles/{id}",
        "DELETE /servers/{server_id}/consoles/{id}",
        "POST /servers/{server_id}/action resetNetwork",
    ),
    refused(
        "POST",
        "/servers/{server_id}/action",
        400,
        MALFORMED,
        "it needs Hyper-V's driver, which is no more",
        action="os-getRDPConsole",
        until=5,
    ),
    *_gone(
        "cells v1 are no more",
        "GET /os-cells",
        "POST /os-cells",
        "GET /os-cells/capacities",
        "GET /os-cells/detail",
        "GET /os-cells/info",
        "POST /os-cells/sync_instances",
        "GET /os-cells/{id}",
        "PUT /os-cells/{id}",
        "DELETE /os-cells/{id}",
        "GET /os-cells/{id}/capacities",
    ),
    *_gone("the EC2 API is no more", "POST /os-certificates", "GET /os-certificates/{id}"),
    *_gone(
        NETWORK,
        "GET /os-cloudpipe",
        "POST /os-cloudpipe",
        "PUT /os-cloudpipe/{id}",
        "GET /os-fixed-ips/{id}",
        "POST /os-fixed-ips/{id}/action reserve",
        "POST /os-fixed-ips/{id}/action unreserve",
        "GET /os-floating-ip-dns",
        "PUT /os-floating-ip-dns/{id}",
        "DELETE /os-floating-ip-dns/{id}",
        "GET /os-floating-ip-dns/{id}/entries/{name}",
        "PUT /os-floating-ip-dns/{id}/entries/{name}",
        "DELETE /os-floating-ip-dns/{id}/entries/{name}",
        "GET /os-floating-ips-bulk",
        "POST /os-floating-ips-bulk",
        "GET /os-floating-ips-bulk/{id}",
        "PUT /os-floating-ips-bulk/{id}",
        "GET /os-fping",
        "GET /os-fping/{id}",
        "GET /os-security-group-default-rules",
        "POST /os-security-group-default-rules",
        "GET /os-security-group-default-rules/{id}",
        "DELETE /os-security-group-default-rules/{id}",
        "GET /servers/{server_id}/os-virtual-interfaces",
        "POST /os-networks",
        "POST /os-networks/add",
        "POST /os-networks/{network_id}/action disassociate",
        "POST /os-networks/{network_id}/action disassociate_host",
        "POST /os-networks/{network_id}/action disassociate_project",
        "POST /os-networks/{network_id}/action associate_host",
        "DELETE /os-networks/{network_id}",
        "POST /os-tenant-networks",
        "DELETE /os-tenant-networks/{network_id}",
    ),
    refused("GET", "/os-baremetal-nodes", 501, _NO_IRONIC, "there is no Ironic", until=35),
    refused("GET", "/os-baremetal-nodes/{id}", 501, _NO_IRONIC, "there is no Ironic", until=35),
    _ironic("POST", "", "node-create"),
    _ironic("DELETE", "/{id}", "node-delete"),
    _ironic("POST", "/{id}/action", "port-create", action="add_interface"),
    _ironic("POST", "/{id}/action", "port-delete", action="remove_interface"),
    refused("GET", "/os-hypervisors/statistics", 404, NO_SUCH, "Nova shows no use from 2.88 on", since=88),
)
