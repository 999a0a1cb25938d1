"""The networks that hosts receive, from every kind of database."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contracts.databases import Opener
from tests.given_nics import GivenNics
from whimbrel.adapters.clock import RandomIds, SystemClock
from whimbrel.adapters.sql.network import SqlNetworks
from whimbrel.domain.host_networks import AddressPair, HostNetworks, HostRule
from whimbrel.domain.host_nics import HostNet, HostNic
from whimbrel.domain.ids import HostName
from whimbrel.domain.ip_addresses import Pool, from_mac
from whimbrel.embedded.network.host_network_states import StoredNetworks
from whimbrel.ports.embedded.network_store import (
    DHCP,
    ROUTER_GATEWAY,
    ROUTER_INTERFACE,
    Binding,
    FixedIp,
    Network,
    Port,
    Query,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Segment,
    Subnet,
)

OF: dict[str, Any] = {"project_id": "p1", "created_at": 1.5, "updated_at": 1.5}
TUNNEL = Segment(id="s1", network_id="n1", network_type="vxlan", segmentation_id=77, **OF)
FLAT = Segment(id="s2", network_id="n2", network_type="flat", physical_network="outside", **OF)
NETWORK = Network(id="n1", segments=(TUNNEL,), mtu=1400, **OF)
OUTSIDE = Network(id="n2", segments=(FLAT,), external=True, **OF)
SUBNET = Subnet(
    id="sub1", network_id="n1", ip_version=4, cidr="10.0.0.0/24", gateway_ip="10.0.0.1",
    pools=(Pool("10.0.0.10", "10.0.0.20"),), dns_nameservers=("192.0.2.53",),
    host_routes=({"destination": "10.9.0.0/16", "nexthop": "10.0.0.7"},), **OF,
)  # fmt: skip
OUTER = replace(
    SUBNET, id="sub2", network_id="n2", cidr="192.0.2.0/24", gateway_ip="192.0.2.1", enable_dhcp=False,
    pools=(Pool("192.0.2.10", "192.0.2.20"),), host_routes=(),
)  # fmt: skip
ONE, TWO, FOREIGN = HostName("h1"), HostName("h2"), HostName("h3")
CARD = HostNic(name="br-ex", physnet="outside")
HOSTS = (
    HostNet(host=ONE, cards=(CARD,), guest_nics="bridge", tunnel_address="10.77.0.1"),
    HostNet(host=TWO, guest_nics="bridge", tunnel_address="10.77.0.2"),
    HostNet(host=FOREIGN),
)
GROUP = SecurityGroup(
    id="g1",
    rules=(
        SecurityGroupRule(
            id="r1", security_group_id="g1", direction="ingress", ethertype="IPv4", protocol="tcp",
            port_range_min=22, port_range_max=22, remote_group_id="g1", **OF,
        ),
        SecurityGroupRule(
            id="r2", security_group_id="g1", direction="ingress", ethertype="IPv4", remote_ip_prefix="10.2.3.4/24", **OF
        ),
    ),
    **OF,
)  # fmt: skip


class Stored:
    def __init__(self, store: SqlNetworks) -> None:
        self.store = store
        self._states = StoredNetworks(store, GivenNics(HOSTS), SystemClock(), RandomIds())

    async def of(self, host: HostName) -> HostNetworks:
        return await self._states.state(host)

    async def add_port(self, number: int, *hosts: HostName, **fields: Any) -> None:
        bindings = tuple(
            Binding(host=host, active=host == hosts[0], vnic_type="normal", vif_type="ovs") for host in hosts
        )
        common: dict[str, Any] = {
            "network_id": "n1", "device_id": f"server-{number}", "device_owner": "compute:nova",
            "fixed_ips": (FixedIp("sub1", f"10.0.0.{number}"),), "security_groups": ("g1",), **OF,
        }  # fmt: skip
        mac = f"fa:16:3e:00:00:{number:02x}"
        await self.store.add([Port(id=f"port{number}", mac_address=mac, bindings=bindings, **common | fields)])


@pytest.fixture
async def stored(open_store: Opener) -> AsyncIterator[Stored]:
    async with open_store("network") as db:
        stored = Stored(SqlNetworks(db))
        await stored.store.add([NETWORK, OUTSIDE])
        await stored.store.add([SUBNET, OUTER])
        await stored.store.add([GROUP])
        yield stored


async def test_a_host_hears_of_its_ports_only(stored: Stored) -> None:
    pairs = ({"ip_address": "10.0.0.99", "mac_address": "fa:16:3e:00:00:99"},)
    unusable = ({"ip_address": "10.0.0.0/99"}, {"ip_address": "fe80::1%x"})  # stored by an older release
    await stored.add_port(11, ONE, allowed_address_pairs=(*pairs, *unusable))
    await stored.add_port(12, TWO)
    await stored.add_port(13, TWO, ONE, device_owner="compute:other")  # it is being moved
    state = await stored.of(ONE)
    [network] = state.networks
    assert [port.server for port in network.ports] == ["server-11", "server-13"]
    assert network.ports[0].pairs == (AddressPair(ip="10.0.0.99", mac="fa:16:3e:00:00:99"),)
    assert (network.mtu, network.number, network.peers, state.tunnel_address) == (1400, 77, ("10.77.0.2",), "10.77.0.1")
    rule = HostRule(direction="ingress", version=4, protocol="tcp", first=22, last=22, group="g1")
    near = HostRule(direction="ingress", version=4, remote="10.2.3.0/24")
    assert state.rules == {"g1": (rule, near)}
    assert state.members == {"g1": ("10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.99")}
    assert await stored.of(FOREIGN) == HostNetworks()


@pytest.mark.parametrize(
    ("address_mode", "ra_mode", "address"),
    [
        ("dhcpv6-stateful", "dhcpv6-stateful", "fd00::10"),
        ("dhcpv6-stateless", "dhcpv6-stateless", "made"),
        (None, None, "fd00::10"),
        ("slaac", "slaac", ""),
        (None, "dhcpv6-stateful", ""),  # the server is another one
    ],
)
async def test_a_subnet_of_version_6_has_a_dhcp_server_as_its_modes_say(
    stored: Stored, address_mode: str | None, ra_mode: str | None, address: str
) -> None:
    six = replace(
        SUBNET, id="sub6", ip_version=6, cidr="fd00::/64", gateway_ip="fd00::1", pools=(Pool("fd00::10", "fd00::20"),),
        host_routes=(), ipv6_address_mode=address_mode, ipv6_ra_mode=ra_mode,
    )  # fmt: skip
    await stored.store.add([six])
    await stored.add_port(11, ONE)
    [network] = (await stored.of(ONE)).networks
    four, told = network.subnets
    expected = from_mac(six.cidr, network.dhcp_mac) if address == "made" else address
    assert (told.dhcpv6_address, told.dhcp_address, told.ra_mode) == (expected, "", ra_mode or "")
    assert (four.dhcp_address, four.dhcpv6_address) == ("10.0.0.10", "")
    [port] = await stored.store.search(Port, Query(where={"device_owner": [DHCP]}))
    assert len(port.fixed_ips or ()) == 1 + bool(address)


async def test_all_hosts_answer_at_the_address_of_one_dhcp_port(stored: Stored) -> None:
    assert await stored.of(ONE) == HostNetworks(tunnel_address="10.77.0.1")
    await stored.add_port(11, ONE)
    await stored.add_port(12, TWO)
    states = [await stored.of(host) for host in (ONE, TWO, ONE)]
    [port] = await stored.store.search(Port, Query(where={"device_owner": [DHCP]}))
    address = (port.fixed_ips or ())[0].ip_address
    assert {network.dhcp_mac for state in states for network in state.networks} == {port.mac_address}
    assert {network.subnets[0].dhcp_address for state in states for network in state.networks} == {address}
    assert states[0].digest() == states[2].digest()
    assert states[0].networks[0].subnets[0].routes == (("10.9.0.0/16", "10.0.0.7"),)


async def test_a_network_with_its_dhcp_port_can_be_removed(stored: Stored) -> None:
    await stored.add_port(11, ONE)
    await stored.of(ONE)
    await stored.store.remove(Port, "port11")
    await stored.store.remove(Network, "n1")
    assert await stored.of(ONE) == HostNetworks(tunnel_address="10.77.0.1")


async def test_a_router_is_on_one_host_that_reaches_its_gateway(stored: Stored) -> None:
    await stored.store.add([Router(id="r1", **OF)])
    await stored.add_port(12, TWO)
    inner = {"device_id": "r1", "device_owner": ROUTER_INTERFACE, "security_groups": ()}
    await stored.add_port(1, **inner)
    outer = (FixedIp("sub2", "192.0.2.10"),)
    await stored.add_port(10, **{**inner, "device_owner": ROUTER_GATEWAY, "network_id": "n2", "fixed_ips": outer})
    [router] = (await stored.of(ONE)).routers
    assert router.legs[0].addresses == ("10.0.0.1/24",)
    assert router.gateway
    assert (router.gateway.addresses, router.next_hops, router.translates) == (("192.0.2.10/24",), ("192.0.2.1",), True)
    networks = {network.id: network for network in (await stored.of(ONE)).networks}
    assert (networks["n2"].uplink, networks["n1"].peers) == ("br-ex", ("10.77.0.2",))
    there = await stored.of(TWO)
    assert there.routers == ()
    assert there.networks[0].peers == ("10.77.0.1",)  # where its router is
