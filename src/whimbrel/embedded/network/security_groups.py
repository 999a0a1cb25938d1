"""Security groups and their rules. Every project has a group `default`, created on first use."""

from collections.abc import Sequence
from ipaddress import ip_interface
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from whimbrel.domain.errors import Conflict, Unavailable
from whimbrel.domain.ip_addresses import parse_subnet
from whimbrel.embedded.network.bodies import Changed, New, Text, given, new_fields, one
from whimbrel.embedded.network.lists import Filter, Resource
from whimbrel.embedded.network.request import TRIES, Call
from whimbrel.embedded.network.views import common
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.embedded.network_store import DEFAULT_GROUP, Query, SecurityGroup, SecurityGroupRule
from whimbrel.ports.services.network_errors import (
    InvalidInput,
    SecurityGroupCannotRemoveDefault,
    SecurityGroupDefaultAlreadyExists,
)

PROTOCOLS = (
    *("ah", "dccp", "egp", "esp", "gre", "icmp", "icmpv6", "igmp", "ipip", "ipv6-encap", "ipv6-frag", "ipv6-icmp"),
    *("ipv6-nonxt", "ipv6-opts", "ipv6-route", "ospf", "pgm", "rsvp", "sctp", "tcp", "udp", "udplite", "vrrp"),
)
WITH_PORTS = ("tcp", "udp", "sctp", "dccp", "udplite", "6", "17", "33", "132", "136")
ICMP = ("icmp", "icmpv6", "ipv6-icmp", "1", "58")

FILTERS = ("security_group_id", "direction", "ethertype", "protocol", "remote_ip_prefix", "remote_group_id")
PORT_FILTERS = ("port_range_min", "port_range_max")
"""Fields of rules that are shown as they are, and by which lists of rules are narrowed."""

PortNumber = Annotated[int, Meta(ge=-(2**31), lt=2**31)]  # the bounds depend on the protocol


class NewGroup(New, kw_only=True):
    stateful: bool = True


class ChangedGroup(Changed, kw_only=True):
    stateful: bool | UnsetType = UNSET


class NewRule(New, kw_only=True):
    security_group_id: Text
    direction: Literal["ingress", "egress"]
    ethertype: Literal["IPv4", "IPv6"] = "IPv4"
    protocol: Text | int | None = None
    port_range_min: PortNumber | None = None
    port_range_max: PortNumber | None = None
    remote_ip_prefix: Text | None = None
    remote_group_id: Text | None = None
    remote_address_group_id: None = None  # address groups are not supported


async def views(call: Call, records: Sequence[SecurityGroup]) -> list[dict[str, Any]]:
    return [
        {
            **common(group, "stateful"),
            "shared": False,
            "security_group_rules": [_rule_view(rule) for rule in group.rules],
        }
        for group in records
    ]


async def rule_views(call: Call, records: Sequence[SecurityGroupRule]) -> list[dict[str, Any]]:
    return [_rule_view(rule) for rule in records]


def _rule_view(rule: SecurityGroupRule) -> dict[str, Any]:
    view = common(rule, *FILTERS, *PORT_FILTERS, "normalized_cidr", tags=False)
    del view["name"]
    return {**view, "remote_address_group_id": None}


GROUPS = Resource(
    name="security_group",
    plural="security_groups",
    kind=SecurityGroup,
    views=views,
    filters={"stateful": Filter(field="stateful", kind=bool), "shared": Filter(kind=bool, constant=False)},
)
RULES = Resource(
    name="security_group_rule",
    plural="security_group_rules",
    kind=SecurityGroupRule,
    views=rule_views,
    filters={
        **{name: Filter(field=name) for name in FILTERS},
        **{name: Filter(field=name, kind=int) for name in PORT_FILTERS},
    },
)


async def default_of(call: Call, project_id: str) -> SecurityGroup:
    """Return a project's default group: all egress, and ingress from its own members."""
    query = Query(where={"project_id": [project_id], "is_default": [True]})
    for _ in range(TRIES):
        if found := await call.store.search(SecurityGroup, query):
            return found[0]
        try:
            return (await call.store.add([_new_default(call, project_id)]))[0]
        except Conflict:  # a concurrent request created it; it becomes visible shortly
            await call.context.clock.sleep(0)
    raise Unavailable(f"The default security group of project {project_id} has not been created yet: retry.")


def _new_default(call: Call, project_id: str) -> SecurityGroup:
    group = _group(call, project_id, name=DEFAULT_GROUP, description="Default security group", is_default=True)
    inward = [
        _rule(call, group, direction="ingress", ethertype=version, remote_group_id=group.id)
        for version in ("IPv4", "IPv6")
    ]
    return msgspec.structs.replace(group, rules=(*_outward(call, group), *inward))


def _outward(call: Call, group: SecurityGroup) -> list[SecurityGroupRule]:
    return [_rule(call, group, direction="egress", ethertype=version) for version in ("IPv4", "IPv6")]


def _group(call: Call, project_id: str, **fields: Any) -> SecurityGroup:
    now = call.context.clock.now()
    return SecurityGroup(id=call.context.ids.uuid(), project_id=project_id, created_at=now, updated_at=now, **fields)


def _rule(call: Call, group: SecurityGroup, **fields: Any) -> SecurityGroupRule:
    now = call.context.clock.now()
    return SecurityGroupRule(
        id=call.context.ids.uuid(),
        project_id=group.project_id,
        created_at=now,
        updated_at=now,
        security_group_id=group.id,
        **fields,
    )


async def search(call: Call) -> Reply:
    """List groups, including the default group of the listed project."""
    params = call.request.query_params
    project = params.get("project_id") or params.get("tenant_id") or ""
    await default_of(call, project if project and call.is_admin else call.principal.project_id)
    return await GROUPS.search(call)


async def create(call: Call) -> Reply:
    return await GROUPS.create(call, NewGroup, _new)


async def _new(call: Call, requested: NewGroup) -> SecurityGroup:
    if requested.name == DEFAULT_GROUP:
        raise SecurityGroupDefaultAlreadyExists("Default security group already exists.")
    group = SecurityGroup(**new_fields(call, requested), **given(requested, "name", "description", "stateful"))
    await default_of(call, group.project_id)
    return msgspec.structs.replace(group, rules=tuple(_outward(call, group)))


async def update(call: Call) -> Reply:
    requested = await one(call, "security_group", ChangedGroup)

    async def edit(group: SecurityGroup) -> SecurityGroup:
        if group.is_default and requested.name not in (UNSET, DEFAULT_GROUP):
            raise SecurityGroupCannotRemoveDefault("Updating default security group is not allowed.")
        if not group.is_default and requested.name == DEFAULT_GROUP:
            raise SecurityGroupDefaultAlreadyExists("Default security group already exists.")
        return msgspec.structs.replace(group, **given(requested))

    return await GROUPS.change(call, edit)


async def delete(call: Call) -> Reply:
    group = await call.owned(SecurityGroup, call.path("id"))
    if group.is_default and not call.is_admin:
        raise SecurityGroupCannotRemoveDefault("Insufficient rights for removing default security group.")
    await call.store.remove(SecurityGroup, group.id)
    return NO_CONTENT


async def create_rules(call: Call) -> Reply:
    return await RULES.create(call, NewRule, _new_rule)


async def _new_rule(call: Call, requested: NewRule) -> SecurityGroupRule:
    group = await call.owned(SecurityGroup, requested.security_group_id)
    if requested.remote_group_id:
        await call.seen(SecurityGroup, requested.remote_group_id)
    fields = given(requested, "description", "direction", "ethertype", "port_range_min", "port_range_max")
    protocol = _protocol(requested)
    _check_ports(requested, protocol)
    checked = {"protocol": protocol, "remote_ip_prefix": _prefix(requested)}
    return _rule(call, group, **checked, remote_group_id=requested.remote_group_id, **fields)


def _protocol(requested: NewRule) -> str | None:
    name = str(requested.protocol).lower() if requested.protocol not in (None, "", "any") else None
    if (
        name is None
        or name in PROTOCOLS
        or (name.isdecimal() and name.isascii() and len(name) <= 3 and int(name) <= 255)
    ):
        return name
    raise InvalidInput(f"Security group rule protocol {requested.protocol} not supported.")


def _check_ports(requested: NewRule, protocol: str | None) -> None:
    low, high = requested.port_range_min, requested.port_range_max
    if low is None and high is None:
        return
    if protocol in ICMP:
        _check_icmp(low, high)
        return
    if protocol not in WITH_PORTS:
        raise InvalidInput("Must also specify protocol if port range is given.")
    for port in (low, high):
        if port is not None and not 1 <= port <= 65535:
            raise InvalidInput(f"Invalid value for port {port}.")
    if low is None or high is None or low > high:
        raise InvalidInput(f"For TCP/UDP protocols, port_range_min must be <= port_range_max; they are {low}, {high}.")


def _check_icmp(kind: int | None, code: int | None) -> None:
    """Check type and code, which ICMP has in place of ports. The texts are those that clients look for."""
    if kind is None:
        raise InvalidInput(f"ICMP code (port-range-max) {code} is provided but ICMP type (port-range-min) is missing.")
    for word, field, value in (("type", "port-range-min", kind), ("code", "port-range-max", code)):
        if value is not None and not 0 <= value <= 255:
            raise InvalidInput(f"Invalid value for ICMP {word} ({field}) {value}. It must be 0 to 255.")


def _prefix(requested: NewRule) -> str | None:
    if not requested.remote_ip_prefix:
        return None
    if requested.remote_group_id:
        raise InvalidInput("Only one of remote_ip_prefix and remote_group_id can be given.")
    try:
        network = parse_subnet(requested.remote_ip_prefix, strict=False)
    except ValueError as error:
        reason = f"'{requested.remote_ip_prefix}' is no subnet."
        raise InvalidInput(f"Invalid input for remote_ip_prefix. Reason: {reason}") from error
    if f"IPv{network.version}" != requested.ethertype:
        raise InvalidInput(f"Conflicting value ethertype {requested.ethertype} for CIDR {requested.remote_ip_prefix}.")
    return str(ip_interface(requested.remote_ip_prefix))
