"""Floating IPs and security groups, which the compute API changes for old clients.

All of it is done for the project that is passed, because the compute service asks with its own rights. Raises, in all
methods: Unavailable; NotFound; network_errors by the names that Neutron gives them; Refused: any other refusal.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.ids import ProjectId


class FloatingIp(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    address: str
    network_id: str
    project_id: str
    port_id: str | None = None  # None: not associated
    fixed_address: str | None = None
    device_id: str = ""  # of the port


class SecurityGroupRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule for packets to the members of a group."""

    id: str = ""  # "": to be made
    group_id: str
    version: int = 4  # of IP
    protocol: str | None = None
    first_port: int | None = None
    last_port: int | None = None
    remote_prefix: str | None = None
    remote_group_id: str | None = None


class SecurityGroup(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    project_id: str
    description: str = ""
    rules: tuple[SecurityGroupRule, ...] = ()


class NetworkProxies(Protocol):
    async def floating_ips(
        self, *, project: ProjectId | None = None, ids: Sequence[str] = (), address: str = "", ports: Sequence[str] = ()
    ) -> list[FloatingIp]:
        """Return the floating IPs that match all of these, of which some are given."""

    async def allocate_floating_ip(self, project: ProjectId, network_id: str) -> FloatingIp: ...

    async def associate_floating_ip(self, floating: FloatingIp, port_id: str | None, fixed_address: str | None) -> None:
        """port_id: None: of no port from now on."""

    async def release_floating_ip(self, floating: FloatingIp) -> None:
        """Delete a floating IP. Idempotent."""

    async def groups(self, *, project: ProjectId | None = None, ids: Sequence[str] = ()) -> list[SecurityGroup]:
        """Return these security groups, or all of a project (None: of all projects)."""

    async def create_group(self, project: ProjectId, name: str, description: str) -> SecurityGroup: ...

    async def change_group(self, group: SecurityGroup, name: str, description: str) -> SecurityGroup: ...

    async def delete_group(self, group: SecurityGroup) -> None: ...

    async def rule(self, rule_id: str) -> SecurityGroupRule: ...

    async def create_rule(self, project: ProjectId, rule: SecurityGroupRule) -> SecurityGroupRule: ...

    async def delete_rule(self, rule: SecurityGroupRule) -> None: ...
