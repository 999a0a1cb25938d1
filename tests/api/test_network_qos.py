"""QoS over Neutron's protocol, and what a port under it asks of Placement."""

from typing import Any
from uuid import UUID, uuid5

import os_traits
import pytest

from tests.api.network_service import Service, opened, refusal
from whimbrel.embedded.network.resource_requests import physnet_trait, vnic_trait

ID = "11111111-0000-4000-8000-000000000000"
FLAT = {"provider:network_type": "flat", "provider:physical_network": "physnet0"}


async def rule(service: Service, policy: Any, kind: str, **fields: Any) -> Any:
    path = f"/qos/policies/{policy['id']}/{kind}_rules"
    answer = await service.ask("ann", "POST", path, {f"{kind}_rule": fields})
    assert answer.status_code == 201, answer.text
    return answer.json()[f"{kind}_rule"]


async def test_tags_of_a_policy_are_where_neutron_has_them(service: Service) -> None:
    policy = await service.make("policy", name="gold")
    tagged = await service.ask("ann", "PUT", f"/policies/{policy['id']}/tags", {"tags": ["blue"]})
    assert tagged.json() == {"tags": ["blue"]}
    assert (await service.get(f"/qos/policies/{policy['id']}", "ann"))["policy"]["tags"] == ["blue"]


async def test_a_new_network_has_the_default_policy_of_its_project(service: Service) -> None:
    gold = await service.make("policy", who="root", name="gold", is_default=True, project_id="p1")
    silver = await service.make("policy", who="root", name="silver", project_id="p1")
    await service.make("policy", who="root", name="of others", is_default=True, project_id="p2")
    assert (await service.net(who="ann"))["qos_policy_id"] == gold["id"]
    assert (await service.net(who="ann", qos_policy_id=silver["id"]))["qos_policy_id"] == silver["id"]
    assert (await service.net(who="root"))["qos_policy_id"] is None
    path, body = f"/qos/policies/{silver['id']}", {"policy": {"is_default": True}}
    refusal(await service.ask("root", "PUT", path, body), 409, "QoSPolicyDefaultAlreadyExists")
    again = {"policy": {"name": "third", "project_id": "p1", "is_default": True}}
    refusal(await service.ask("root", "POST", "/qos/policies", again), 409, "QoSPolicyDefaultAlreadyExists")
    await service.put(f"/qos/policies/{gold['id']}", "policy", "root", name="gold", is_default=True)
    await service.put(f"/qos/policies/{gold['id']}", "policy", "root", is_default=False)
    assert (await service.net(who="ann"))["qos_policy_id"] is None
    assert (await service.ask("root", "PUT", path, body)).json()["policy"]["is_default"] is True
    aliases = {each["alias"] for each in (await service.get("/extensions"))["extensions"]}
    assert "qos-default" in aliases  # openstacksdk sends is_default only then


async def test_policies_and_rules(service: Service) -> None:
    policy = await service.make("policy", name="gold")
    assert (policy["rules"], policy["shared"], policy["is_default"]) == ([], False, False)
    limit = await rule(service, policy, "bandwidth_limit", max_kbps="1000", max_burst_kbps=100)
    assert limit == {"id": limit["id"], "max_kbps": 1000, "max_burst_kbps": 100, "direction": "egress"}
    least = await rule(service, policy, "minimum_bandwidth", min_kbps=500, direction="ingress")
    assert least == {"id": least["id"], "min_kbps": 500, "direction": "ingress"}
    rate = await rule(service, policy, "minimum_packet_rate", min_kpps=7, direction="any")
    assert rate == {"id": rate["id"], "min_kpps": 7, "direction": "any"}
    shown = (await service.get(f"/qos/policies/{policy['id']}", "ann"))["policy"]
    assert {each["type"] for each in shown["rules"]} == {"bandwidth_limit", "minimum_bandwidth", "minimum_packet_rate"}
    path = f"/qos/policies/{policy['id']}/minimum_bandwidth_rules"
    assert await service.get(path, "ann") == {"minimum_bandwidth_rules": [least]}
    assert await service.get(f"{path}/{least['id']}", "ann") == {"minimum_bandwidth_rule": least}
    refusal(await service.ask("ann", "GET", f"{path}/{limit['id']}"), 404, "QosRuleNotFound")
    changed = await service.put(f"{path}/{least['id']}", "minimum_bandwidth_rule", "ann", min_kbps=600)
    assert changed == {**least, "min_kbps": 600}
    again = {"minimum_bandwidth_rule": {"min_kbps": 1, "direction": "ingress"}}
    refusal(await service.ask("ann", "POST", path, again), 409, "QosRulesConflict")
    assert (await service.ask("ann", "DELETE", f"{path}/{least['id']}")).status_code == 204
    refusal(await service.ask("bob", "GET", f"/qos/policies/{policy['id']}"), 404, "QosPolicyNotFound")
    assert (await service.ask("ann", "DELETE", f"/qos/policies/{policy['id']}")).status_code == 204


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("bandwidth_limit", {}),
        ("bandwidth_limit", {"max_kbps": -1}),
        ("bandwidth_limit", {"max_kbps": 2**40}),
        ("minimum_bandwidth", {"min_kbps": 1, "direction": "any"}),
        ("minimum_bandwidth", {"min_kbps": "much"}),
        ("minimum_packet_rate", {"min_kpps": 1, "direction": "up"}),
        ("minimum_packet_rate", {"min_kbps": 1}),
    ],
)
async def test_nonsense_about_a_rule(service: Service, kind: str, fields: dict[str, object]) -> None:
    policy = await service.make("policy")
    answer = await service.ask("ann", "POST", f"/qos/policies/{policy['id']}/{kind}_rules", {f"{kind}_rule": fields})
    assert answer.status_code == 400, answer.text


async def test_rule_types(service: Service) -> None:
    types = [each["type"] for each in (await service.get("/qos/rule-types", "ann"))["rule_types"]]
    assert types == ["bandwidth_limit", "minimum_bandwidth", "minimum_packet_rate"]
    shown = (await service.get("/qos/rule-types/minimum_packet_rate", "ann"))["rule_type"]
    choices = {each["parameter_name"]: each["parameter_values"] for each in shown["drivers"][0]["supported_parameters"]}
    assert choices["direction"] == ["egress", "ingress", "any"]
    refusal(await service.ask("ann", "GET", "/qos/rule-types/magic"), 404, "QosRuleNotFound")


async def test_a_policy_in_use_stays(service: Service) -> None:
    policy = await service.make("policy")
    network = await service.make("network", qos_policy_id=policy["id"])
    path = f"/qos/policies/{policy['id']}"
    refusal(await service.ask("ann", "DELETE", path), 409, "QosPolicyInUse")
    await service.put(f"/networks/{network['id']}", "network", "ann", qos_policy_id=None)
    port = await service.make("port", network_id=network["id"], qos_policy_id=policy["id"])
    refusal(await service.ask("ann", "DELETE", path), 409, "QosPolicyInUse")
    await service.put(f"/ports/{port['id']}", "port", "ann", qos_policy_id=None)
    assert (await service.ask("ann", "DELETE", path)).status_code == 204


async def guaranteed(service: Service) -> tuple[Any, Any, Any]:
    """Make a policy of bandwidth both ways and a packet rate; return it and its rules."""
    policy = await service.make("policy")
    out = await rule(service, policy, "minimum_bandwidth", min_kbps=1000)
    inward = await rule(service, policy, "minimum_bandwidth", min_kbps=2000, direction="ingress")
    rate = await rule(service, policy, "minimum_packet_rate", min_kpps=3, direction="any")
    return policy, (out, inward), rate


async def test_what_a_port_asks_of_placement_in_groups(service: Service) -> None:
    policy, bandwidth, rate = await guaranteed(service)
    network = await service.make("network", "root", project_id="p1", **FLAT)
    port = await service.make("port", network_id=network["id"], qos_policy_id=policy["id"])
    asked = (await service.get(f"/ports/{port['id']}"))["port"]["resource_request"]
    first, second = (
        str(uuid5(UUID(port["id"]), ":".join(sorted(each["id"] for each in rules)))) for rules in (bandwidth, [rate])
    )
    assert asked == {
        "request_groups": [
            {
                "id": first,
                "required": ["CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_VNIC_TYPE_NORMAL"],
                "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000, "NET_BW_IGR_KILOBIT_PER_SEC": 2000},
            },
            {
                "id": second,
                "required": ["CUSTOM_VNIC_TYPE_NORMAL"],
                "resources": {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 3},
            },
        ],
        "same_subtree": [first, second],
    }
    assert (await service.get(f"/ports/{port['id']}"))["port"]["resource_request"] == asked  # the ids stay


async def test_what_a_port_asks_of_placement_in_one_request() -> None:
    async with opened(in_groups=False) as service:
        policy, _, _ = await guaranteed(service)
        network = await service.make("network", "root", project_id="p1", qos_policy_id=policy["id"], **FLAT)
        port = await service.make("port", network_id=network["id"], **{"binding:vnic_type": "direct"})
        shown = (await service.get(f"/ports/{port['id']}"))["port"]
        assert shown["qos_network_policy_id"] == policy["id"]
        assert shown["resource_request"] == {
            "required": ["CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_VNIC_TYPE_DIRECT"],
            "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000, "NET_BW_IGR_KILOBIT_PER_SEC": 2000},
        }
        aliases = {each["alias"] for each in (await service.get("/extensions"))["extensions"]}
        assert "port-resource-request-groups" not in aliases
        assert "port-resource-request" in aliases


async def test_over_tunnels_no_bandwidth_is_counted(service: Service) -> None:
    policy, _, _ = await guaranteed(service)
    network = await service.make("network")
    port = await service.make("port", network_id=network["id"], qos_policy_id=policy["id"])
    asked = (await service.get(f"/ports/{port['id']}"))["port"]["resource_request"]
    assert [list(group["resources"]) for group in asked["request_groups"]] == [["NET_PACKET_RATE_KILOPACKET_PER_SEC"]]
    own = await service.make("policy")
    changed = await service.put(f"/ports/{port['id']}", "port", qos_policy_id=own["id"])
    assert changed["resource_request"] is None


async def test_what_a_server_has_claimed_is_not_changed_under_it(service: Service) -> None:
    policy, (out, _), _ = await guaranteed(service)
    network = await service.make("network", "root", project_id="p1", **FLAT)
    fields = {"qos_policy_id": policy["id"], "binding:host_id": "h1"}
    port = await service.of_server(network["id"], **fields)
    path = f"/qos/policies/{policy['id']}/minimum_bandwidth_rules/{out['id']}"
    for method in ("PUT", "DELETE"):
        answer = await service.ask("ann", method, path, {"minimum_bandwidth_rule": {"min_kbps": 1}})
        refusal(answer, 409, "QosPolicyInUse")
    answer = await service.ask("root", "PUT", f"/ports/{port['id']}", {"port": {"qos_policy_id": None}})
    refusal(answer, 409, "QosPolicyInUse")
    await rule(service, policy, "bandwidth_limit", max_kbps=1)  # a limit claims nothing
    await service.put(f"/ports/{port['id']}", "port", **{"binding:host_id": ""})
    await service.put(f"/ports/{port['id']}", "port", qos_policy_id=None)


async def test_what_servers_have_claimed_by_their_network_is_not_changed_under_them(service: Service) -> None:
    policy, _, _ = await guaranteed(service)
    network = await service.make("network", "root", project_id="p1", **FLAT)
    path = f"/networks/{network['id']}"
    port = await service.of_server(network["id"], **{"binding:host_id": "h1"})
    for policy_id in (policy["id"], None):
        answer = await service.ask("ann", "PUT", path, {"network": {"qos_policy_id": policy_id, "name": "n"}})
        assert answer.status_code == (409 if policy_id else 200), answer.text
    await service.put(f"/ports/{port['id']}", "port", **{"binding:host_id": ""})
    assert (await service.put(path, "network", "ann", qos_policy_id=policy["id"]))["qos_policy_id"] == policy["id"]
    await service.put(f"/ports/{port['id']}", "port", **{"binding:host_id": "h1"})
    refusal(await service.ask("ann", "PUT", path, {"network": {"qos_policy_id": None}}), 409, "QosPolicyInUse")


@pytest.mark.parametrize("name", ["physnet0", "Blue-net", "a_b", "x--y", "0"])
def test_traits_are_named_as_everybody_names_them(name: str) -> None:
    assert physnet_trait(name) == os_traits.normalize_name(f"physnet_{name}")
    assert vnic_trait(name) == os_traits.normalize_name(f"vnic_type_{name}")
