"""Unmodified clients of Neutron against a running cloud."""

from collections.abc import Iterator

import pytest

from tests.live.running_cloud import ADMIN, RunningCloud, running_cloud

pytestmark = pytest.mark.long

CARD = """
[[cell.host.nic]]
name = "ens5"
physnet = "physnet0"
egress_kbps = 10_000_000
ingress_kbps = 10_000_000
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCloud]:
    """Run a cloud whose last host, s2, has a network card."""
    with running_cloud(tmp_path_factory.mktemp("cloud"), settings=CARD) as running:
        yield running


def test_a_new_cloud_has_a_network(cloud: RunningCloud) -> None:
    [network] = cloud.openstack("network", "list", "--long", "--name", "private")
    assert network["Shared"] is True
    [subnet] = cloud.openstack("subnet", "list", "--network", "private")
    assert subnet["Network"] == network["ID"]
    assert "default" in [group["Name"] for group in cloud.openstack("security", "group", "list")]


def test_networks_subnets_and_ports(cloud: RunningCloud) -> None:
    network = cloud.openstack("network", "create", "--tag", "mine", "net")
    cloud.openstack("subnet", "create", "--network", "net", "--subnet-range", "10.9.0.0/29", "four")
    fixed = ("--fixed-ip", "subnet=four,ip-address=10.9.0.5")
    port = cloud.openstack("port", "create", "--network", "net", *fixed, "--mac-address", "fa:16:3e:11:22:33", "p")
    assert port["fixed_ips"][0]["ip_address"] == "10.9.0.5"
    assert port["mac_address"] == "fa:16:3e:11:22:33"
    refused = cloud.refusal("port", "create", "--network", "net", *fixed, "q")
    assert "IP address 10.9.0.5 already allocated" in refused
    assert "ports still in use" in cloud.refusal("network", "delete", "net")
    cloud.say("port", "set", "--name", "r", "--description", "ünïcödé", "p")
    [listed] = cloud.openstack("port", "list", "--network", "net")
    assert listed["Name"] == "r"
    assert [each["ID"] for each in cloud.openstack("network", "list", "--tags", "mine")] == [network["id"]]
    cloud.say("port", "delete", "r")
    cloud.say("network", "delete", "net")
    assert "No Network found for net" in cloud.refusal("network", "show", "net")


def test_guaranteed_bandwidth(cloud: RunningCloud) -> None:
    provider = ("--provider-network-type", "vlan", "--provider-physical-network", "physnet0", "--share")
    cloud.say("network", "create", *provider, "fast", cloud=ADMIN)
    cloud.say("network", "qos", "policy", "create", "gold")
    least = ("--type", "minimum-bandwidth", "--min-kbps", "1000", "--egress")
    cloud.say("network", "qos", "rule", "create", *least, "gold")
    cloud.say("port", "create", "--network", "fast", "--qos-policy", "gold", "promised")
    shown = cloud.openstack("port", "show", "promised", cloud=ADMIN)
    [group] = shown["resource_request"]["request_groups"]
    assert group["resources"] == {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}
    assert "is used by a port" in cloud.refusal("network", "qos", "policy", "delete", "gold")
    providers = {each["name"]: each["uuid"] for each in cloud.openstack("resource", "provider", "list", cloud=ADMIN)}
    card = providers["s2:Open vSwitch agent:ens5"]
    inventory = cloud.openstack("resource", "provider", "inventory", "list", card, cloud=ADMIN)
    assert {each["resource_class"]: each["total"] for each in inventory} == {
        "NET_BW_EGR_KILOBIT_PER_SEC": 10_000_000,
        "NET_BW_IGR_KILOBIT_PER_SEC": 10_000_000,
    }
    traits = [each["name"] for each in cloud.openstack("resource", "provider", "trait", "list", card, cloud=ADMIN)]
    assert set(traits) == set(group["required"])


SDK_STORY = """
import openstack
from openstack import exceptions

mine, admins = openstack.connect(cloud="whimbrel").network, openstack.connect(cloud="whimbrel-admin").network
network = mine.create_network(name="sdk", mtu=1400)
subnet = mine.create_subnet(network_id=network.id, cidr="10.7.0.0/29", ip_version=4, dns_nameservers=["1.1.1.1"])
ports = list(mine.create_ports([{"network_id": network.id, "name": f"p{number}"} for number in range(5)]))
assert len({port.fixed_ips[0]["ip_address"] for port in ports}) == 5
try:
    mine.create_port(network_id=network.id)
except exceptions.ConflictException as full:
    assert "No more IP addresses" in str(full), full
else:
    raise AssertionError("there was one left")
names = [port.name for port in mine.ports(network_id=network.id, limit=2, sort_key="name", sort_dir="asc")]
assert names == ["p0", "p1", "p2", "p3", "p4"], names
port = mine.update_port(ports[0], device_owner="compute:nova", device_id="99999999-0000-4000-8000-000000000001")
admins.update_port(port.id, binding_host_id="n1", binding_profile={"label": "a"})
binding = admins.create_port_binding(port.id, host="n2", profile={"label": "b"})
assert (binding.status, binding.vif_type) == ("INACTIVE", "ovs"), binding
admins.activate_port_binding(port.id, host="n2")
shown = admins.get_port(port.id)
assert (shown.binding_host_id, shown.binding_profile, shown.status) == ("n2", {"label": "b"}, "ACTIVE"), shown
admins.delete_port_binding(port.id, "n1")
assert [each.host for each in admins.port_bindings(port.id)] == ["n2"]
mine.set_tags(network, ["a", "b"])
assert mine.get_network(network.id).tags == ["a", "b"]
group = mine.create_security_group(name="web")
mine.create_security_group_rule(
    security_group_id=group.id, direction="ingress", protocol="tcp", port_range_min=80, port_range_max=80
)
assert len(mine.get_security_group(group.id).security_group_rules) == 3
policy = mine.create_qos_policy(name="silver")
mine.create_qos_bandwidth_limit_rule(policy, max_kbps=10, direction="ingress")
mine.create_qos_minimum_packet_rate_rule(policy, min_kpps=1, direction="any")
assert {rule["type"] for rule in mine.get_qos_policy(policy.id).rules} == {"bandwidth_limit", "minimum_packet_rate"}
assert {agent.host for agent in admins.agents()} == {"n1", "n2", "s1", "s2"}
assert mine.find_extension("binding-extended") and mine.find_extension("router") and not mine.find_extension("l3-ha")
assert mine.get_quota(mine.get_network(network.id).project_id).networks == -1
for each in mine.ports(network_id=network.id):
    mine.delete_port(each)
mine.delete_subnet(subnet)
mine.delete_network(network)
assert mine.find_network("sdk") is None
print("well")
"""


def test_the_sdk(cloud: RunningCloud) -> None:
    assert cloud.python(SDK_STORY).strip() == "well"


def test_a_server_has_an_address_and_its_port_is_up(cloud: RunningCloud) -> None:
    words = ("--flavor", "m1.tiny", "--image", "tick", "--network", "private", "--wait", "one")
    server = cloud.openstack("server", "create", *words)
    [port] = cloud.openstack("port", "list", "--server", server["id"], "--long")
    assert port["Status"] == "ACTIVE"
    assert port["Fixed IP Addresses"][0]["ip_address"] in str(server["addresses"])
    cloud.say("server", "delete", "--wait", server["id"])
    assert port["ID"] not in [each["ID"] for each in cloud.openstack("port", "list")]


NEWS_STORY = """
import time
import openstack

cloud, admins = openstack.connect(cloud="whimbrel"), openstack.connect(cloud="whimbrel-admin").network
image, flavor = cloud.image.find_image("tick"), cloud.compute.find_flavor("m1.tiny")
network = cloud.network.find_network("private")
wanted = {"image_id": image.id, "flavor_id": flavor.id, "networks": [{"uuid": network.id}]}
server = cloud.compute.wait_for_server(cloud.compute.create_server(name="news", **wanted), wait=None)

def until(addresses):
    while True:
        shown = cloud.compute.get_server(server.id).addresses
        if [each["addr"] for each in shown.get("private", [])] == addresses:
            return
        time.sleep(0.1)

[port] = cloud.network.ports(device_id=server.id)
until([port.fixed_ips[0]["ip_address"]])
admins.update_port(port.id, fixed_ips=[{"ip_address": "10.42.7.7"}])  # the network is another project's
until(["10.42.7.7"])
cloud.network.delete_port(port)
until([])
cloud.compute.delete_server(server)
cloud.compute.wait_for_delete(server, wait=None)
print("well")
"""


def test_a_server_hears_what_becomes_of_its_port(cloud: RunningCloud) -> None:
    assert cloud.python(NEWS_STORY).strip() == "well"
