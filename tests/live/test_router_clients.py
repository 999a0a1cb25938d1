"""Unmodified clients: routers, floating IPs and quotas of networks, and the addresses of a server."""

from collections.abc import Iterator

import pytest

from tests.live.running_cloud import ADMIN, RunningCloud, running_cloud
from tests.processes import wait_for

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCloud]:
    with running_cloud(tmp_path_factory.mktemp("cloud")) as running:
        running.say("network", "create", "--external", "public", cloud=ADMIN)
        subnet = ("--network", "public", "--subnet-range", "192.0.2.0/24", "--no-dhcp")
        running.say("subnet", "create", *subnet, "public", cloud=ADMIN)
        yield running


def shown_addresses(cloud: RunningCloud) -> list[str]:
    found: list[str] = cloud.openstack("server", "show", "one")["addresses"]["net"]
    return found


def until_shown(cloud: RunningCloud, address: str, is_shown: bool = True) -> None:
    """Wait for what the network service tells the compute service in the background."""
    wait_for(lambda: address in shown_addresses(cloud), lambda seen: seen == is_shown, f"{address}: {is_shown}")


def test_a_server_gets_and_loses_addresses(cloud: RunningCloud) -> None:
    cloud.say("network", "create", "net")
    cloud.say("subnet", "create", "--network", "net", "--subnet-range", "10.9.0.0/24", "four")
    made = cloud.openstack("router", "create", "--external-gateway", "public", "r")
    assert made["external_gateway_info"]["enable_snat"] is True
    cloud.say("router", "add", "subnet", "r", "four")
    route = ("--route", "destination=10.10.0.0/16,gateway=10.9.0.9")
    cloud.say("router", "set", *route, "--name", "r1", "r")
    shown = cloud.openstack("router", "show", "r1")
    assert shown["routes"] == [{"destination": "10.10.0.0/16", "nexthop": "10.9.0.9"}]
    [interface] = [each for each in shown["interfaces_info"] if each["ip_address"] == "10.9.0.1"]
    cloud.say("server", "create", "--flavor", "m1.tiny", "--image", "tick", "--network", "net", "--wait", "one")
    address = cloud.openstack("floating", "ip", "create", "public")["floating_ip_address"]
    cloud.say("server", "add", "floating", "ip", "one", address)
    [listed] = cloud.openstack("floating", "ip", "list", "--status", "ACTIVE")
    assert (listed["Floating IP Address"], listed["Fixed IP Address"]) == (address, "10.9.0.2")
    until_shown(cloud, address)
    assert "required by one or more routes" in cloud.refusal("router", "remove", "subnet", "r1", "four")
    cloud.say("router", "unset", *route, "r1")
    assert "required by one or more floating IPs" in cloud.refusal("router", "remove", "subnet", "r1", "four")
    cloud.say("server", "remove", "floating", "ip", "one", address)
    until_shown(cloud, address, False)
    cloud.say("server", "add", "fixed", "ip", "one", "net")
    wait_for(lambda: shown_addresses(cloud), lambda seen: len(seen) == 2, "two addresses")
    old = ("--os-compute-api-version", "2.43")  # the client asks for the newest version, which has no such action
    cloud.say(*old, "server", "remove", "fixed", "ip", "one", shown_addresses(cloud)[1])
    assert len(shown_addresses(cloud)) == 1
    cloud.say("router", "remove", "port", "r1", interface["port_id"])
    [port] = cloud.openstack("port", "list", "--server", "one", "--fixed-ip", "subnet=four")
    assert "not reachable from subnet" in cloud.refusal("floating", "ip", "set", "--port", port["ID"], address)
    cloud.say("router", "unset", "--external-gateway", "r1")
    cloud.say("router", "delete", "r1")
    cloud.say("floating", "ip", "delete", address)


SDK_STORY = """
import openstack

cloud = openstack.connect(cloud="whimbrel")
public = cloud.network.find_network("public")
assert public.is_router_external
router = cloud.create_router(name="sdk", ext_gateway_net_id=public.id)
assert router.id in [each.id for each in cloud.list_routers()]
network = cloud.create_network("sdk")
subnet = cloud.create_subnet("sdk", cidr="10.30.0.0/24", subnet_name="sdk")
cloud.add_router_interface(router, subnet_id=subnet.id)
owners = {port.device_owner for port in cloud.list_router_interfaces(router)}
assert owners == {"network:router_interface", "network:router_gateway"}
wanted = {"image": "tick", "flavor": "m1.tiny", "network": "sdk"}
server = cloud.create_server("sdk", **wanted, auto_ip=True, wait=True, timeout=1800)
[floating] = [each for each in server.addresses["sdk"] if each["OS-EXT-IPS:type"] == "floating"]
[found] = cloud.network.ips(floating_ip_address=floating["addr"])
assert (found.router_id, found.port_details["device_id"]) == (router.id, server.id)
cloud.delete_server("sdk", wait=True, timeout=1800, delete_ips=True)
assert list(cloud.network.ips(floating_ip_address=floating["addr"])) == []
quota = cloud.network.get_quota(cloud.current_project_id, details=True)
assert quota.routers["limit"] == -1 and quota.routers["used"] >= 1
cloud.remove_router_interface(router, subnet_id=subnet.id)
cloud.delete_router(router.id)
cloud.delete_network("sdk")
print("whole")
"""


def test_the_sdk_gives_a_server_a_floating_ip(cloud: RunningCloud) -> None:
    assert cloud.python(SDK_STORY).strip() == "whole"
