"""Floating IPs and security groups of the simulated network service.

Every external network is reachable from every other network: there are no routers.
"""

from collections.abc import Sequence
from itertools import count

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import ProjectId
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.network_errors import FloatingIPPortAlreadyAssociated, SecurityGroupRuleExists
from whimbrel.ports.services.network_proxies import FloatingIp, SecurityGroup, SecurityGroupRule

DEFAULT = "default"


class SimulatedNetworkProxies:
    """Implements ports.services.network_proxies.NetworkProxies but for fixed IPs."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._floating: dict[str, FloatingIp] = {}
        self._groups: dict[str, SecurityGroup] = {}

    async def floating_ips(
        self, *, project: ProjectId | None = None, ids: Sequence[str] = (), address: str = "", ports: Sequence[str] = ()
    ) -> list[FloatingIp]:
        return [
            replace(each, device_id=self._device(each.port_id))
            for each in self._floating.values()
            if (project is None or each.project_id == project)
            and (not ids or each.id in ids)
            and address in ("", each.address)
            and (not ports or each.port_id in ports)
        ]

    async def allocate_floating_ip(self, project: ProjectId, network_id: str) -> FloatingIp:
        taken = {each.address for each in self._floating.values()}
        address = next(name for name in (f"192.0.2.{number}" for number in count(1)) if name not in taken)
        made = FloatingIp(id=self._ids.uuid(), address=address, network_id=network_id, project_id=project)
        self._floating[made.id] = made
        return made

    async def associate_floating_ip(self, floating: FloatingIp, port_id: str | None, fixed_address: str | None) -> None:
        for other in self._floating.values():
            if port_id and other.id != floating.id and (other.port_id, other.fixed_address) == (port_id, fixed_address):
                raise FloatingIPPortAlreadyAssociated(f"Port {port_id} has the floating IP {other.address}.")
        now = replace(floating, port_id=port_id, fixed_address=fixed_address if port_id else None, device_id="")
        self._floating[floating.id] = now

    async def release_floating_ip(self, floating: FloatingIp) -> None:
        self._floating.pop(floating.id, None)

    def _device(self, port_id: str | None) -> str:
        """Return the device of a port."""
        raise NotImplementedError

    # Security groups

    def add_security_group(self, project: ProjectId, name: str) -> str:
        self._default(project)
        return self._add_group(project, name).id

    async def security_groups(self, project: ProjectId) -> dict[str, str]:
        return {group.id: group.name for group in await self.groups(project=project)}

    async def groups(self, *, project: ProjectId | None = None, ids: Sequence[str] = ()) -> list[SecurityGroup]:
        if project is not None:
            self._default(project)
        return [
            group
            for group in self._groups.values()
            if (project is None or group.project_id == project) and (not ids or group.id in ids)
        ]

    async def create_group(self, project: ProjectId, name: str, description: str) -> SecurityGroup:
        self._default(project)
        return self._add_group(project, name, description)

    async def change_group(self, group: SecurityGroup, name: str, description: str) -> SecurityGroup:
        self._groups[group.id] = replace(group, name=name, description=description)
        return self._groups[group.id]

    async def delete_group(self, group: SecurityGroup) -> None:
        self._groups.pop(group.id, None)

    async def rule(self, rule_id: str) -> SecurityGroupRule:
        for group in self._groups.values():
            for rule in group.rules:
                if rule.id == rule_id:
                    return rule
        raise NotFound(f"Security group rule {rule_id} could not be found.")

    async def create_rule(self, project: ProjectId, rule: SecurityGroupRule) -> SecurityGroupRule:
        group = self._groups[rule.group_id]
        if any(replace(other, id="") == rule for other in group.rules):
            raise SecurityGroupRuleExists("Security group rule already exists.")
        made = replace(rule, id=self._ids.uuid())
        self._groups[group.id] = replace(group, rules=(*group.rules, made))
        return made

    async def delete_rule(self, rule: SecurityGroupRule) -> None:
        group = self._groups[rule.group_id]
        self._groups[group.id] = replace(group, rules=tuple(each for each in group.rules if each.id != rule.id))

    def _add_group(self, project: ProjectId, name: str, description: str = "") -> SecurityGroup:
        made = SecurityGroup(id=self._ids.uuid(), name=name, project_id=project, description=description)
        self._groups[made.id] = made
        return made

    def _default(self, project: ProjectId) -> None:
        """Ensure that the project has its default group."""
        if all(group.project_id != project for group in self._groups.values()):
            self._add_group(project, DEFAULT, "Default security group")
