"""The files of dnsmasq: static leases of the host's ports, and what clients are told."""

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
