"""Ports: create, list, change and delete. vifs.py and bindings.py connect them to hosts."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from whimbrel.embedded.network import resource_requests, vifs
from whimbrel.embedded.network.bodies import Changed, New, Text, given, new_fields, one, several
from whimbrel.embedded.network.lists import Filter, Resource
from whimbrel.embedded.network.policy import NETWORK_DEVICE, NETWORK_OWNERS_ONLY
from whimbrel.embedded.network.port_addresses import Ips, Mac, Pairs, changed_mac, ips, kept, mac, new_mac, pairs
from whimbrel.embedded.network.qos import rules_of
from whimbrel.embedded.network.request import TRIES, Call, forbidden
from whimbrel.embedded.network.security_groups import default_of
from whimbrel.embedded.network.views import common
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.embedded.network_store import (
    FLOATING_IP,
    ROUTER_GATEWAY,
    ROUTER_INTERFACE,
    UNBOUND,
    Binding,
    Network,
    Port,
    QosPolicy,
    QosRule,
    Query,
    SecurityGroup,
)
from whimbrel.ports.services.network_errors import InvalidInput, MacAddressInUse, QosPolicyInUse, ServicePortInUse

VnicType = Literal[
    "normal", "direct", "macvtap", "baremetal", "direct-physical", "virtio-forwarder", "vdpa", "smart-nic",
    "accelerator-direct", "accelerator-direct-physical", "remote-managed",
]  # fmt: skip
Profile = dict[str, Any] | None


ROUTER_PORTS = (ROUTER_INTERFACE, ROUTER_GATEWAY, FLOATING_IP)
"""Owners of ports that routers and floating IPs make and delete."""

GroupIds = Annotated[tuple[Text, ...], Meta(max_length=64)]


class NewPort(New, kw_only=True):
    network_id: Text
    mac_address: Mac | None = None
    fixed_ips: Ips | None = None
    admin_state_up: bool = True
    device_id: Text = ""
    device_owner: Text = ""
    vnic_type: VnicType = msgspec.field(default="normal", name="binding:vnic_type")
    host: Text | None = msgspec.field(default="", name="binding:host_id")
    profile: Profile = msgspec.field(default=None, name="binding:profile")
    port_security_enabled: bool | None = None
    qos_policy_id: Text | None = None
    allowed_address_pairs: Pairs | None = None
    security_groups: GroupIds | None = None


class ChangedPort(Changed, kw_only=True):
    mac_address: Mac | UnsetType = UNSET
    fixed_ips: Ips | UnsetType = UNSET
    admin_state_up: bool | UnsetType = UNSET
    device_id: Text | UnsetType = UNSET
    device_owner: Text | UnsetType = UNSET
    vnic_type: VnicType | UnsetType = msgspec.field(default=UNSET, name="binding:vnic_type")
    host: Text | UnsetType | None = msgspec.field(default=UNSET, name="binding:host_id")
    profile: Profile | UnsetType = msgspec.field(default=UNSET, name="binding:profile")
    port_security_enabled: bool | UnsetType = UNSET
    qos_policy_id: Text | UnsetType | None = UNSET
    allowed_address_pairs: Pairs | UnsetType | None = UNSET
    security_groups: GroupIds | UnsetType | None = UNSET


# Views


async def views(call: Call, records: Sequence[Port]) -> list[dict[str, Any]]:
    wanted = set(call.request.query_params.getlist("fields"))
    if wanted and not wanted & OF_NETWORK:
        return [_view(call, port, None, {}) for port in records]
    ids = {port.network_id for port in records}
    found = await call.store.search(Network, Query(where={"id": sorted(ids)})) if ids else []
    return await _views(call, records, {network.id: network for network in found})


async def _views(call: Call, records: Sequence[Port], networks: Mapping[str, Network]) -> list[dict[str, Any]]:
    policies = {policy_of(port, networks[port.network_id]) for port in records if port.network_id in networks}
    rules = await rules_of(call, sorted(policy for policy in policies if policy))
    return [_view(call, port, networks[port.network_id], rules) for port in records if port.network_id in networks]


SHOWN = (
    *("network_id", "mac_address", "admin_state_up", "device_id", "device_owner"),
    *("port_security_enabled", "qos_policy_id"),
)
OF_NETWORK = frozenset({"resource_request", "qos_network_policy_id"})
"""Fields that need a port's network and policies; without them nothing is read."""


def policy_of(port: Port, network: Network) -> str | None:
    """Return the effective QoS policy of a port."""
    return port.qos_policy_id or network.qos_policy_id


def _view(call: Call, port: Port, network: Network | None, rules: dict[str, tuple[QosRule, ...]]) -> dict[str, Any]:
    """network: None: fields that depend on it are left out."""
    return {
        **common(port, *SHOWN),
        "fixed_ips": [msgspec.structs.asdict(each) for each in port.fixed_ips or ()],
        "status": "N/A" if port.device_owner == FLOATING_IP else port.status,
        "security_groups": list(port.security_groups),
        "allowed_address_pairs": list(port.allowed_address_pairs),
        **(_of_network(call, port, network, rules) if network else {}),
        **_binding_view(port),
    }


def _of_network(call: Call, port: Port, network: Network, rules: dict[str, tuple[QosRule, ...]]) -> dict[str, Any]:
    asked = rules.get(policy_of(port, network) or "", ())
    return {
        "qos_network_policy_id": network.qos_policy_id,
        "resource_request": resource_requests.of_port(port, network, asked, in_groups=call.context.in_groups),
    }


def _binding_view(port: Port) -> dict[str, Any]:
    binding = port.active_binding
    return {
        "binding:vnic_type": port.vnic_type,
        "binding:host_id": binding.host if binding else "",
        "binding:vif_type": binding.vif_type if binding else UNBOUND,
        "binding:vif_details": binding.vif_details if binding else {},
        "binding:profile": binding.profile if binding else port.profile,
    }


PORTS = Resource(
    name="port",
    plural="ports",
    kind=Port,
    views=views,
    filters={
        **{name: Filter(field=name) for name in ("network_id", "device_id", "device_owner", "status", "qos_policy_id")},
        "mac_address": Filter(field="mac_address"),
        "admin_state_up": Filter(field="admin_state_up", kind=bool),
        "port_security_enabled": Filter(field="port_security_enabled", kind=bool),
        "binding:vnic_type": Filter(field="vnic_type"),
        "binding:host_id": Filter(field="host"),
        "security_groups": Filter(field="security_group"),
        "fixed_ips.ip_address": Filter(field="ip_address"),
        "fixed_ips.subnet_id": Filter(field="subnet_id"),
    },
)


# Changes


async def create(call: Call) -> Reply:
    all_requested, many = await several(call, "port", "ports", NewPort)
    for attempt in range(TRIES):
        ports = [await _new(call, requested) for requested in all_requested]
        try:
            made = await call.store.add(ports)
            break
        except MacAddressInUse:  # a generated address can be replaced by another
            if attempt + 1 == TRIES or all(requested.mac_address for requested in all_requested):
                raise
    call.context.events.tell([event for port in made for event in vifs.news(None, port)])
    return await PORTS.answer(call, made, several=many, status=201)


async def _new(call: Call, requested: NewPort) -> Port:
    network = await call.seen(Network, requested.network_id)
    _check_owner_of(call, network, None, requested)
    _check_device(call, None, requested)
    fields = new_fields(call, requested)
    secured = (
        network.port_security_enabled if requested.port_security_enabled is None else requested.port_security_enabled
    )
    port = Port(
        **fields,
        network_id=network.id,
        mac_address=mac(requested.mac_address) if requested.mac_address else new_mac(call.context.ids),
        fixed_ips=None if requested.fixed_ips is None else ips(requested.fixed_ips),
        port_security_enabled=secured,
        qos_policy_id=await _policy(call, requested.qos_policy_id),
        allowed_address_pairs=pairs(requested.allowed_address_pairs),
        security_groups=await _groups(call, requested, fields["project_id"], secured=secured),
        **given(requested, "name", "description", "admin_state_up", "device_id", "device_owner", "vnic_type"),
    )
    host = requested.host or ""
    return vifs.bound_at(await call.context.nics.including(host), network, port, host, requested.profile or {})


def _check_owner_of(call: Call, network: Network, before: Port | None, requested: NewPort | ChangedPort) -> None:
    """Raises: Problem: the request sets attributes that are reserved for the network's owner.

    An address is one of them: it could be that of a gateway which other projects use.
    """
    if call.is_admin or network.project_id == call.principal.project_id:
        return
    for name in NETWORK_OWNERS_ONLY:
        if getattr(requested, name) not in (None, UNSET):
            raise forbidden(f"rule:set_port:{name}")
    had = {each.ip_address for each in (before.fixed_ips if before else None) or ()}
    if any(each.ip_address and each.ip_address not in had for each in requested.fixed_ips or ()):
        raise forbidden("rule:set_port:fixed_ips:ip_address")
    if requested.device_owner and requested.device_owner.startswith(NETWORK_DEVICE):
        raise forbidden("rule:set_port:device_owner")


def _check_device(call: Call, before: Port | None, requested: NewPort | ChangedPort) -> None:
    """Raises: Problem: a user gives a port to a router, perhaps of another project, or takes it away.

    Nor does a user give a bound port to another server: its guest would be answered as that one by the host's metadata
    service.
    """
    if call.is_admin:
        return
    if before and before.bindings and requested.device_id not in (UNSET, "", before.device_id):
        raise forbidden("rule:update_port:device_id")
    is_theirs = before is not None and before.device_owner in ROUTER_PORTS
    if requested.device_owner in ROUTER_PORTS or (
        is_theirs and (requested.device_owner, requested.device_id) != (UNSET, UNSET)
    ):
        raise forbidden("rule:set_port:device_owner")


async def _groups(call: Call, requested: NewPort, project: str, *, secured: bool) -> tuple[str, ...]:
    if requested.security_groups is None:
        wants_default = secured and not requested.device_owner.startswith(NETWORK_DEVICE)
        return ((await default_of(call, project)).id,) if wants_default else ()
    return await _known_groups(call, requested.security_groups, secured=secured)


async def _known_groups(call: Call, ids: Sequence[str], *, secured: bool) -> tuple[str, ...]:
    if ids and not secured:
        raise InvalidInput("Port security must be enabled in order to have allowed address pairs or security groups.")
    return tuple(sorted({(await call.seen(SecurityGroup, group_id)).id for group_id in ids}))


async def _policy(call: Call, policy_id: str | None) -> str | None:
    return (await call.seen(QosPolicy, policy_id)).id if policy_id else None


async def update(call: Call) -> Reply:
    requested = await one(call, "port", ChangedPort)
    networks: dict[str, Network] = {}

    async def edit(port: Port) -> Port:
        network = networks[port.network_id] = await call.store.find(Network, port.network_id)
        _check_owner_of(call, network, port, requested)
        _check_device(call, port, requested)
        return await _edited(call, port, network, requested)

    before, now = await call.changed(Port, call.path("id"), edit)
    call.context.events.tell(vifs.news(before, now))
    return PORTS.said(call, await _views(call, [now], networks))


async def _edited(call: Call, port: Port, network: Network, requested: ChangedPort) -> Port:
    changes = given(
        requested,
        "name",
        "description",
        "admin_state_up",
        "device_id",
        "device_owner",
        "vnic_type",
        "port_security_enabled",
    )
    if requested.fixed_ips is not UNSET:
        changes["fixed_ips"] = kept(port, ips(requested.fixed_ips))
    if requested.mac_address is not UNSET:
        changes["mac_address"] = changed_mac(port, requested.mac_address)
    if requested.allowed_address_pairs is not UNSET:
        changes["allowed_address_pairs"] = pairs(requested.allowed_address_pairs)
    if requested.security_groups is not UNSET:
        secured = changes.get("port_security_enabled", port.port_security_enabled)
        changes["security_groups"] = await _known_groups(call, requested.security_groups or (), secured=secured)
    if requested.qos_policy_id is not UNSET:
        changes["qos_policy_id"] = await _policy(call, requested.qos_policy_id)
    changed = msgspec.structs.replace(port, **changes)
    if not changed.port_security_enabled and (changed.security_groups or changed.allowed_address_pairs):
        raise InvalidInput("Port has security groups or allowed address pairs: take them off first.")
    await _check_guarantee(call, port, changed, network)
    return await _rebound(call, port, changed, network, requested)


async def _rebound(call: Call, before: Port, port: Port, network: Network, requested: ChangedPort) -> Port:
    """Bind a port again if its host or type changes, or its binding failed."""
    active = before.active_binding
    host = (active.host if active else "") if requested.host is UNSET else requested.host or ""
    profile = active.profile if active else before.profile
    if requested.profile is not UNSET:
        profile = requested.profile or {}
    stays = active and active.host == host and active.works and before.vnic_type == port.vnic_type
    if not stays:
        if active and host != active.host and binding_of(port, host):
            # Neutron tries in vain for minutes to have two bindings of a port on one host.
            raise Problem(500, "Request Failed: internal server error while processing your request.")
        return vifs.bound_at(await call.context.nics.including(host), network, port, host, profile)
    bindings = tuple(msgspec.structs.replace(each, profile=profile) if each.active else each for each in port.bindings)
    return vifs.settled(msgspec.structs.replace(port, bindings=bindings, profile=profile))


async def _check_guarantee(call: Call, before: Port, now: Port, network: Network) -> None:
    """Raises: QosPolicyInUse: a server has claimed the guarantees of the old policy."""
    old, new = policy_of(before, network), policy_of(now, network)
    if old == new or not (before.is_of_server and before.active_binding):
        return
    rules = await rules_of(call, [policy for policy in (old, new) if policy])
    asked = [
        resource_requests.of_port(before, network, rules.get(policy or "", ()), in_groups=True) for policy in (old, new)
    ]
    if any(asked):
        raise QosPolicyInUse(
            f"The QoS policy of port {before.id} guarantees what its server has claimed: unbind it first."
        )


async def delete(call: Call) -> Reply:
    port = await call.owned(Port, call.path("id"))
    if port.device_owner in ROUTER_PORTS:
        raise ServicePortInUse(
            f"Port {port.id} cannot be deleted directly via the port API: has device owner {port.device_owner}."
        )
    gone = await call.store.remove(Port, port.id)
    call.context.events.tell(vifs.news(gone, None))
    return NO_CONTENT


def binding_of(port: Port, host: str) -> Binding | None:
    return next((binding for binding in port.bindings if binding.host == host), None)
