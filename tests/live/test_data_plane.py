"""The networks of a host: addresses by DHCP, security groups, anti-spoofing, metadata, and repair after a kill."""

import contextlib
import subprocess
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.live.plane_hosts import DENIED_S, LAST, PlaneGuest, PlaneHost, only, plane_host
from tests.processes import execute
from whimbrel.adapters.host_network import names
from whimbrel.adapters.host_network.packet_rules import PROTOCOLS
from whimbrel.domain.host_networks import (
    AddressPair,
    HostNetwork,
    HostNetworks,
    HostPort,
    HostRouter,
    HostRule,
    HostSubnet,
    RouterLeg,
)
from whimbrel.domain.server_devices import tap_name

EGRESS = HostRule(direction="egress", version=4)
SSH = HostRule(direction="ingress", version=4, protocol="tcp", first=22, last=22)
FROM_MEMBERS = HostRule(direction="ingress", version=4, protocol="udp", first=5000, last=5100, group="peers")
RULES = {"web": (EGRESS, SSH), "peers": (EGRESS, FROM_MEMBERS)}
METADATA = "http://169.254.169.254/openstack/latest/meta_data.json"
HERE = {"lo"}


def port(number: int, *groups: str, address: str = "10.5.0.{}", **fields: object) -> HostPort:
    return HostPort(
        id=f"{number:08d}-0000-4000-8000-000000000000",
        mac=f"fa:16:3e:00:00:{number:02x}",
        server=f"server-{number}",
        addresses=(address.format(number),),
        groups=groups,
        **fields,  # type: ignore[arg-type]
    )


SUBNET = HostSubnet(
    id="s", version=4, cidr="10.5.0.0/24", gateway="10.5.0.1", dhcp_address="10.5.0.2",
    dns=("192.0.2.53",), routes=(("10.9.0.0/16", "10.5.0.77"),),
)  # fmt: skip
ONE, TWO, THREE = port(11, "web"), port(12, "peers"), port(13, "web", "peers")
NETWORK = HostNetwork(
    id="11111111-0000-4000-8000-000000000000", mtu=1400, dhcp_mac="fa:16:3e:ff:00:02",
    subnets=(SUBNET,), ports=(ONE, TWO, THREE),
)  # fmt: skip
STATE = only(NETWORK, rules=RULES, members={"peers": ("10.5.0.12", "10.5.0.13")})


@pytest.fixture(scope="module")
def running() -> Iterator[PlaneHost]:
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


def with_address(host: PlaneHost, *ports: HostPort) -> list[PlaneGuest]:
    guests = [host.guest(each) for each in ports]
    for guest in guests:
        guest.has(f"{guest.port.addresses[0]}/24", "10.5.0.1")
    return guests


def test_a_guest_gets_its_address_and_its_metadata(host: PlaneHost) -> None:
    host.apply(STATE)
    guest, other = host.guest(ONE), host.guest(TWO)
    told = guest.dhcp()
    assert "address=10.5.0.11 " in told
    for route in ("169.254.169.254/32 10.5.0.2", "10.9.0.0/16 10.5.0.77", "0.0.0.0/0 10.5.0.1"):
        assert route in told
    assert "dns=192.0.2.53 mtu=1400" in told
    assert "address=10.5.0.12 " in other.dhcp()
    assert guest.fetch(METADATA) == "GET /openstack/latest/meta_data.json of server-11"
    assert other.fetch("http://10.5.0.2/latest/user-data") == "GET /latest/user-data of server-12"


def test_a_network_may_have_every_mtu_and_size(host: PlaneHost) -> None:
    for mtu, cidr, address in ((65_000, "10.0.0.0/8", "10.0.0.2"), (68, "10.5.0.0/31", "10.5.0.1")):
        subnet = replace(SUBNET, cidr=cidr, dhcp_address=address)
        network = replace(NETWORK, mtu=mtu, subnets=(subnet,), number=5, peers=("192.0.2.9",))
        host.apply(replace(STATE, networks=(network,), tunnel_address="192.0.2.8"))


def test_metadata_is_reached_by_the_default_route(host: PlaneHost) -> None:
    host.apply(STATE)
    [guest] = with_address(host, ONE)
    guest.run("ip", "neigh", "replace", "10.5.0.1", "lladdr", "fa:16:3e:99:99:99", "dev", "eth0")
    assert guest.fetch(METADATA).endswith("of server-11")


def test_security_groups_let_through_what_they_say(host: PlaneHost) -> None:
    host.apply(STATE)
    web, peer, both = with_address(host, ONE, TWO, THREE)
    for guest in (web, peer, both):
        guest.listens("tcp", 22)
        guest.listens("udp", 5050)
    assert peer.hears("10.5.0.11", 22) == "10.5.0.12"
    assert web.is_denied("10.5.0.12", 22)
    assert both.hears("10.5.0.12", 5050, "udp") == "10.5.0.13"
    assert web.is_denied("10.5.0.12", 5050, "udp")  # it is no member
    assert web.is_denied("10.5.0.13", 5050, "udp")
    # Rules change while guests run.
    closed = {**RULES, "web": (EGRESS,)}
    host.apply(replace(STATE, rules=closed, members={"peers": ("10.5.0.11", "10.5.0.12")}))
    assert peer.is_denied("10.5.0.11", 22)
    assert web.hears("10.5.0.12", 5050, "udp") == "10.5.0.11"
    assert both.is_denied("10.5.0.12", 5050, "udp")


def test_every_rule_that_a_user_can_make_is_loaded(host: PlaneHost) -> None:
    """One that nft refuses would keep all rules of its network from being changed."""
    every = [
        HostRule(direction=direction, version=version, protocol=protocol, remote=remote, first=first, last=last)
        for version, remotes in ((4, ("", "0.0.0.0/0", "192.0.2.1/32")), (6, ("", "::/0", "fd00::/8")))
        for direction in ("ingress", "egress")
        for remote in remotes
        for protocol in ("", *PROTOCOLS, "0", "255")
        for first, last in ((None, None), (1, 255), (8, None))
        if first is None or (protocol in ("tcp", "udp", "sctp", "dccp", "udplite") and last) or "icmp" in protocol
    ]
    pairs = (AddressPair(ip="10.5.0.99/24"), AddressPair(ip="fd00::1/64"), AddressPair(ip="0.0.0.0/0"))
    odd = replace(ONE, pairs=pairs, groups=("odd",), addresses=("10.5.0.11", "fd00::11"))
    bare = replace(TWO, groups=(), addresses=())
    members = {"odd": ("10.5.0.0/24", "10.5.0.11", "10.5.0.0/25", "fd00::11")}
    every.append(HostRule(direction="ingress", version=4, group="odd"))
    host.apply(only(replace(NETWORK, ports=(odd, bare)), rules={"odd": tuple(every)}, members=members))


def test_forged_packets_are_dropped(host: PlaneHost) -> None:
    everything = {"open": (EGRESS, HostRule(direction="ingress", version=4))}
    honest = port(11, "open")
    forger = port(12, "open")
    host.apply(only(replace(NETWORK, ports=(honest, forger)), rules=everything))
    target, guest = with_address(host, honest, forger)
    target.listens("tcp", 80)
    assert guest.hears("10.5.0.11", 80) == "10.5.0.12"
    guest.has("10.5.0.66/24")
    assert guest.is_denied("10.5.0.11", 80, source="10.5.0.66")
    allowed = replace(forger, pairs=(AddressPair(ip="10.5.0.64/28"),))
    host.apply(only(replace(NETWORK, ports=(honest, allowed)), rules=everything))
    assert guest.hears("10.5.0.11", 80, source="10.5.0.66") == "10.5.0.66"
    guest.run("ip", "link", "set", "eth0", "address", "fa:16:3e:00:00:77")
    assert guest.is_denied("10.5.0.11", 80, source="10.5.0.12")
    host.apply(only(replace(NETWORK, ports=(honest, replace(forger, is_secured=False))), rules=everything))
    assert guest.hears("10.5.0.11", 80, source="10.5.0.66") == "10.5.0.66"
    guest.run("ip", "link", "set", "eth0", "address", forger.mac)
    assert guest.fetch("http://10.5.0.2/") == "GET / of server-12"


def test_a_vlan_tag_leads_around_no_security_group(host: PlaneHost) -> None:
    """Connections of tagged frames are not followed, so none may pass."""
    host.apply(only(replace(NETWORK, ports=(port(11, "open"), port(12, "open"))), rules={"open": (EGRESS,)}))
    sender, receiver = with_address(host, *(port(11), port(12)))
    for guest in (sender, receiver):
        assert guest.fetch("http://10.5.0.2/")  # from now on no frame is lost
    stations = bytes.fromhex((receiver.port.mac + sender.port.mac).replace(":", ""))
    sender_ip, receiver_ip, marker = bytes([10, 5, 0, 11]), bytes([10, 5, 0, 12]), b"marked packet"
    packet = bytes.fromhex("45000029000040004011") + b"\0\0" + sender_ip + receiver_ip
    packet += bytes.fromhex("1388138800150000") + marker
    arp = bytes.fromhex("08060001080006040002") + stations[6:] + sender_ip + stations[:6] + receiver_ip
    plain, tagged = b"\x08\x00" + packet, b"\x81\x00\x00\x05\x08\x00" + packet
    frames = [stations + each for each in (plain, tagged, arp + marker, arp + LAST)]
    assert sender.sends(frames, receiver, marker) == 1


def test_addresses_of_networks_may_overlap(host: PlaneHost) -> None:
    other = replace(NETWORK, id="22222222-0000-4000-8000-000000000000", ports=(port(21, "web", address="10.5.0.11"),))
    host.apply(HostNetworks(networks=(NETWORK, other), rules=RULES, members=STATE.members))
    first, second = with_address(host, ONE, other.ports[0])
    assert first.fetch("http://10.5.0.2/") == "GET / of server-11"
    assert second.fetch("http://10.5.0.2/") == "GET / of server-21"
    first.listens("tcp", 22)
    assert second.is_denied("10.5.0.12", 22)


def test_what_is_not_wanted_is_removed_and_nothing_else(host: PlaneHost) -> None:
    host.run("ip", "tuntap", "add", "tapforeign", "mode", "tap")
    host.run("ip", "netns", "add", "foreign")
    host.apply(STATE)
    assert {tap_name(ONE.id), names.outer(ONE.id), "tapforeign"} < host.devices()
    guest = host.guest(ONE)
    host.apply(only(replace(NETWORK, ports=(TWO,)), rules=RULES))
    assert tap_name(ONE.id) in host.devices()  # the guest has it open, and reaches nothing
    assert names.outer(ONE.id) not in host.devices()
    guest.close()
    host.apply(HostNetworks())
    assert host.devices() == HERE | {"tapforeign"}
    assert host.namespaces() == {"foreign"}
    assert "--conf-file" not in host.run("ps", "axo", "args")
    host.run("ip", "link", "del", "tapforeign")
    host.run("ip", "netns", "del", "foreign")


@pytest.mark.parametrize("after_s", [0.05, 0.15, 0.3])
def test_a_killed_agent_leaves_a_host_that_the_next_one_makes_right(host: PlaneHost, after_s: float) -> None:
    plane = host.begin(STATE)
    with contextlib.suppress(subprocess.TimeoutExpired):
        plane.wait(after_s)
    host.kill()
    host.apply(STATE)
    guest = host.guest(ONE)
    assert "address=10.5.0.11 " in guest.dhcp()
    assert guest.fetch(METADATA).endswith("of server-11")


def test_a_router_translates_addresses(host: PlaneHost) -> None:
    """A guest reaches the outside with the gateway's address, and is reached by its floating IP, and by that alone."""
    host.run("ip", "link", "add", "br-ex", "type", "bridge")
    host.run("ip", "addr", "add", "172.24.4.1/24", "dev", "br-ex")
    host.run("ip", "link", "set", "br-ex", "up")
    outside = HostNetwork(
        id="33333333-0000-4000-8000-000000000000", mtu=1500, uplink="br-ex",
        subnets=(HostSubnet(id="x", version=4, cidr="172.24.4.0/24", gateway="172.24.4.1"),),
    )  # fmt: skip
    inner = RouterLeg(port="44444444-1", network=NETWORK.id, mac="fa:16:3e:44:00:01", addresses=("10.5.0.1/24",))
    outer = RouterLeg(port="55555555-1", network=outside.id, mac="fa:16:3e:55:00:01", addresses=("172.24.4.10/24",))
    router = HostRouter(
        id="66666666-0000-4000-8000-000000000000", legs=(inner,), gateway=outer, next_hops=("172.24.4.1",),
        translates=True, floating=(("172.24.4.50", "10.5.0.11"),),
    )  # fmt: skip
    networks = HostNetworks(networks=(NETWORK, outside), rules=RULES, members=STATE.members, routers=(router,))
    host.apply(networks)
    floating, plain = with_address(host, ONE, TWO)
    floating.listens("tcp", 22)
    listener = host.listens("tcp", 7000)
    try:
        assert floating.hears("172.24.4.1", 7000) == "172.24.4.50"
        assert plain.hears("172.24.4.1", 7000) == "172.24.4.10"
        assert host.hears("172.24.4.50", 22) == "172.24.4.1"
        assert plain.hears("172.24.4.50", 22) == "172.24.4.10"  # by the router, so that the answer comes back by it
        host.apply(replace(networks, routers=(replace(router, floating=()),)))
        assert host.hears("172.24.4.50", 22, DENIED_S) == "nothing"
        host.apply(HostNetworks())
        assert host.namespaces() == set()
        assert not [each for each in host.devices() if each.startswith("w")]
    finally:
        listener.kill()
        listener.wait()
        host.run("ip", "link", "del", "br-ex")


def test_a_tunnel_joins_the_parts_of_a_network_on_two_hosts() -> None:
    with plane_host() as one, plane_host() as two:
        ends = [f"under netns {host.pid}" for host in (one, two)]
        execute(f"ip link add {ends[0]} type veth peer name {ends[1]}".split())
        for host, address in ((one, "192.0.2.1"), (two, "192.0.2.2")):
            host.run("ip", "addr", "add", f"{address}/24", "dev", "under")
            host.run("ip", "link", "set", "under", "up")
        here = replace(NETWORK, number=77, ports=(ONE,), peers=("192.0.2.2",))
        there = replace(NETWORK, number=77, ports=(TWO,), peers=("192.0.2.1",))
        one.apply(replace(STATE, networks=(here,), tunnel_address="192.0.2.1"))
        two.apply(replace(STATE, networks=(there,), tunnel_address="192.0.2.2"))
        web, peer = one.guest(ONE), two.guest(TWO)
        assert "address=10.5.0.11 " in web.dhcp()
        assert "address=10.5.0.12 " in peer.dhcp()
        web.listens("tcp", 22)
        assert peer.hears("10.5.0.11", 22) == "10.5.0.12"
        assert web.is_denied("10.5.0.12", 22)
        assert web.fetch("http://10.5.0.2/") == "GET / of server-11"
        assert peer.fetch("http://10.5.0.2/") == "GET / of server-12"
