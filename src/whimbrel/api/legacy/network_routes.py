"""Routes for old clients that change networks, floating IPs and security groups by the compute API, up to 2.35."""

from typing import Any

from whimbrel.api.http.call import Handler, Route
from whimbrel.api.legacy import fixed_ips, floating_ips, security_groups, tenant_networks
from whimbrel.api.policy_target import server_in_path
from whimbrel.api.schemas import actions as action_bodies
from whimbrel.api.schemas import legacy_networks as bodies

LAST_PROXY = 35
LAST_ACTION = 43


def _proxy(method: str, path: str, handler: Handler, rule: str, **more: Any) -> Route:
    return Route(method, path, handler, "os_compute_api:" + rule, until=LAST_PROXY, **more)


def _action(name: str, handler: Handler, rule: str, **more: Any) -> Route:
    more = {"until": LAST_ACTION, "target": server_in_path, "ok": 202, **more}
    return Route("POST", "/servers/{server_id}/action", handler, "os_compute_api:" + rule, action=name, **more)


# fmt: off
NETWORKS: tuple[Route, ...] = (
    _proxy("GET", "/os-tenant-networks", tenant_networks.index, "os-tenant-networks:list"),
    _proxy("GET", "/os-tenant-networks/{network_id}", tenant_networks.show, "os-tenant-networks:show"),

    _proxy("GET", "/os-floating-ip-pools", floating_ips.pools, "os-floating-ip-pools"),
    _proxy("GET", "/os-floating-ips", floating_ips.index, "os-floating-ips:list"),
    _proxy("POST", "/os-floating-ips", floating_ips.create, "os-floating-ips:create", body=bodies.ALLOCATE),
    _proxy("GET", "/os-floating-ips/{id}", floating_ips.show, "os-floating-ips:show"),
    _proxy("DELETE", "/os-floating-ips/{id}", floating_ips.delete, "os-floating-ips:delete", ok=202),
    _action("addFloatingIp", floating_ips.add, "os-floating-ips:add", body=bodies.ADD_FLOATING_IP),
    _action("removeFloatingIp", floating_ips.remove, "os-floating-ips:remove", body=bodies.REMOVE_FLOATING_IP),

    _action("addFixedIp", fixed_ips.add, "os-multinic:add", body=bodies.ADD_FIXED_IP),
    _action("removeFixedIp", fixed_ips.remove, "os-multinic:remove", body=bodies.REMOVE_FIXED_IP),
    _action("injectNetworkInfo", fixed_ips.inject, "os-admin-actions:inject_network_info",
            body=action_bodies.ANYTHING, until=None),

    _proxy("GET", "/os-security-groups", security_groups.index, "os-security-groups:get", query=bodies.GROUPS),
    _proxy("POST", "/os-security-groups", security_groups.create, "os-security-groups:create", body=bodies.GROUP),
    _proxy("GET", "/os-security-groups/{id}", security_groups.show, "os-security-groups:show"),
    _proxy("PUT", "/os-security-groups/{id}", security_groups.update, "os-security-groups:update", body=bodies.GROUP),
    _proxy("DELETE", "/os-security-groups/{id}", security_groups.delete, "os-security-groups:delete", ok=202),
    _proxy("POST", "/os-security-group-rules", security_groups.create_rule, "os-security-groups:rule:create",
           body=bodies.RULE),
    _proxy("DELETE", "/os-security-group-rules/{id}", security_groups.delete_rule, "os-security-groups:rule:delete",
           ok=202),
)
# fmt: on
