"""Networks and their segments.

By default a network is a tunnel, which every host reaches. One with a physical network is reached by the hosts that
have a NIC on it.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from whimbrel.embedded.network.bodies import Body, Changed, New, Text, given, new_fields, one
from whimbrel.embedded.network.lists import Filter, Resource
from whimbrel.embedded.network.qos import check_network, default_policy
from whimbrel.embedded.network.request import Call
from whimbrel.embedded.network.views import common
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.network_store import LAST_SEGMENT_ID, TUNNEL, Network, QosPolicy, Segment
from whimbrel.ports.services.network_errors import InvalidInput

Mtu = Annotated[int, Meta(ge=68, le=65535)]
Number = Annotated[int, Meta(ge=1, le=LAST_SEGMENT_ID[TUNNEL])]


class Provided(Body, kw_only=True):
    """The provider attributes of one of several segments of a network."""

    network_type: Text | None = msgspec.field(default=None, name="provider:network_type")
    physical_network: Text | None = msgspec.field(default=None, name="provider:physical_network")
    segmentation_id: Number | None = msgspec.field(default=None, name="provider:segmentation_id")


class NewNetwork(New, kw_only=True):
    network_type: Text | None = msgspec.field(default=None, name="provider:network_type")
    physical_network: Text | None = msgspec.field(default=None, name="provider:physical_network")
    segmentation_id: Number | None = msgspec.field(default=None, name="provider:segmentation_id")
    admin_state_up: bool = True
    shared: bool = False
    mtu: Mtu = 1500
    port_security_enabled: bool = True
    qos_policy_id: Text | None = None
    external: bool = msgspec.field(default=False, name="router:external")
    is_default: bool = False
    segments: Annotated[tuple[Provided, ...], Meta(max_length=16)] | None = None
    availability_zone_hints: tuple[Text, ...] = ()


class ChangedNetwork(Changed, kw_only=True):
    admin_state_up: bool | UnsetType = UNSET
    shared: bool | UnsetType = UNSET
    mtu: Mtu | UnsetType = UNSET
    port_security_enabled: bool | UnsetType = UNSET
    qos_policy_id: Text | UnsetType | None = UNSET
    external: bool | UnsetType = msgspec.field(default=UNSET, name="router:external")
    is_default: bool | UnsetType = UNSET


async def views(call: Call, records: Sequence[Network]) -> list[dict[str, Any]]:
    return [_view(record) for record in records]


def _view(network: Network) -> dict[str, Any]:
    return {
        **common(network, "admin_state_up", "shared", "mtu", "port_security_enabled", "qos_policy_id"),
        "status": "ACTIVE",
        "subnets": list(network.subnets),
        "router:external": network.external,
        **({"is_default": network.is_default} if network.external else {}),
        "availability_zone_hints": [],
        "availability_zones": [],
        "ipv4_address_scope": None,
        "ipv6_address_scope": None,
        **_provided(network.segments),
    }


def _provided(segments: Sequence[Segment]) -> dict[str, Any]:
    views = [
        {
            "provider:network_type": segment.network_type,
            "provider:physical_network": segment.physical_network or None,
            "provider:segmentation_id": segment.segmentation_id or None,
        }
        for segment in segments
    ]
    return views[0] if len(views) == 1 else {"segments": views}


NETWORKS = Resource(
    name="network",
    plural="networks",
    kind=Network,
    views=views,
    filters={
        "admin_state_up": Filter(field="admin_state_up", kind=bool),
        "shared": Filter(field="shared", kind=bool),
        "mtu": Filter(field="mtu", kind=int),
        "qos_policy_id": Filter(field="qos_policy_id"),
        "port_security_enabled": Filter(field="port_security_enabled", kind=bool),
        "provider:network_type": Filter(field="network_type"),
        "provider:physical_network": Filter(field="physical_network"),
        "provider:segmentation_id": Filter(field="segmentation_id", kind=int),
        "router:external": Filter(field="external", kind=bool),
        "is_default": Filter(field="is_default", kind=bool),
        "status": Filter(constant="ACTIVE"),
    },
)


async def create(call: Call) -> Reply:
    return await NETWORKS.create(call, NewNetwork, _new)


async def _new(call: Call, requested: NewNetwork) -> Network:
    if requested.availability_zone_hints:
        raise InvalidInput("Invalid input for availability_zone_hints. Reason: networks have no zones here.")
    if requested.qos_policy_id:
        await call.seen(QosPolicy, requested.qos_policy_id)
    fields = new_fields(call, requested)
    network = Network(
        **fields,
        **given(
            requested, "name", "description", "admin_state_up", "shared", "mtu", "port_security_enabled", "external"
        ),
        qos_policy_id=requested.qos_policy_id or await default_policy(call, fields["project_id"]),
        is_default=requested.external and requested.is_default,
    )
    if requested.segments is not None and requested.network_type:
        raise InvalidInput("Invalid input for operation: Segments and provider values cannot both be set.")
    alone = Provided(**given(requested, "network_type", "physical_network", "segmentation_id"))
    segments = tuple([await new_segment(call, network, each) for each in requested.segments or (alone,)])
    return msgspec.structs.replace(network, segments=segments)


async def new_segment(call: Call, network: Network, requested: Provided) -> Segment:
    """Raises: InvalidInput: there is no such segment."""
    kind = requested.network_type or TUNNEL
    physnet = requested.physical_network or ""
    if kind not in LAST_SEGMENT_ID:
        raise InvalidInput(
            f"Invalid input for operation: provider:network_type '{kind}' is none of {', '.join(LAST_SEGMENT_ID)}."
        )
    if requested.network_type is None and (physnet or requested.segmentation_id):
        raise InvalidInput("Invalid input for operation: provider:network_type required.")
    if kind == TUNNEL and physnet:
        raise InvalidInput(f"Invalid input for operation: provider:physical_network specified for {kind} network.")
    if kind != TUNNEL and physnet not in (physnets := await _physnets(call)):
        known = ", ".join(sorted(physnets)) or "none"
        raise InvalidInput(f"Invalid input for operation: physical_network '{physnet}' is unknown; known: {known}.")
    if requested.segmentation_id and requested.segmentation_id > LAST_SEGMENT_ID[kind]:
        raise InvalidInput(
            f"Invalid input for operation: segmentation_id {requested.segmentation_id} is no number of a {kind}."
        )
    return Segment(
        id=call.context.ids.uuid(),
        network_id=network.id,
        project_id=network.project_id,
        created_at=call.context.clock.now(),
        updated_at=call.context.clock.now(),
        network_type=kind,
        physical_network=physnet,
        segmentation_id=requested.segmentation_id,
    )


async def _physnets(call: Call) -> set[str]:
    return {card.physnet for host in (await call.context.nics.all()).values() for card in host.cards}


async def update(call: Call) -> Reply:
    requested = await one(call, "network", ChangedNetwork)
    if requested.qos_policy_id:
        await call.seen(QosPolicy, requested.qos_policy_id)

    async def edit(network: Network) -> Network:
        if requested.qos_policy_id is not UNSET:
            await check_network(call, network, requested.qos_policy_id or None)
        changed = msgspec.structs.replace(network, **given(requested))
        # As in Neutron, what is not external is no default network.
        return msgspec.structs.replace(changed, is_default=changed.external and changed.is_default)

    return await NETWORKS.change(call, edit)
