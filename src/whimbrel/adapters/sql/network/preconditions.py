"""Conditions for writing or removing a record, checked under locks in the caller's transaction.

Each function of ADMIT returns the record to be written, completed by the values that the store chooses. before: the
record before the change; None: new.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.turns import wait_for_turn_in_schema
from whimbrel.adapters.sql.network import address_allocation, routing
from whimbrel.adapters.sql.network.record_types import GROUP, NETWORK, POLICY, SEGMENT, SUBNET
from whimbrel.adapters.sql.tables import network as tables
from whimbrel.domain.errors import Conflict
from whimbrel.domain.ip_addresses import overlaps
from whimbrel.ports.embedded.network_store import (
    LAST_SEGMENT_ID,
    FloatingIp,
    Network,
    Port,
    QosPolicy,
    QosRule,
    R,
    Record,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Segment,
    Subnet,
)
from whimbrel.ports.services import network_errors as errors

_GIVEN_OUT = sa.select(tables.segments.c.segmentation_id).where(
    tables.segments.c.network_type == sa.bindparam("type"),
    tables.segments.c.physical_network == sa.bindparam("physnet"),
)


_DEFAULT_NETWORK = sa.select(tables.networks.c.id).where(
    tables.networks.c.is_default, tables.networks.c.id != sa.bindparam("but")
)


_DEFAULT_POLICY = sa.select(tables.qos_policies.c.id).where(
    tables.qos_policies.c.is_default,
    tables.qos_policies.c.project_id == sa.bindparam("project"),
    tables.qos_policies.c.id != sa.bindparam("but"),
)


async def _network(tx: Tx, network: Network, before: Network | None) -> Network:
    if network.qos_policy_id:
        await POLICY.find(tx, network.qos_policy_id)
    if before:
        if before.external and not network.external:
            await routing.check_still_external(tx, network)
        if network.is_default and not before.is_default:
            await _check_default(tx, network)
        return network  # a change does not write its segments
    if network.is_default:
        await _check_default(tx, network)
    return replace(network, segments=tuple([await _numbered(tx, segment) for segment in network.segments]))


async def _segment(tx: Tx, segment: Segment, before: Segment | None) -> Segment:
    await NETWORK.find(tx, segment.network_id)
    return segment if before else await _numbered(tx, segment)


async def _numbered(tx: Tx, segment: Segment) -> Segment:
    await wait_for_turn_in_schema(tx, "segments")  # others may choose a number at the same time
    where = {"type": segment.network_type, "physnet": segment.physical_network}
    given_out = {row.segmentation_id for row in await tx.rows(_GIVEN_OUT, where)}
    number = segment.segmentation_id
    if number is None:
        last = LAST_SEGMENT_ID[segment.network_type]
        number = next((each for each in range(1 if last else 0, last + 1) if each not in given_out), None)
        if number is None:
            raise errors.NoNetworkAvailable(
                "Unable to create the network. No tenant network is available for allocation."
            )
    elif number in given_out:
        raise errors.VlanIdInUse(
            f"Unable to create the network. The {segment.network_type} {number} on physical network"
            f" {segment.physical_network} is in use."
        )
    return replace(segment, segmentation_id=number)


async def _check_default(tx: Tx, network: Network) -> None:
    """Check that no other network is the default one, and block others that want to be."""
    await wait_for_turn_in_schema(tx, "the default network")
    other = await tx.row(_DEFAULT_NETWORK, {"but": network.id})
    if other:
        raise errors.DefaultExternalNetworkExists(f"A default external network already exists: {other.id}.")


async def _subnet(tx: Tx, subnet: Subnet, before: Subnet | None) -> Subnet:
    network = await NETWORK.find(tx, subnet.network_id, lock=True)
    for other in await SUBNET.records(tx, await tx.rows(sa.select(tables.subnets).where(_in_network(subnet)))):
        if overlaps(subnet.cidr, other.cidr):
            raise errors.InvalidInput(
                f"Invalid input for operation: Requested subnet with cidr: {subnet.cidr} for network: {network.id}"
                f" overlaps with another subnet ({other.id}, {other.cidr})."
            )
    if subnet.segment_id and (await SEGMENT.find(tx, subnet.segment_id)).network_id != network.id:
        raise errors.InvalidInput(f"Segment '{subnet.segment_id}' is not of network '{network.id}'.")
    if before and before.gateway_ip == subnet.gateway_ip:
        return subnet
    if before:
        await routing.check_gateway_unused(tx, before)
    if subnet.gateway_ip and await _is_given_out(tx, network.id, subnet.gateway_ip):
        raise errors.IpAddressAlreadyAllocated(f"Gateway ip {subnet.gateway_ip} is in use by a port.")
    return subnet


def _in_network(subnet: Subnet) -> sa.ColumnElement[bool]:
    return sa.and_(tables.subnets.c.network_id == subnet.network_id, tables.subnets.c.id != subnet.id)


async def _is_given_out(tx: Tx, network_id: str, address: str) -> bool:
    ips = tables.fixed_ips.c
    return (
        await tx.row(sa.select(ips.port_id).where(ips.network_id == network_id, ips.ip_address == address)) is not None
    )


async def _port(tx: Tx, port: Port, before: Port | None) -> Port:
    if port.qos_policy_id and not (before and before.qos_policy_id == port.qos_policy_id):
        await POLICY.find(tx, port.qos_policy_id)
    for group_id in set(port.security_groups) - set(before.security_groups if before else ()):
        await GROUP.find(tx, group_id)
    if before and _attached(before) == _attached(port):
        return port
    await routing.lock_router(tx, port)
    await routing.check_subnets(tx, port)  # those that it names: their addresses may be taken for this reason
    await NETWORK.find(tx, port.network_id, lock=True)
    await address_allocation.check_mac(tx, port)
    port = replace(port, fixed_ips=await address_allocation.fill_in(tx, port, before))
    await routing.check_subnets(tx, port)
    return port


def _attached(port: Port) -> tuple[object, ...]:
    """Return what has to be checked again if it changes."""
    router = (port.device_id, port.device_owner) if routing.is_of_router(port) else None
    return (port.mac_address, port.fixed_ips, router)


async def _group_rule(tx: Tx, rule: SecurityGroupRule, before: SecurityGroupRule | None) -> SecurityGroupRule:
    group = await GROUP.find(tx, rule.security_group_id, lock=True)
    if rule.remote_group_id and rule.remote_group_id != group.id:
        await GROUP.find(tx, rule.remote_group_id)
    for other in group.rules:
        if other.id != rule.id and other.meaning == rule.meaning:
            raise errors.SecurityGroupRuleExists(f"Security group rule already exists. Rule id is {other.id}.")
    return rule


async def _policy(tx: Tx, policy: QosPolicy, before: QosPolicy | None) -> QosPolicy:
    """Check that no other policy of the project is the default one, and block others that want to be."""
    if policy.is_default and not (before and before.is_default):
        await wait_for_turn_in_schema(tx, "the default QoS policy")
        if await tx.row(_DEFAULT_POLICY, {"project": policy.project_id, "but": policy.id}):
            raise errors.QoSPolicyDefaultAlreadyExists(f"A default QoS policy exists for project {policy.project_id}.")
    return policy


async def _qos_rule(tx: Tx, rule: QosRule, before: QosRule | None) -> QosRule:
    policy = await POLICY.find(tx, rule.policy_id, lock=True)
    for other in policy.rules:
        if other.id != rule.id and other.type == rule.type and _clash(rule, other):
            raise errors.QosRulesConflict(
                f"Rule {rule.type} {rule.id} conflicts with rule {other.id} which already exists in QoS Policy"
                f" {policy.id}."
            )
    return rule


def _clash(rule: QosRule, other: QosRule) -> bool:
    """Check whether two rules of a type apply to the same direction ("any": packets of both directions)."""
    return rule.direction == other.direction or "any" in (rule.direction, other.direction)


async def _unconditional(tx: Tx, record: R, before: R | None) -> R:
    return record


ADMIT: dict[type[Record], Callable[[Tx, Any, Any], Awaitable[Any]]] = {
    Network: _network,
    Segment: _segment,
    Subnet: _subnet,
    Port: _port,
    SecurityGroup: _unconditional,
    SecurityGroupRule: _group_rule,
    QosPolicy: _policy,
    QosRule: _qos_rule,
    Router: _unconditional,
    FloatingIp: routing.admit_floating_ip,
}


async def prepare_removal(tx: Tx, record: Record) -> None:
    """Check that nothing depends on a record, and remove what goes with it. Raises: ...InUse."""
    match record:
        case Network():
            await routing.clear_network(tx, record.id)
        case Subnet():
            await routing.clear_subnet(tx, record.id)
        case Port():
            await routing.check_port_unused(tx, record)
            await routing.disassociate(tx, record.id)
        case Router():
            await routing.check_router_unused(tx, record)
            await routing.clear_router(tx, record.id)
    for column, error, sentence in _USERS.get(type(record), ()):
        if await tx.row(sa.select(column).where(column == record.id).limit(1)) is not None:
            raise error(sentence.format(record.id))
    if isinstance(record, Segment):
        of_network = tables.segments.c.network_id == record.network_id
        if len(await tx.rows(sa.select(tables.segments.c.id).where(of_network))) == 1:
            raise errors.SegmentInUse(f"Segment '{record.id}' cannot be deleted: it is the only one of its network.")


_USERS: dict[type[Record], tuple[tuple[sa.Column[Any], type[Conflict], str], ...]] = {
    Network: (
        (
            tables.ports.c.network_id,
            errors.NetworkInUse,
            "Unable to complete operation on network {}. There are one or more ports still in use on the network.",
        ),
    ),
    Segment: (
        (tables.subnets.c.segment_id, errors.SegmentInUse, "Segment '{}' cannot be deleted: subnets are on it."),
    ),
    Subnet: (
        (
            tables.fixed_ips.c.subnet_id,
            errors.SubnetInUse,
            "Unable to complete operation on subnet {}: One or more ports have an IP allocation from this subnet.",
        ),
    ),
    SecurityGroup: (
        (tables.port_security_groups.c.security_group_id, errors.SecurityGroupInUse, "Security Group {} in use."),
    ),
    QosPolicy: (
        (tables.networks.c.qos_policy_id, errors.QosPolicyInUse, "QoS Policy {} is used by a network."),
        (tables.ports.c.qos_policy_id, errors.QosPolicyInUse, "QoS Policy {} is used by a port."),
    ),
}
