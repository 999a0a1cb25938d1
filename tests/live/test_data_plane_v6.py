"""IPv6 on the networks of a host: advertisements of routers, DHCPv6, and guests that play the router."""

import shutil
from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from msgspec.structs import replace

from tests.live.plane_hosts import LAST, PlaneGuest, PlaneHost, plane_host
from tests.prerequisites import missing
from whimbrel.adapters.host_network.packet_rules import link_local
from whimbrel.domain.host_networks import (
    HostNetwork,
    HostNetworks,
    HostPort,
    HostRouter,
    HostRule,
    HostSubnet,
    RouterLeg,
)
from whimbrel.domain.ip_addresses import from_mac

CIDR = "fd00:5::/64"
SUBNET = HostSubnet(id="s", version=6, cidr=CIDR, gateway="fd00:5::1", dns=("fd00:53::53",))
OF_VERSION_4 = HostSubnet(id="v4", version=4, cidr="10.5.0.0/24", gateway="10.5.0.1", dhcp_address="10.5.0.2")
OPEN = tuple(HostRule(direction=direction, version=6) for direction in ("egress", "ingress"))
DHCP_MAC, ROUTER_MAC = "fa:16:3e:ff:00:02", "fa:16:3e:44:00:01"
GATEWAY = f"default via {link_local(ROUTER_MAC)} dev eth0"


def port(number: int, address: str = "", *groups: str) -> HostPort:
    mac = f"fa:16:3e:00:00:{number:02x}"
    addresses = (address or from_mac(CIDR, mac), f"10.5.0.{number}")
    return HostPort(
        id=f"{number:08d}-0000-4000-8000-000000000000", mac=mac, server=f"server-{number}", addresses=addresses,
        groups=groups,
    )  # fmt: skip


ONE, TWO = port(11, "", "open"), port(12, "", "open")
LEG = RouterLeg(port="44444444-1", network="n", mac=ROUTER_MAC, addresses=("fd00:5::1/64",))


def state(mode: str, *ports: HostPort, serves: bool = True, **fields: object) -> HostNetworks:
    """Return a network with one subnet of IPv6, which a router announces."""
    subnet = replace(SUBNET, ra_mode=mode, dhcpv6_address="fd00:5::2" if serves else "")
    network = HostNetwork(
        id="11111111-0000-4000-8000-000000000000", mtu=1400, dhcp_mac=DHCP_MAC, subnets=(OF_VERSION_4, subnet),
        ports=ports,
    )  # fmt: skip
    router = HostRouter(id="66666666-0000-4000-8000-000000000000", legs=(replace(LEG, network=network.id),))
    return HostNetworks(networks=(network,), routers=(router,), rules={"open": OPEN}, **fields)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def running() -> Iterator[PlaneHost]:
    if not shutil.which("dhclient", path="/usr/sbin:/usr/bin:/sbin:/bin"):
        missing("there is no command dhclient", "apt-get install isc-dhcp-client")
    with plane_host() as host:
        yield host


@pytest.fixture
def host(running: PlaneHost) -> Iterator[PlaneHost]:
    """Return a host without networks."""
    running.apply(HostNetworks())
    yield running
    for guest in running.guests:
        guest.close()
    running.guests.clear()


def own_addresses(shown: str) -> set[str]:
    """Return the global addresses among what the kernel shows."""
    return {line.split()[3] for line in shown.splitlines() if " inet6 " in line and "scope global" in line}


def test_with_slaac_a_guest_makes_its_address_and_learns_its_router(host: PlaneHost) -> None:
    host.apply(state("slaac", ONE, TWO, serves=False))
    guest = host.guest(ONE)
    assert GATEWAY in guest.shows(GATEWAY)
    assert own_addresses(guest.shows(f"{ONE.addresses[0]}/64")) == {f"{ONE.addresses[0]}/64"}
    assert guest.run("cat", "/proc/sys/net/ipv6/conf/eth0/mtu") == "1400\n"
    guest.run("busybox", "ping", "-6", "-c", "1", "-W", "60", "fd00:5::1")
    assert ip_address("fd00:53::53").packed in guest.advertisement()


def test_with_dhcpv6_stateless_the_rest_is_asked_for(host: PlaneHost) -> None:
    host.apply(state("dhcpv6-stateless", ONE))
    guest = host.guest(ONE)
    assert own_addresses(guest.shows(f"{ONE.addresses[0]}/64")) == {f"{ONE.addresses[0]}/64"}
    assert guest.dhcpv6("-S") == "address= dns=fd00:53::53\n"


def test_with_dhcpv6_stateful_a_guest_gets_the_address_of_its_port(host: PlaneHost) -> None:
    ports = port(11, "fd00:5::b"), port(12, "fd00:5::c")
    host.apply(state("dhcpv6-stateful", *ports))
    guests = [host.guest(each) for each in ports]
    for guest in guests:
        shown = guest.shows(GATEWAY)
        assert own_addresses(shown) == set()  # nothing by itself
        assert guest.dhcpv6() == f"address={guest.port.addresses[0]} dns=fd00:53::53\n"
        guest.run("busybox", "ping", "-6", "-c", "1", "-W", "60", "fd00:5::2")
        assert f"address={guest.port.addresses[1]} " in guest.dhcp()


MARKER = b"marked packet"


def test_a_guest_does_not_play_the_router(host: PlaneHost) -> None:
    """Whatever its groups allow, no advertisement and no answer of DHCPv6 reaches another guest from it."""
    ports = port(11, "", "open"), port(12, "", "open")
    host.apply(state("slaac", *ports, serves=False))
    liar, other = (host.guest(each) for each in ports)
    for guest in (liar, other):
        guest.shows(GATEWAY)
    usual = b"\x13\x88\0\x16\0\0\0\1\0\0\0\0\x50\2\4\0\0\0\0\0" + MARKER  # TCP: what answers it has no marker
    advertisement = b"\x86\0\0\0\x40\0\7\x08" + bytes(8) + b"\xfe\2" + MARKER + b"\0"
    answer = b"\2\x23\2\x22" + (8 + len(MARKER)).to_bytes(2) + b"\0\0" + MARKER
    frames = [packet(liar, other, *each) for each in ((6, 16, usual), (58, 2, advertisement), (17, 6, answer))]
    stations = bytes.fromhex((other.port.mac + liar.port.mac).replace(":", ""))
    arp = bytes.fromhex("08060001080006040002") + stations[6:] + bytes([10, 5, 0, 11]) + stations[:6]
    assert liar.sends([*frames, stations + arp + bytes([10, 5, 0, 12]) + LAST], other, MARKER) == 1


def packet(sender: PlaneGuest, receiver: PlaneGuest, protocol: int, sum_at: int, body: bytes) -> bytes:
    """Return a frame between two guests. sum_at: where the checksum is in the body."""
    ends = b"".join(ip_address(link_local(each.port.mac)).packed for each in (sender, receiver))
    pseudo = ends + len(body).to_bytes(4) + bytes(3) + bytes([protocol]) + body + bytes(len(body) % 2)
    total = sum(int.from_bytes(pseudo[at : at + 2]) for at in range(0, len(pseudo), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    summed = body[:sum_at] + (total ^ 0xFFFF).to_bytes(2) + body[sum_at + 2 :]
    header = b"\x60\0\0\0" + len(body).to_bytes(2) + bytes([protocol, 255]) + ends
    return bytes.fromhex((receiver.port.mac + sender.port.mac).replace(":", "")) + b"\x86\xdd" + header + summed


METADATA = "http://[fe80::a9fe:a9fe%eth0]/latest/user-data"


def test_metadata_is_served_at_an_address_of_the_link(host: PlaneHost) -> None:
    """A guest is known by its link-local address, before it has another one; by IPv4 it is served as before."""
    host.apply(state("slaac", ONE, TWO, serves=False))
    for each in (ONE, TWO):
        guest = host.guest(each)
        guest.shows(link_local(each.mac))
        assert guest.fetch(METADATA) == f"GET /latest/user-data of {each.server}"
    assert "address=10.5.0.12 " in guest.dhcp()
    assert guest.fetch("http://10.5.0.2/") == "GET / of server-12"


def test_no_guest_answers_for_the_metadata_service(host: PlaneHost) -> None:
    ports = tuple(replace(each, is_secured=False) for each in (ONE, TWO))
    host.apply(state("slaac", *ports, serves=False))
    liar, other = (host.guest(each) for each in ports)
    for guest in (liar, other):
        guest.shows(GATEWAY)
    targets = [ip_address(each).packed for each in ("fe80::a9fe:a9fe", link_local(liar.port.mac))]
    marked = [b"\x88\0\0\0\x20\0\0\0" + target + MARKER + b"\0" * 3 for target in targets]
    last = packet(liar, other, 58, 2, b"\x88\0\0\0\x20\0\0\0" + targets[1] + LAST)
    assert liar.sends([*(packet(liar, other, 58, 2, each) for each in marked), last], other, MARKER) == 1


def test_a_router_has_a_default_route_of_ipv6(host: PlaneHost) -> None:
    """A guest reaches the outside with its own address: the outside has a route back."""
    host.run("ip", "link", "add", "br-ex", "type", "bridge")
    host.run("ip", "addr", "add", "2001:db8::1/64", "dev", "br-ex", "nodad")
    host.run("ip", "addr", "add", "2001:db8:9::1/128", "dev", "lo")
    host.run("ip", "link", "set", "br-ex", "up")
    host.run("ip", "route", "add", CIDR, "via", "2001:db8::10", "dev", "br-ex")
    outside = HostNetwork(
        id="33333333-0000-4000-8000-000000000000", mtu=1500, uplink="br-ex",
        subnets=(HostSubnet(id="x", version=6, cidr="2001:db8::/64", gateway="2001:db8::1"),),
    )  # fmt: skip
    outer = RouterLeg(port="55555555-1", network=outside.id, mac="fa:16:3e:55:00:01", addresses=("2001:db8::10/64",))
    made = state("slaac", ONE, serves=False)
    router = replace(
        made.routers[0], gateway=outer, next_hops=("2001:db8::1",), routes=(("2001:db8:7::/48", "fd00:5::7"),)
    )
    both = replace(made, networks=(*made.networks, outside), routers=(router,))
    try:
        host.apply(both)
        host.apply(both)  # the routes are there
        guest = host.guest(ONE)
        guest.shows(f"{ONE.addresses[0]}/64")
        guest.shows(GATEWAY)
        guest.run("busybox", "ping", "-6", "-c", "1", "-W", "60", "2001:db8:9::1")
        inside = ("nsenter", "--net=/run/netns/wrtr-66666666-0000-4000-8000-000000000000", "ip", "-6", "route")
        assert "2001:db8:7::/48 via fd00:5::7" in host.run(*inside)
        host.apply(replace(both, routers=(replace(router, next_hops=(), routes=()),)))
        assert "proto 187" not in host.run(*inside)
    finally:
        host.apply(HostNetworks())
        host.run("ip", "link", "del", "br-ex")


def test_a_router_that_announces_nothing_more_is_left_in_peace(host: PlaneHost) -> None:
    host.apply(state("slaac", ONE, serves=False))
    assert "routers/66666666" in host.run("ps", "axo", "args")
    silent = state("", ONE, serves=False)
    host.apply(silent)
    assert "--conf-file" in host.run("ps", "axo", "args")  # that of the network
    assert "routers/66666666" not in host.run("ps", "axo", "args")
    host.apply(state("slaac", ONE, serves=False))
    host.apply(replace(silent, routers=()))
    assert "routers/66666666" not in host.run("ps", "axo", "args")


@pytest.mark.parametrize(("mtu", "cidr"), [(1000, "fd00:5::/64"), (1400, "fd00:5::/48"), (1400, "fd00:5::/120")])
def test_a_subnet_that_cannot_be_served_keeps_no_other_from_being_served(host: PlaneHost, mtu: int, cidr: str) -> None:
    made = state("dhcpv6-stateful", port(11, "fd00:5::b"))
    [network] = made.networks
    subnets = tuple(replace(each, cidr=cidr) if each.version == 6 else each for each in network.subnets)
    host.apply(replace(made, networks=(replace(network, mtu=mtu, subnets=subnets),)))
    assert "address=10.5.0.11 " in host.guest(network.ports[0]).dhcp()
