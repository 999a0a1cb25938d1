"""QoS: policies, and their rules of three types.

Invariant: guarantees of a bound port of a server do not change, because they are claimed in Placement.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from whimbrel.embedded.network.bodies import Body, Changed, New, given, new_fields, one
from whimbrel.embedded.network.lists import Filter, Resource
from whimbrel.embedded.network.request import Call, Handler, pruned
from whimbrel.embedded.network.views import common
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.embedded.network_store import Network, Port, QosPolicy, QosRule, QosRuleType, Query
from whimbrel.ports.services.network_errors import QosPolicyInUse, QosRuleNotFound

Amount = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Direction = Literal["egress", "ingress"]


class NewPolicy(New, kw_only=True):
    shared: bool = False
    is_default: bool = False


class ChangedPolicy(Changed, kw_only=True):
    shared: bool | UnsetType = UNSET
    is_default: bool | UnsetType = UNSET


class Limit(Body, kw_only=True):
    amount: Amount = msgspec.field(name="max_kbps")
    burst_kbps: Amount = msgspec.field(default=0, name="max_burst_kbps")
    direction: Direction = "egress"


class ChangedLimit(Body, kw_only=True):
    amount: Amount | UnsetType = msgspec.field(default=UNSET, name="max_kbps")
    burst_kbps: Amount | UnsetType = msgspec.field(default=UNSET, name="max_burst_kbps")
    direction: Direction | UnsetType = UNSET


class Bandwidth(Body, kw_only=True):
    amount: Amount = msgspec.field(name="min_kbps")
    direction: Direction = "egress"


class ChangedBandwidth(Body, kw_only=True):
    amount: Amount | UnsetType = msgspec.field(default=UNSET, name="min_kbps")
    direction: Direction | UnsetType = UNSET


class PacketRate(Body, kw_only=True):
    amount: Amount = msgspec.field(name="min_kpps")
    direction: Direction | Literal["any"] = "egress"


class ChangedPacketRate(Body, kw_only=True):
    amount: Amount | UnsetType = msgspec.field(default=UNSET, name="min_kpps")
    direction: Direction | Literal["any"] | UnsetType = UNSET


BODIES: dict[QosRuleType, tuple[type[Body], type[Body]]] = {
    "bandwidth_limit": (Limit, ChangedLimit),
    "minimum_bandwidth": (Bandwidth, ChangedBandwidth),
    "minimum_packet_rate": (PacketRate, ChangedPacketRate),
}
"""Type of rule -> body of a new one, and body of a change."""


def rule_view(rule: QosRule) -> dict[str, Any]:
    """Return the attributes of a rule of this type."""
    view: dict[str, Any] = {"id": rule.id, "direction": rule.direction}
    names = {field.name: field.encode_name for field in msgspec.structs.fields(BODIES[rule.type][0])}
    view[names["amount"]] = rule.amount
    return view | {names["burst_kbps"]: rule.burst_kbps} if "burst_kbps" in names else view


async def views(call: Call, records: Sequence[QosPolicy]) -> list[dict[str, Any]]:
    return [
        {
            **common(policy, "shared", "is_default"),
            "rules": [{**rule_view(rule), "type": rule.type, "qos_policy_id": policy.id} for rule in policy.rules],
        }
        for policy in records
    ]


POLICIES = Resource(
    name="policy",
    plural="policies",
    kind=QosPolicy,
    views=views,
    filters={
        "shared": Filter(field="shared", kind=bool),
        "is_default": Filter(field="is_default", kind=bool),
    },
)


async def default_policy(call: Call, project_id: str) -> str | None:
    """Return the id of the policy that new networks of a project have; None: none. A change affects no other network.

    Older releases permitted several: the oldest one counts.
    """
    where: dict[str, list[Any]] = {"project_id": [project_id], "is_default": [True]}
    found = await call.store.search(
        QosPolicy, Query(where=where, order=[("created_at", False), ("id", False)], limit=1)
    )
    return found[0].id if found else None


async def create(call: Call) -> Reply:
    return await POLICIES.create(call, NewPolicy, _new)


async def _new(call: Call, requested: NewPolicy) -> QosPolicy:
    return QosPolicy(**new_fields(call, requested), **given(requested, "name", "description", "shared", "is_default"))


async def update(call: Call) -> Reply:
    requested = await one(call, "policy", ChangedPolicy)

    async def edit(policy: QosPolicy) -> QosPolicy:
        return msgspec.structs.replace(policy, **given(requested))

    return await POLICIES.change(call, edit)


async def rule_types(call: Call) -> Reply:
    return Reply({"rule_types": [{"type": name} for name in BODIES]})


async def rule_type(call: Call) -> Reply:
    for name, (body, _) in BODIES.items():
        if name == call.path("type"):
            parameters = [_parameter(field) for field in msgspec.structs.fields(body)]
            drivers = [{"name": name, "supported_parameters": parameters} for name in ("openvswitch", "sriovnicswitch")]
            return Reply({"rule_type": {"type": name, "drivers": drivers}})
    raise QosRuleNotFound(f"QoS rule type {call.path('type')} could not be found.")


def _parameter(field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    """Return the description of a rule's parameter."""
    if field.name != "direction":
        return {
            "parameter_name": field.encode_name,
            "parameter_type": "range",
            "parameter_values": {"start": 0, "end": 2**31 - 1},
        }
    ways = ["egress", "ingress", "any"] if "any" in str(field.type) else ["egress", "ingress"]
    return {"parameter_name": field.encode_name, "parameter_type": "choices", "parameter_values": ways}


class Rules:
    """The routes of one type of rule, below their policy."""

    def __init__(self, kind: QosRuleType) -> None:
        self._kind = kind
        self._name = f"{kind}_rule"
        self._new, self._changed = BODIES[kind]

    def routes(self) -> tuple[tuple[str, str, Handler], ...]:
        path = f"/v2.0/qos/policies/{{id}}/{self._name}s"
        return (
            ("GET", path, self.search),
            ("POST", path, self.create),
            ("GET", path + "/{rule}", self.show),
            ("PUT", path + "/{rule}", self.update),
            ("DELETE", path + "/{rule}", self.delete),
        )

    async def search(self, call: Call) -> Reply:
        policy = await call.seen(QosPolicy, call.path("id"))
        fields = call.request.query_params.getlist("fields")
        found = [pruned(rule_view(rule), fields) for rule in policy.rules if rule.type == self._kind]
        return Reply({f"{self._name}s": found})

    async def show(self, call: Call) -> Reply:
        return self._answer(await self._rule(call, await call.seen(QosPolicy, call.path("id"))))

    async def create(self, call: Call) -> Reply:
        requested = await one(call, self._name, self._new)
        policy = await call.owned(QosPolicy, call.path("id"))
        await self._check_free(call, policy)
        now = call.context.clock.now()
        rule = QosRule(
            id=call.context.ids.uuid(),
            created_at=now,
            updated_at=now,
            project_id=policy.project_id,
            policy_id=policy.id,
            type=self._kind,
            **msgspec.structs.asdict(requested),
        )
        [made] = await call.store.add([rule])
        return self._answer(made, 201)

    async def update(self, call: Call) -> Reply:
        requested = await one(call, self._name, self._changed)
        policy = await call.owned(QosPolicy, call.path("id"))
        rule = await self._rule(call, policy)
        await self._check_free(call, policy)

        async def edit(record: QosRule) -> QosRule:
            return msgspec.structs.replace(record, **given(requested))

        _, now = await call.changed(QosRule, rule.id, edit)
        return self._answer(now)

    async def delete(self, call: Call) -> Reply:
        policy = await call.owned(QosPolicy, call.path("id"))
        rule = await self._rule(call, policy)
        await self._check_free(call, policy)
        await call.store.remove(QosRule, rule.id)
        return NO_CONTENT

    def _answer(self, rule: QosRule, status: int = 200) -> Reply:
        return Reply({self._name: rule_view(rule)}, status)

    async def _rule(self, call: Call, policy: QosPolicy) -> QosRule:
        for rule in policy.rules:
            if (rule.id, rule.type) == (call.path("rule"), self._kind):
                return rule
        raise QosRuleNotFound(f"QoS rule {call.path('rule')} for policy {policy.id} could not be found.")

    async def _check_free(self, call: Call, policy: QosPolicy) -> None:
        if self._kind != "bandwidth_limit" and await guarantees_to_servers(call, policy.id):
            raise QosPolicyInUse(
                f"QoS Policy {policy.id} is used by a port of a server, which has claimed its guarantees."
            )


async def guarantees_to_servers(call: Call, policy_id: str) -> bool:
    """Check whether a bound port of a server has this policy, its own or its network's."""
    direct = await call.store.search(Port, Query(where={"qos_policy_id": [policy_id]}))
    under = await call.store.search(Network, Query(where={"qos_policy_id": [policy_id]}))
    inherited = await _without_own_policy(call, [network.id for network in under])
    return any(port.is_of_server and port.active_binding for port in (*direct, *inherited))


async def check_network(call: Call, network: Network, policy_id: str | None) -> None:
    """Raises: QosPolicyInUse: servers on the network have claimed the policy's guarantees, or would have to."""
    if policy_id == network.qos_policy_id:
        return
    policies = [each for each in (network.qos_policy_id, policy_id) if each]
    rules = [rule for each in (await rules_of(call, policies)).values() for rule in each]
    if all(rule.type == "bandwidth_limit" for rule in rules):
        return
    if any(port.is_of_server and port.active_binding for port in await _without_own_policy(call, [network.id])):
        raise QosPolicyInUse(f"Servers on network {network.id} have claimed what its QoS policy guarantees.")


async def _without_own_policy(call: Call, network_ids: Sequence[str]) -> list[Port]:
    if not network_ids:
        return []
    where: dict[str, Sequence[str | None]] = {"network_id": network_ids, "qos_policy_id": [None]}
    return await call.store.search(Port, Query(where=where))


async def rules_of(call: Call, policy_ids: Sequence[str]) -> dict[str, tuple[QosRule, ...]]:
    if not policy_ids:
        return {}
    found = await call.store.search(QosPolicy, Query(where={"id": list(policy_ids)}))
    return {policy.id: policy.rules for policy in found}
