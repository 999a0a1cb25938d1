"""What every store of the network service does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.network import SqlNetworks
from whimbrel.domain.errors import Conflict, NotFound, WorldError
from whimbrel.domain.ip_addresses import Pool
from whimbrel.ports.embedded.network_store import (
    Binding,
    FixedIp,
    Network,
    Port,
    QosPolicy,
    QosRule,
    Query,
    SecurityGroup,
    SecurityGroupRule,
    Segment,
    Subnet,
)
from whimbrel.ports.services import network_errors as errors

OF: dict[str, Any] = {"project_id": "p1", "created_at": 1.5, "updated_at": 1.5}
SEGMENT = Segment(id="s1", network_id="n1", network_type="vlan", physical_network="physnet0", **OF)
NETWORK = Network(id="n1", name="net", segments=(SEGMENT,), tags=("x", "y"), **OF)
SUBNET = Subnet(
    id="sub1", network_id="n1", ip_version=4, cidr="10.0.0.0/29", gateway_ip="10.0.0.1",
    pools=(Pool("10.0.0.2", "10.0.0.4"),), **OF,
)  # fmt: skip
PORT = Port(id="port1", network_id="n1", mac_address="fa:16:3e:00:00:01", fixed_ips=None, **OF)
BINDING = Binding(host="h1", active=True, vnic_type="normal", vif_type="ovs", vif_details={"port_filter": True})

Story = Callable[[SqlNetworks], Awaitable[None]]
Teller = Callable[[Story], None]


@pytest.fixture
async def store(open_store: Opener) -> AsyncIterator[SqlNetworks]:
    """A store that has a network of three addresses."""
    async with open_store("network") as db:
        store = SqlNetworks(db)
        await store.add([NETWORK])
        await store.add([SUBNET])
        yield store


def port(number: int, **changes: Any) -> Port:
    return replace(PORT, **{"id": f"port{number}", "mac_address": f"fa:16:3e:00:00:{number:02x}", **changes})


async def ends(*writes: Awaitable[object]) -> list[str]:
    """Let writes race; return how each ended."""
    results = await asyncio.gather(*writes, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, WorldError):
            raise result
    return [type(result).__name__ if isinstance(result, WorldError) else "done" for result in results]


async def test_a_network_comes_back_with_its_segment_numbered(store: SqlNetworks) -> None:
    found = await store.find(Network, "n1")
    assert found == replace(NETWORK, segments=(replace(SEGMENT, segmentation_id=1),), subnets=("sub1",))
    second = await store.add([replace(NETWORK, id="n2", segments=(replace(SEGMENT, id="s2", network_id="n2"),))])
    assert second[0].segments[0].segmentation_id == 2
    taken = replace(SEGMENT, id="s3", network_id="n3", segmentation_id=2)
    with pytest.raises(errors.VlanIdInUse):
        await store.add([replace(NETWORK, id="n3", segments=(taken,))])
    flat = replace(SEGMENT, id="s4", network_id="n4", network_type="flat")
    await store.add([replace(NETWORK, id="n4", segments=(flat,))])
    with pytest.raises(errors.NoNetworkAvailable):
        await store.add([replace(NETWORK, id="n5", segments=(replace(flat, id="s5", network_id="n5"),))])
    with pytest.raises(errors.NetworkNotFound):
        await store.find(Network, "n3")


async def test_a_change_names_what_it_read(store: SqlNetworks) -> None:
    read = await store.find(Network, "n1")
    changed = await store.change(read, replace(read, name="new", tags=("z",)))
    assert (changed.name, changed.tags, changed.revision) == ("new", ("z",), 1)
    assert await store.find(Network, "n1") == changed
    with pytest.raises(errors.RevisionNumberConstraintFailed):
        await store.change(read, replace(read, name="late"))
    with pytest.raises(NotFound):
        await store.change(replace(read, id="n9"), replace(read, id="n9", name="late"))


async def test_addresses_are_given_out_until_none_is_left(store: SqlNetworks) -> None:
    made = await store.add([port(1), port(2)])
    assert [each.fixed_ips for each in made] == [(FixedIp("sub1", "10.0.0.2"),), (FixedIp("sub1", "10.0.0.3"),)]
    with pytest.raises(errors.IpAddressGenerationFailure):
        await store.add([port(3), port(4)])  # the second finds none, so the first is not there either
    [third] = await store.add([port(3)])
    assert third.fixed_ips == (FixedIp("sub1", "10.0.0.4"),)
    await store.remove(Port, "port1")
    [fourth] = await store.add([port(4)])
    assert fourth.fixed_ips == (FixedIp("sub1", "10.0.0.2"),)
    assert sum(len(each.fixed_ips or ()) for each in await store.search(Port, Query())) == 3


async def test_addresses_that_are_asked_for(store: SqlNetworks) -> None:
    [one] = await store.add([port(1, fixed_ips=(FixedIp("", "10.0.0.6"), FixedIp("sub1")))])
    assert one.fixed_ips == (FixedIp("sub1", "10.0.0.6"), FixedIp("sub1", "10.0.0.2"))
    with pytest.raises(errors.IpAddressAlreadyAllocated):
        await store.add([port(2, fixed_ips=(FixedIp("sub1", "10.0.0.6"),))])
    for nonsense in (FixedIp("sub9"), FixedIp("sub1", "10.0.1.1"), FixedIp("sub1", "10.0.0.7")):
        with pytest.raises(errors.InvalidInput):
            await store.add([port(2, fixed_ips=(nonsense,))])
    [bare] = await store.add([port(2, fixed_ips=())])
    assert bare.fixed_ips == ()
    moved = await store.change(one, replace(one, fixed_ips=(FixedIp("sub1", "10.0.0.5"),)))
    assert moved.fixed_ips == (FixedIp("sub1", "10.0.0.5"),)
    with pytest.raises(errors.MacAddressInUse):
        await store.change(bare, replace(bare, mac_address=one.mac_address))


async def test_an_address_of_each_version(store: SqlNetworks) -> None:
    six = replace(SUBNET, id="sub6", ip_version=6, cidr="2001:db8::/64", gateway_ip=None, ipv6_address_mode="slaac")
    await store.add([replace(six, pools=(Pool("2001:db8::1", "2001:db8::ffff"),))])
    [made] = await store.add([port(1)])
    assert made.fixed_ips == (FixedIp("sub1", "10.0.0.2"), FixedIp("sub6", "2001:db8::f816:3eff:fe00:1"))


async def test_two_at_once_never_get_the_same(store: SqlNetworks) -> None:
    outcome = await ends(*(store.add([port(number)]) for number in range(1, 7)))
    assert sorted(outcome) == ["IpAddressGenerationFailure"] * 3 + ["done"] * 3
    found = await store.search(Port, Query())
    assert {each.fixed_ips for each in found} == {(FixedIp("sub1", f"10.0.0.{last}"),) for last in (2, 3, 4)}
    same = (store.add([port(number, mac_address="fa:16:3e:ff:ff:ff", fixed_ips=())]) for number in range(7, 11))
    assert sorted(await ends(*same)) == ["MacAddressInUse"] * 3 + ["done"]


async def test_networks_that_are_made_at_once_have_segments_of_their_own(store: SqlNetworks) -> None:
    names = [f"m{number}" for number in range(6)]
    tunnels = [replace(SEGMENT, id=f"s-{name}", network_id=name, network_type="vxlan") for name in names]
    pairs = zip(names, tunnels, strict=True)
    assert set(await ends(*(store.add([replace(NETWORK, id=n, segments=(s,))]) for n, s in pairs))) == {"done"}
    found = await store.search(Segment, Query(where={"network_type": ["vxlan"]}))
    assert sorted(each.segmentation_id or 0 for each in found) == [1, 2, 3, 4, 5, 6]


async def test_bindings_and_groups_are_parts_of_a_port(store: SqlNetworks) -> None:
    await store.add([SecurityGroup(id="g1", name="web", **OF), SecurityGroup(id="g2", **OF)])
    [made] = await store.add([port(1, bindings=(BINDING,), security_groups=("g1",), profile={"a": [1]})])
    assert await store.find(Port, "port1") == made
    both = (replace(BINDING, active=False), replace(BINDING, host="h2", profile={"allocation": "rp"}))
    changed = await store.change(made, replace(made, bindings=both, security_groups=("g2",), status="ACTIVE"))
    assert (changed.bindings, changed.security_groups, changed.fixed_ips) == (both, ("g2",), made.fixed_ips)
    with pytest.raises(Conflict):
        await store.change(changed, replace(changed, bindings=tuple(replace(each, active=True) for each in both)))
    assert await store.search(Port, Query(where={"host": ["h2"], "security_group": ["g2"]})) == [changed]
    assert await store.search(Port, Query(where={"host": ["h1"]})) == []
    with pytest.raises(errors.SecurityGroupInUse):
        await store.remove(SecurityGroup, "g2")
    with pytest.raises(errors.SecurityGroupNotFound):
        await store.add([port(2, security_groups=("g9",))])


async def test_what_is_in_use_stays(store: SqlNetworks) -> None:
    await store.add([QosPolicy(id="q1", **OF)])
    await store.add([port(1, qos_policy_id="q1")])
    with pytest.raises(errors.NetworkInUse):
        await store.remove(Network, "n1")
    with pytest.raises(errors.SubnetInUse):
        await store.remove(Subnet, "sub1")
    with pytest.raises(errors.QosPolicyInUse):
        await store.remove(QosPolicy, "q1")
    with pytest.raises(errors.SegmentInUse):
        await store.remove(Segment, "s1")
    await store.remove(Port, "port1")
    await store.remove(Network, "n1")
    for kind, gone in ((Network, "n1"), (Subnet, "sub1"), (Segment, "s1"), (Port, "port1")):
        with pytest.raises(NotFound):
            await store.find(kind, gone)
    await store.remove(QosPolicy, "q1")


async def test_subnets_of_a_network_do_not_overlap(store: SqlNetworks) -> None:
    for cidr in ("10.0.0.0/29", "10.0.0.0/8", "10.0.0.4/30"):
        with pytest.raises(errors.InvalidInput):
            await store.add([replace(SUBNET, id="sub2", cidr=cidr, gateway_ip=None)])
    await store.add([replace(SUBNET, id="sub2", cidr="10.0.0.8/29", gateway_ip=None)])
    at_once = (replace(SUBNET, id=f"sub{n}", cidr="10.1.0.0/24", gateway_ip=None) for n in (3, 4, 5))
    assert sorted(await ends(*(store.add([each]) for each in at_once))) == ["InvalidInput", "InvalidInput", "done"]


async def test_one_default_group_and_rules_that_say_something_new(store: SqlNetworks) -> None:
    rule = SecurityGroupRule(id="r1", security_group_id="g1", direction="egress", ethertype="IPv4", **OF)
    [group] = await store.add([SecurityGroup(id="g1", name="default", is_default=True, rules=(rule,), **OF)])
    assert await store.find(SecurityGroup, "g1") == group
    with pytest.raises(Conflict):
        await store.add([SecurityGroup(id="g2", name="default", is_default=True, **OF)])
    with pytest.raises(errors.SecurityGroupRuleExists):
        await store.add([replace(rule, id="r2")])
    await store.add([replace(rule, id="r2", remote_group_id="g1")])
    await store.remove(SecurityGroup, "g1")
    assert await store.search(SecurityGroupRule, Query()) == []


async def test_a_policy_has_one_rule_of_a_kind_in_a_direction(store: SqlNetworks) -> None:
    await store.add([QosPolicy(id="q1", **OF)])
    rule = QosRule(id="r1", policy_id="q1", type="minimum_bandwidth", direction="egress", amount=10_000_000_000, **OF)
    await store.add([rule])
    await store.add([replace(rule, id="r2", direction="ingress")])
    await store.add([replace(rule, id="r3", type="minimum_packet_rate", direction="any")])
    assert [each.id for each in (await store.find(QosPolicy, "q1")).rules] == ["r1", "r2", "r3"]
    for clash in (replace(rule, id="r4"), replace(rule, id="r4", type="minimum_packet_rate")):
        with pytest.raises(errors.QosRulesConflict):
            await store.add([clash])


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("key", ["name", "created_at", "qos_policy_id", "admin_state_up", "mtu"])
async def test_every_order_is_whole(store: SqlNetworks, key: str, down: bool) -> None:
    await store.add([QosPolicy(id="q1", **OF)])
    for number in range(2, 8):
        odd = bool(number % 2)
        changes = {
            "name": f"n{number // 2}",
            "created_at": float(number // 3),
            "admin_state_up": odd,
            "mtu": number,
        }
        await store.add(
            [replace(NETWORK, id=f"n{number}", segments=(), qos_policy_id="q1" if odd else None, **changes)]
        )
    query = Query(order=[(key, down), ("id", False)])
    everything = await store.search(Network, query)
    assert len(everything) == 7
    paged: list[Network] = []
    while page := await store.search(Network, replace(query, limit=2, after=paged[-1] if paged else None)):
        paged += page
    assert paged == everything


async def test_who_sees_what(store: SqlNetworks) -> None:
    other = {**OF, "project_id": "p2"}
    await store.add([Network(id="n2", shared=True, **other), Network(id="n3", **other)])
    await store.add([port(1), replace(port(2), project_id="p2", fixed_ips=())])
    query = Query(viewer="p1")
    assert [each.id for each in await store.search(Network, query)] == ["n1", "n2"]
    assert [each.id for each in await store.search(Network, Query(viewer="p2"))] == ["n2", "n3"]
    # Whoever owns a network sees who is on it.
    assert [each.id for each in await store.search(Port, query)] == ["port1", "port2"]
    assert [each.id for each in await store.search(Port, Query(viewer="p2"))] == ["port2"]
    assert await store.search(Subnet, Query(viewer="p2")) == []


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ({"tags": ["x", "y"]}, ["n1"]),
        ({"tags-any": ["x", "z"]}, ["n1", "n2"]),
        ({"not-tags": ["x", "y"]}, ["n2", "n3"]),
        ({"not-tags-any": ["x", "z"]}, ["n3"]),
    ],
)
async def test_tags_narrow(store: SqlNetworks, tags: dict[str, list[str]], found: list[str]) -> None:
    await store.add([Network(id="n2", tags=("x",), **OF), Network(id="n3", **OF)])
    assert [each.id for each in await store.search(Network, Query(tags=tags))] == found
    assert [each.id for each in await store.search(Network, Query(where={"physical_network": ["physnet0"]}))] == ["n1"]
