"""Security groups and their rules for old clients. Only rules for packets to the members are shown and made."""

from ipaddress import ip_interface
from typing import Any
from uuid import UUID

from whimbrel.api.http import paging
from whimbrel.api.http.call import Call
from whimbrel.api.views import security_groups as views
from whimbrel.domain.errors import Conflict, Forbidden, Invalid, NotFound
from whimbrel.domain.ip_addresses import parse_subnet
from whimbrel.ports.services import network_errors
from whimbrel.ports.services.network_proxies import SecurityGroup, SecurityGroupRule

WITH_PORTS = ("TCP", "UDP")
DEFAULT = "default"
PROTOCOLS = (*WITH_PORTS, "ICMP")


async def index(call: Call) -> Any:
    every = call.is_admin and "all_tenants" in call.query
    groups = await call.cloud.network.groups(project=None if every else call.principal.project_id)
    offset, limit = paging.offset(call), call.value("limit")
    page = groups[offset : offset + int(limit) if limit else None]
    return {"security_groups": await views.ordered(call.cloud, page)}


async def show(call: Call) -> Any:
    return await _answer(call, await _group(call, call.params["id"]))


async def create(call: Call) -> Any:
    sent = call.body["security_group"]
    try:
        made = await call.cloud.network.create_group(call.principal.project_id, sent["name"], sent["description"])
    except network_errors.OverQuota as over:
        raise Forbidden(over.reason) from over
    except Conflict as refused:
        raise Invalid(refused.reason) from refused
    return await _answer(call, made)


async def update(call: Call) -> Any:
    sent, group = call.body["security_group"], await _group(call, call.params["id"])
    try:
        changed = await call.cloud.network.change_group(group, sent["name"], sent["description"])
    except Conflict as refused:
        raise Invalid(refused.reason) from refused
    return await _answer(call, changed)


async def delete(call: Call) -> None:
    group = await _group(call, call.params["id"])
    if group.name == DEFAULT and not call.is_admin:  # the network service would permit it: it is asked by a service
        raise Invalid("Insufficient rights for removing default security group.")
    try:
        await call.cloud.network.delete_group(group)
    except Conflict as in_use:
        raise Invalid(in_use.reason) from in_use


async def create_rule(call: Call) -> Any:
    sent = call.body["security_group_rule"]
    group = await _group(call, sent["parent_group_id"])
    if sent.get("group_id") is not None:
        await _group(call, sent["group_id"])
    rule = _rule(group.id, sent)
    try:
        made = await call.cloud.network.create_rule(call.principal.project_id, rule)
    except network_errors.OverQuota as over:
        raise Forbidden(over.reason) from over
    except network_errors.SecurityGroupRuleExists as exists:
        raise Invalid(f"This rule already exists in group {group.id}") from exists
    except Conflict as refused:
        raise Invalid(refused.reason) from refused
    return {"security_group_rule": await views.one_rule(call.cloud, made)}


async def delete_rule(call: Call) -> None:
    rule = await call.cloud.network.rule(_id(call.params["id"]))
    await _group(call, rule.group_id)
    await call.cloud.network.delete_rule(rule)


async def _answer(call: Call, group: SecurityGroup) -> Any:
    [view] = await views.ordered(call.cloud, [group])
    return {"security_group": view}


def _id(sent: str) -> str:
    """Raises: Invalid."""
    try:
        return str(UUID(sent))
    except ValueError as error:
        raise Invalid("Security group id should be uuid") from error


async def _group(call: Call, sent: str) -> SecurityGroup:
    """Return a group of the requester. Raises: Invalid; NotFound."""
    project = None if call.is_admin else call.principal.project_id
    found = await call.cloud.network.groups(project=project, ids=[_id(sent)])
    if not found:
        raise NotFound(f"Security group {sent} could not be found.")
    return found[0]


def _rule(group_id: str, sent: dict[str, Any]) -> SecurityGroupRule:
    """Raises: Invalid."""
    source, protocol = sent.get("group_id"), sent.get("ip_protocol")
    first, last = sent.get("from_port"), sent.get("to_port")
    name = str(protocol).upper() if protocol else ""
    if source is not None and first is None and last is None:
        first, last = {"ICMP": (-1, -1), "TCP": (1, 65535), "UDP": (1, 65535)}.get(name, (None, None))
    prefix = None if source is not None else _prefix(sent.get("cidr"))
    if name and first is not None and last is not None:
        first, last = _range(name, first, last)
        protocol, first, last = name.lower(), *(None if each == -1 else each for each in (first, last))
    elif prefix:
        raise Invalid("Not enough parameters to build a valid rule.")
    else:
        protocol = first = last = None
    return SecurityGroupRule(
        group_id=group_id,
        version=ip_interface(prefix).version if prefix else 4,
        protocol=protocol,
        first_port=first,
        last_port=last,
        remote_prefix=prefix,
        remote_group_id=source,
    )


def _prefix(sent: Any) -> str:
    """Raises: Invalid."""
    if not sent:
        return "0.0.0.0/0"
    try:
        network = parse_subnet(str(sent), strict=False)
    except ValueError as error:
        raise Invalid(f"Invalid cidr {sent}.") from error
    if "/" not in str(sent):
        raise Invalid(f"Invalid cidr {sent}.")
    if network.prefixlen == 0 and str(sent).split("/")[0] not in ("0.0.0.0", "::"):
        raise Invalid(f"Bad prefix for network in cidr {sent}")
    return str(ip_interface(str(sent)))


def _range(name: str, sent_first: Any, sent_last: Any) -> tuple[int, int]:
    """Return the ports, or the type and code of ICMP. Raises: Invalid."""
    try:
        first, last = int(sent_first), int(sent_last)
    except (TypeError, ValueError) as error:
        words = "Type and Code must be integers for ICMP protocol type"
        reason = words if name == "ICMP" else "To and From ports must be integers"
        raise Invalid(f"Invalid input received: {reason}") from error
    if name not in PROTOCOLS:
        raise Invalid(f"Invalid IP protocol {name.lower()}.")
    reason = ""
    if name in WITH_PORTS and first > last:
        reason = "Former value cannot be greater than the later"
    elif name in WITH_PORTS and (first < 1 or last > 65535):
        reason = f"Valid {name} ports should be between 1-65535"
    elif name == "ICMP" and not (-1 <= first <= 255 and -1 <= last <= 255):
        reason = "For ICMP, the type:code must be valid"
    if reason:
        raise Invalid(f"Invalid port range {first}:{last}. {reason}")
    return first, last
