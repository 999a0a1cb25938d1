"""The files of dnsmasq: static leases of the host's ports, and what clients are told."""

import pytest
from msgspec.structs import replace

from whimbrel.adapters.host_network.dhcp_files import dhcp_files
from whimbrel.domain.host_networks import HostNetwork, HostPort, HostSubnet

SUBNET = HostSubnet(
    id="s", version=4, cidr="10.0.0.0/24", gateway="10.0.0.1", dhcp_address="10.0.0.2",
    dns=("192.0.2.53", "fd00::53", "192.0.2.54"), routes=(("10.9.0.0/16", "10.0.0.7"),),
)  # fmt: skip
OTHER = HostSubnet(id="t", version=4, cidr="10.1.0.0/25", dhcp_address="10.1.0.2")
PORT = HostPort(id="p", mac="fa:16:3e:00:00:05", server="s", addresses=("fd00::5", "10.1.0.5", "10.0.0.5"))
NETWORK = HostNetwork(id="0123456789abcdef", mtu=1450, subnets=(SUBNET, OTHER), ports=(PORT,))


def test_each_port_has_its_addresses() -> None:
    files = dhcp_files(NETWORK, "/run/d")
    assert files
    assert files.hosts.splitlines() == [
        "fa:16:3e:00:00:05,10.0.0.5,host-10-0-0-5",
        "fa:16:3e:00:00:05,10.1.0.5,host-10-1-0-5",
    ]
    lines = files.settings.splitlines()
    assert "dhcp-range=set:s0,10.0.0.0,static,255.255.255.0,86400s" in lines
    assert "dhcp-range=set:s1,10.1.0.0,static,255.255.255.128,86400s" in lines
    assert {"interface=br0123456789a", "dhcp-ignore=tag:!known", "dhcp-hostsfile=/run/d/hosts"} <= set(lines)


def test_clients_are_told_their_routes() -> None:
    files = dhcp_files(NETWORK, "/run/d")
    assert files
    routes = "169.254.169.254/32,10.0.0.2,10.9.0.0/16,10.0.0.7,0.0.0.0/0,10.0.0.1"
    assert files.options.splitlines() == [
        "tag:s0,option:router,10.0.0.1",
        f"tag:s0,option:classless-static-route,{routes}",
        f"tag:s0,249,{routes}",
        "tag:s0,option:dns-server,192.0.2.53,192.0.2.54",
        "tag:s0,option:mtu,1450",
        "tag:s1,option:router",
        "tag:s1,option:classless-static-route,169.254.169.254/32,10.1.0.2",
        "tag:s1,249,169.254.169.254/32,10.1.0.2",
        "tag:s1,option:dns-server",
        "tag:s1,option:mtu,1450",
    ]


def test_a_network_without_dhcp_has_no_server() -> None:
    assert dhcp_files(replace(NETWORK, subnets=(replace(SUBNET, dhcp_address=""),)), "/run/d") is None


OF_VERSION_6 = HostSubnet(
    id="six", version=6, cidr="fd00::/64", gateway="fd00::1", dhcpv6_address="fd00::2", dns=("192.0.2.53", "fd00::53"),
    ra_mode="dhcpv6-stateful",
)  # fmt: skip
BOTH = replace(NETWORK, dhcp_mac="fa:16:3e:ff:00:02", subnets=(SUBNET, OF_VERSION_6))


def test_ports_have_their_addresses_of_version_6_too() -> None:
    files = dhcp_files(BOTH, "/run/d")
    assert files
    assert files.hosts.splitlines() == [
        "fa:16:3e:00:00:05,10.0.0.5,host-10-0-0-5",
        "fa:16:3e:00:00:05,tag:dhcpv6,[fd00::5],host-fd00-0000-0000-0000-0000-0000-0000-0005",
    ]
    lines = files.settings.splitlines()
    assert "dhcp-range=set:s1,fd00::,static,64,86400s" in lines
    assert "dhcp-duid=0,fa:16:3e:ff:00:02" in lines  # the same on each host: a guest may move
    assert files.options.splitlines()[-1] == "tag:s1,option6:dns-server,[fd00::53]"


@pytest.mark.parametrize("changed", [{"dhcpv6_address": ""}, {"cidr": "fd00::/63"}])
def test_a_subnet_of_version_6_that_cannot_be_served_is_left_out(changed: dict[str, str]) -> None:
    assert dhcp_files(replace(BOTH, subnets=(replace(OF_VERSION_6, **changed),)), "/run/d") is None
    assert dhcp_files(replace(BOTH, subnets=(OF_VERSION_6,), mtu=1279), "/run/d") is None
