"""What routers announce: the modes of subnets in dnsmasq's terms."""

import pytest
from msgspec.structs import replace

from whimbrel.adapters.host_network.advertisement_files import advertisement_files
from whimbrel.domain.host_networks import HostNetwork, HostRouter, HostSubnet, RouterLeg

SUBNET = HostSubnet(id="s", version=6, cidr="fd00::/64", dns=("fd00::53", "192.0.2.53"), ra_mode="slaac")
NETWORK = HostNetwork(id="n", mtu=1450, subnets=(HostSubnet(id="v4", version=4, cidr="10.0.0.0/24"), SUBNET))
LEG = RouterLeg(port="0123456789abcdef", network="n", mac="fa:16:3e:44:00:01", addresses=("fd00::1/64",))
ROUTER = HostRouter(id="r", legs=(LEG,))


def ranges(network: HostNetwork, router: HostRouter = ROUTER) -> list[str]:
    files = advertisement_files(router, {network.id: network}, "/run/r")
    return [line for line in files.settings.splitlines() if line.startswith("dhcp-range")] if files else []


@pytest.mark.parametrize(
    ("mode", "word"), [("slaac", "ra-only"), ("dhcpv6-stateless", "ra-stateless"), ("dhcpv6-stateful", "static")]
)
def test_each_mode_is_announced(mode: str, word: str) -> None:
    network = replace(NETWORK, subnets=(replace(SUBNET, ra_mode=mode),))
    assert ranges(network) == [f"dhcp-range=fd00::,{word},64,86400s"]


def test_the_router_leases_nothing_and_names_the_name_servers() -> None:
    files = advertisement_files(ROUTER, {"n": NETWORK}, "/run/r")
    assert files
    assert {"enable-ra", "dhcp-ignore=tag:!known", "interface=wl0123456789a"} <= set(files.settings.splitlines())
    assert files.hosts == ""
    assert "dhcp-option=tag:wl0123456789a,option6:dns-server,[fd00::53]" in files.settings.splitlines()


@pytest.mark.parametrize(
    ("subnet", "mtu"),
    [
        ({"ra_mode": ""}, 1450),
        ({"ra_mode": "of the future"}, 1450),
        ({"cidr": "fd01::/64"}, 1450),  # the leg is not in it
        ({"cidr": "fd00::/63"}, 1450),
        ({"cidr": "fd00::/65"}, 1450),
        ({}, 1279),
    ],
)
def test_what_is_not_announced(subnet: dict[str, str], mtu: int) -> None:
    network = replace(NETWORK, mtu=mtu, subnets=(replace(SUBNET, **subnet),))
    assert ranges(network) == []
    assert ranges(NETWORK, replace(ROUTER, legs=())) == []
