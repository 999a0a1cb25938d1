"""Security groups as the compute API shows them: with their rules for packets to the members."""

from collections.abc import Mapping, Sequence
from typing import Any

from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.network_proxies import SecurityGroup, SecurityGroupRule


async def ordered(cloud: Cloud, groups: Sequence[SecurityGroup]) -> list[dict[str, Any]]:
    """Return the groups by project and name. A rule whose source group is gone is left out."""
    sources = await _sources(cloud, groups, [rule for group in groups for rule in group.rules])
    views = [_view(group, sources) for group in groups]
    return sorted(views, key=lambda view: (view["tenant_id"], view["name"]))


async def one_rule(cloud: Cloud, rule: SecurityGroupRule) -> dict[str, Any]:
    return _rule(rule, await _sources(cloud, (), [rule]))


async def _sources(
    cloud: Cloud, known: Sequence[SecurityGroup], rules: Sequence[SecurityGroupRule]
) -> dict[str, SecurityGroup]:
    found = {group.id: group for group in known}
    missing = {rule.remote_group_id for rule in rules if rule.remote_group_id} - found.keys()
    more = await cloud.network.groups(ids=sorted(missing)) if missing else []
    return found | {group.id: group for group in more}


def _view(group: SecurityGroup, sources: Mapping[str, SecurityGroup]) -> dict[str, Any]:
    shown = [rule for rule in group.rules if not rule.remote_group_id or rule.remote_group_id in sources]
    return {
        "id": group.id,
        "name": group.name,
        "description": group.description,
        "tenant_id": group.project_id,
        "rules": [_rule(rule, sources) for rule in shown],
    }


def _rule(rule: SecurityGroupRule, sources: Mapping[str, SecurityGroup]) -> dict[str, Any]:
    first, last = _ports(rule)
    source = sources.get(rule.remote_group_id or "")
    return {
        "id": rule.id,
        "parent_group_id": rule.group_id,
        "ip_protocol": rule.protocol,
        "from_port": first,
        "to_port": last,
        "group": {"name": source.name, "tenant_id": source.project_id} if source else {},
        "ip_range": {} if rule.remote_group_id else {"cidr": rule.remote_prefix or "0.0.0.0/0"},
    }


def _ports(rule: SecurityGroupRule) -> tuple[int | None, int | None]:
    if rule.protocol and rule.first_port is None and rule.last_port is None:
        return (1, 65535) if rule.protocol.upper() in ("TCP", "UDP") else (-1, -1)
    return rule.first_port, rule.last_port
