"""Floating IPs and security groups of the network service over HTTP."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import field

from whimbrel.adapters.openstack import neutron
from whimbrel.adapters.openstack.answers import inside
from whimbrel.adapters.openstack.neutron import No
from whimbrel.adapters.openstack.service_client import Query, Service
from whimbrel.domain.batches import batches
from whimbrel.domain.errors import NotFound, WorldError
from whimbrel.domain.ids import ProjectId
from whimbrel.ports.services import network_errors
from whimbrel.ports.services.network_proxies import FloatingIp, SecurityGroup, SecurityGroupRule

FLOATING_IPS = "/v2.0/floatingips"
GROUPS = "/v2.0/security-groups"
RULES = "/v2.0/security-group-rules"
MOST_IN_A_QUERY = 50


class _Details(msgspec.Struct):
    device_id: str | None = None


class _FloatingIp(msgspec.Struct):
    id: str
    floating_ip_address: str
    floating_network_id: str
    project_id: str
    port_id: str | None = None
    fixed_ip_address: str | None = None
    port_details: _Details | None = None


class _Rule(msgspec.Struct):
    id: str
    security_group_id: str
    direction: str
    ethertype: str = "IPv4"
    protocol: str | None = None
    port_range_min: int | None = None
    port_range_max: int | None = None
    remote_ip_prefix: str | None = None
    remote_group_id: str | None = None


class _Group(msgspec.Struct):
    id: str
    name: str
    project_id: str
    description: str | None = None
    rules: tuple[_Rule, ...] = field(default=(), name="security_group_rules")


class HttpNetworkProxies:
    """Implements ports.services.network_proxies.NetworkProxies."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def floating_ips(
        self, *, project: ProjectId | None = None, ids: Sequence[str] = (), address: str = "", ports: Sequence[str] = ()
    ) -> list[FloatingIp]:
        query: list[tuple[str, str]] = [("project_id", project)] if project else []
        query += [("floating_ip_address", address)] if address else []
        query += [("id", each) for each in ids]
        found: list[_FloatingIp] = []
        for some in batches(ports, MOST_IN_A_QUERY) if ports else [[]]:
            asked = [*query, *(("port_id", each) for each in some)]
            try:
                answer = await self._request("GET", FLOATING_IPS, query=asked)
            except NotFound:  # a network service without routers
                return []
            found += inside("network", "floatingips", answer, list[_FloatingIp])
        return [_floating(each) for each in found]

    async def allocate_floating_ip(self, project: ProjectId, network_id: str) -> FloatingIp:
        requested = {"floating_network_id": network_id, "project_id": project}
        answer = await self._request("POST", FLOATING_IPS, {"floatingip": requested})
        return _floating(inside("network", "floatingip", answer, _FloatingIp))

    async def associate_floating_ip(self, floating: FloatingIp, port_id: str | None, fixed_address: str | None) -> None:
        requested: dict[str, Any] = {"port_id": port_id}
        if port_id:
            requested["fixed_ip_address"] = fixed_address
        await self._request("PUT", f"{FLOATING_IPS}/{floating.id}", {"floatingip": requested})

    async def release_floating_ip(self, floating: FloatingIp) -> None:
        await self._delete(f"{FLOATING_IPS}/{floating.id}")

    async def groups(self, *, project: ProjectId | None = None, ids: Sequence[str] = ()) -> list[SecurityGroup]:
        query: list[tuple[str, str]] = [("project_id", project)] if project else []
        query += [("id", each) for each in ids]
        found = inside("network", "security_groups", await self._request("GET", GROUPS, query=query), list[_Group])
        return [_group(each) for each in found]

    async def create_group(self, project: ProjectId, name: str, description: str) -> SecurityGroup:
        requested = {"name": name, "description": description, "project_id": project}
        answer = await self._request("POST", GROUPS, {"security_group": requested})
        return _group(inside("network", "security_group", answer, _Group))

    async def change_group(self, group: SecurityGroup, name: str, description: str) -> SecurityGroup:
        requested = {"name": name, "description": description}
        answer = await self._request("PUT", f"{GROUPS}/{group.id}", {"security_group": requested})
        return _group(inside("network", "security_group", answer, _Group))

    async def delete_group(self, group: SecurityGroup) -> None:
        await self._delete(f"{GROUPS}/{group.id}")

    async def rule(self, rule_id: str) -> SecurityGroupRule:
        answer = await self._request("GET", f"{RULES}/{rule_id}")
        return _rule(inside("network", "security_group_rule", answer, _Rule))

    async def create_rule(self, project: ProjectId, rule: SecurityGroupRule) -> SecurityGroupRule:
        requested = {
            "security_group_id": rule.group_id,
            "project_id": project,
            "direction": "ingress",
            "ethertype": f"IPv{rule.version}",
            "protocol": rule.protocol,
            "port_range_min": rule.first_port,
            "port_range_max": rule.last_port,
            "remote_ip_prefix": rule.remote_prefix,
            "remote_group_id": rule.remote_group_id,
        }
        answer = await self._request("POST", RULES, {"security_group_rule": requested})
        return _rule(inside("network", "security_group_rule", answer, _Rule))

    async def delete_rule(self, rule: SecurityGroupRule) -> None:
        await self._delete(f"{RULES}/{rule.id}")

    async def _request(self, method: str, path: str, body: Any = None, *, query: Query = ()) -> bytes:
        try:
            return neutron.checked(await self._service.ask(method, path, query=query, body=body))
        except No as no:
            raise _named(no) from no

    async def _delete(self, path: str) -> None:
        try:
            await self._request("DELETE", path)
        except NotFound:
            return


def _named(no: No) -> WorldError:
    """Return the error of this name of Neutron's, if the port has it."""
    kind = getattr(network_errors, no.name, None)
    return kind(no.reason) if isinstance(kind, type) and issubclass(kind, WorldError) else no


def _floating(shown: _FloatingIp) -> FloatingIp:
    return FloatingIp(
        id=shown.id,
        address=shown.floating_ip_address,
        network_id=shown.floating_network_id,
        project_id=shown.project_id,
        port_id=shown.port_id,
        fixed_address=shown.fixed_ip_address,
        device_id=(shown.port_details.device_id if shown.port_details else None) or "",
    )


def _group(shown: _Group) -> SecurityGroup:
    return SecurityGroup(
        id=shown.id,
        name=shown.name,
        project_id=shown.project_id,
        description=shown.description or "",
        rules=tuple(_rule(each) for each in shown.rules if each.direction == "ingress"),
    )


def _rule(shown: _Rule) -> SecurityGroupRule:
    return SecurityGroupRule(
        id=shown.id,
        group_id=shown.security_group_id,
        version=6 if shown.ethertype == "IPv6" else 4,
        protocol=shown.protocol,
        first_port=shown.port_range_min,
        last_port=shown.port_range_max,
        remote_prefix=shown.remote_ip_prefix,
        remote_group_id=shown.remote_group_id,
    )
