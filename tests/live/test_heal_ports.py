"""`whimbrel heal ports` in a running cloud: what hands have dropped is found, told, and healed."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.running_cloud import RunningCloud, running_cloud

pytestmark = pytest.mark.long

CARD = """
[[cell.host.nic]]
name = "ens5"
physnet = "physnet0"
egress_kbps = 1000
ingress_kbps = 1000
"""


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCloud]:
    """Run a cloud whose last host, s2, has a network card."""
    with running_cloud(tmp_path_factory.mktemp("cloud"), settings=CARD) as running:
        yield running


OPERATOR = """
import json
import openstack

cloud = openstack.connect(cloud="whimbrel-admin")
EGRESS = "NET_BW_EGR_KILOBIT_PER_SEC"


def allocations(consumer):
    return cloud.placement.get(f"/allocations/{consumer}", microversion="1.28").json()


def allocate(consumer, parts, like):
    body = {"allocations": parts, "project_id": like["project_id"], "user_id": like["user_id"]}
    body["consumer_generation"] = like.get("consumer_generation")
    answer = cloud.placement.put(f"/allocations/{consumer}", json=body, microversion="1.28")
    assert answer.status_code == 204, answer.text


def split(held):
    cards = {one: {"resources": part["resources"]} for one, part in held.items() if EGRESS in part["resources"]}
    return cards, {one: {"resources": part["resources"]} for one, part in held.items() if one not in cards}
"""

BREAK = (
    OPERATOR
    + """
net = cloud.network
vlan = {"provider_network_type": "vlan", "provider_physical_network": "physnet0"}
network = net.create_network(name="fast", is_shared=True, **vlan)
net.create_subnet(network_id=network.id, ip_version=4, cidr="10.8.0.0/24")
policy = net.create_qos_policy(name="gold")
net.create_qos_minimum_bandwidth_rule(policy, min_kbps=800, direction="egress")
port = net.create_port(network_id=network.id, qos_policy_id=policy.id)
wanted = {"image": "tick", "flavor": "m1.tiny", "nics": [{"port-id": port.id}]}
server = cloud.create_server("paid", **wanted, wait=True, timeout=1800)
before = allocations(server.id)
[card], others = split(before["allocations"])
allocate(server.id, others, before)
net.update_port(port.id, binding_profile={})
print(json.dumps({"server": server.id, "port": port.id, "card": card}))
"""
)

LOOK = (
    OPERATOR
    + """
[server] = list(cloud.compute.servers())
[port] = list(cloud.network.ports(device_id=server.id))
held = allocations(server.id)["allocations"]
said = list(port.binding_profile["allocation"].values())
print(json.dumps({"cards": split(held)[0], "said": said, "parts": len(held)}))
"""
)

FILL = (
    OPERATOR
    + """
[server] = list(cloud.compute.servers())
before = allocations(server.id)
[card], others = split(before["allocations"])
allocate(server.id, others, before)
other = "99999999-9999-4999-8999-999999999999"
allocate(other, {card: {"resources": {EGRESS: 900}}}, {**before, "consumer_generation": None})
"""
)


def heal(cloud: RunningCloud, *words: str, code: int = 0) -> str:
    done = cloud.run("whimbrel", "heal", "ports", *words)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_what_was_broken_by_hand_is_found_and_healed(cloud: RunningCloud) -> None:
    ids: Any = json.loads(cloud.python(BREAK))
    for _ in range(2):  # to look changes nothing
        told = heal(cloud, "--dry-run")
        assert f"port {ids['port']}: 800 NET_BW_EGR_KILOBIT_PER_SEC is not claimed where it could be served" in told
        assert "NET_BW_EGR_KILOBIT_PER_SEC of s2:Open vSwitch agent:ens5: 0 -> 800" in told
    healed = heal(cloud, "--server", ids["server"])
    assert f"healed: paid ({ids['server']})" in healed
    assert f"profile of port {ids['port']}: nothing -> {ids['card']}" in healed
    seen = json.loads(cloud.python(LOOK))
    assert seen == {
        "cards": {ids["card"]: {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 800}}},
        "said": [ids["card"]],
        "parts": 2,
    }
    assert "idle servers are served" in heal(cloud)
    assert json.loads(heal(cloud, "--json")) == {"port_healings": [], "dry_run": False, "outcomes": []}

    cloud.python(FILL)
    told = heal(cloud, code=1)
    assert "cannot be healed  host s2 has no room for 800 NET_BW_EGR_KILOBIT_PER_SEC" in told
    assert f"not healed: paid ({ids['server']})" in told
    document = json.loads(heal(cloud, "--dry-run", "--json", code=1))
    assert [one["server_id"] for one in document["port_healings"]] == [ids["server"]]
    assert [one["healed"] for one in document["outcomes"]] == [False]
    assert "403" in heal(cloud, "--os-cloud", "whimbrel", code=1)
