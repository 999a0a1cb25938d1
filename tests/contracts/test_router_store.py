"""The contract of routers, floating IPs and quotas for every store of the network service."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contracts.databases import Opener
from tests.contracts.test_network_store import BINDING, NETWORK, OF, SEGMENT, SUBNET, ends, port
from whimbrel.adapters.sql.network import SqlNetworks
from whimbrel.domain.ip_addresses import Pool
from whimbrel.ports.embedded.network_store import (
    DHCP,
    FLOATING_IP,
    ROUTER_GATEWAY,
    ROUTER_INTERFACE,
    Changed,
    FixedIp,
    FloatingIp,
    Network,
    Port,
    Query,
    Removed,
    Router,
    Subnet,
)
from whimbrel.ports.services import network_errors as errors

ROUTER = Router(id="r1", name="r", **OF)
PUBLIC = replace(
    NETWORK, id="n2", project_id="p0", external=True, segments=(replace(SEGMENT, id="s2", network_id="n2"),)
)
POOL = (Pool("192.0.2.10", "192.0.2.14"),)
OUTSIDE = replace(SUBNET, id="sub2", network_id="n2", cidr="192.0.2.0/24", gateway_ip="192.0.2.1", pools=POOL)
FLOATING = FloatingIp(id="f1", floating_network_id="n2", floating_port_id="port30", **OF)


def of_router(number: int, owner: str, **changes: Any) -> Port:
    return port(number, device_id="r1", device_owner=owner, **changes)


INTERFACE = of_router(10, ROUTER_INTERFACE, fixed_ips=(FixedIp("sub1", "10.0.0.1"),))
GATEWAY = of_router(20, ROUTER_GATEWAY, network_id="n2", project_id="")
HOLDER = port(30, network_id="n2", project_id="", device_id="f1", device_owner=FLOATING_IP)


@pytest.fixture
async def store(open_store: Opener) -> AsyncIterator[SqlNetworks]:
    """A store with a private and an external network, a router between them, and a port on the private one."""
    async with open_store("network") as db:
        store = SqlNetworks(db)
        await store.add([NETWORK, PUBLIC])
        await store.add([SUBNET, OUTSIDE])
        await store.write([ROUTER, GATEWAY, INTERFACE, port(1, bindings=(BINDING,))])
        yield store


async def associated(store: SqlNetworks) -> FloatingIp:
    _, made = await store.write([HOLDER, replace(FLOATING, fixed_port_id="port1")])
    assert isinstance(made, FloatingIp)
    return made


async def test_writes_happen_together_or_not_at_all(store: SqlNetworks) -> None:
    other = replace(ROUTER, id="r2")
    with pytest.raises(errors.PortNotFound):
        await store.write([other, Changed(ROUTER, replace(ROUTER, name="new")), Removed(Port, "port99")])
    assert await store.search(Router, Query()) == [ROUTER]
    with pytest.raises(errors.RouterNotFound):
        await store.add([replace(INTERFACE, id="port11", mac_address="fa:16:3e:00:00:11", device_id="r9")])


async def test_a_router_reaches_a_subnet_once(store: SqlNetworks) -> None:
    again = of_router(11, ROUTER_INTERFACE, fixed_ips=(FixedIp("sub1", "10.0.0.4"),))
    with pytest.raises(errors.BadRequest, match="already has a port on subnet sub1"):
        await store.add([again])
    overlapping = []
    for number in (3, 4):
        network, subnet = f"n{number}", f"sub{number}"
        await store.add(
            [replace(NETWORK, id=network, segments=(replace(SEGMENT, id=f"s{number}", network_id=network),))]
        )
        await store.add([replace(SUBNET, id=subnet, network_id=network, cidr="10.9.0.0/24", gateway_ip=None)])
        address = (FixedIp(subnet, "10.9.0.9"),)
        overlapping.append(of_router(number, ROUTER_INTERFACE, network_id=network, fixed_ips=address))
    assert sorted(await ends(*(store.add([each]) for each in overlapping))) == ["BadRequest", "done"]


async def test_an_association_finds_its_router_and_its_address(store: SqlNetworks) -> None:
    made = await associated(store)
    assert (made.floating_ip_address, made.fixed_ip_address) == ("192.0.2.11", "10.0.0.2")
    assert (made.router_id, made.status) == ("r1", "ACTIVE")
    assert await store.search(FloatingIp, Query(where={"status": ["ACTIVE"]})) == [made]
    assert await store.search(FloatingIp, Query(where={"status": ["DOWN"]})) == []
    second = replace(HOLDER, id="port31", mac_address="fa:16:3e:00:00:31")
    another = replace(FLOATING, id="f2", floating_port_id="port31", fixed_port_id="port1")
    with pytest.raises(errors.FloatingIPPortAlreadyAssociated):
        await store.write([second, another])
    with pytest.raises(errors.BadRequest, match="does not have fixed ip"):
        await store.write([second, replace(another, fixed_ip_address="10.0.0.9")])
    _, idle = await store.write([second, replace(another, fixed_port_id=None)])
    assert (idle.router_id, idle.status) == (None, "DOWN")
    taken = await store.change(made, replace(made, fixed_port_id=None))
    assert (taken.fixed_ip_address, taken.router_id) == (None, None)
    moved = await store.change(idle, replace(idle, fixed_port_id="port1"))
    assert moved.router_id == "r1"


async def test_a_router_serves_its_floating_ips(store: SqlNetworks) -> None:
    made = await associated(store)
    with pytest.raises(errors.RouterInterfaceInUseByFloatingIP):
        await store.remove(Port, INTERFACE.id)
    with pytest.raises(errors.RouterExternalGatewayInUseByFloatingIp):
        await store.remove(Port, GATEWAY.id)
    with pytest.raises(errors.RouterInUse, match=INTERFACE.id):
        await store.remove(Router, "r1")
    with pytest.raises(errors.ExternalNetworkInUse):
        await store.change(PUBLIC, replace(PUBLIC, external=False))
    with pytest.raises(errors.GatewayIpInUse):
        await store.change(SUBNET, replace(SUBNET, gateway_ip=None))
    await store.change(SUBNET, replace(SUBNET, name="new"))
    await store.change(made, replace(made, fixed_port_id=None))
    await store.write([Removed(Port, INTERFACE.id), Removed(Port, GATEWAY.id), Removed(Router, "r1")])
    unreachable = await store.find(FloatingIp, "f1")
    with pytest.raises(errors.ExternalGatewayForFloatingIPNotFound):
        await store.change(unreachable, replace(unreachable, fixed_port_id="port1"))


async def test_an_address_that_goes_takes_its_association_with_it(store: SqlNetworks) -> None:
    await associated(store)
    before = await store.find(Port, "port1")
    more = await store.change(before, replace(before, fixed_ips=(*(before.fixed_ips or ()), FixedIp("sub1"))))
    assert (await store.find(FloatingIp, "f1")).fixed_port_id == "port1"
    await store.change(more, replace(more, fixed_ips=more.fixed_ips[1:] if more.fixed_ips else ()))
    gone = await store.find(FloatingIp, "f1")
    assert (gone.fixed_port_id, gone.router_id, gone.status) == (None, None, "DOWN")
    await store.change(gone, replace(gone, fixed_port_id="port1"))
    await store.remove(Port, "port1")
    assert (await store.find(FloatingIp, "f1")).router_id is None


async def test_a_network_takes_its_idle_ports_with_it(store: SqlNetworks) -> None:
    await store.add([port(2, device_owner=DHCP)])
    await store.write([HOLDER, FLOATING])
    await store.write([Removed(Port, each) for each in ("port1", INTERFACE.id, GATEWAY.id)])
    await store.remove(Subnet, "sub1")
    assert (await store.find(Port, "port2")).fixed_ips == ()
    await store.write([Removed(Network, "n1"), Removed(Network, "n2")])
    assert await store.search(FloatingIp, Query()) == await store.search(Port, Query()) == []


async def test_everybody_sees_an_external_network(store: SqlNetworks) -> None:
    seen = [each.id for each in await store.search(Network, Query(viewer="p9"))]
    assert seen == ["n2"]
    assert [each.id for each in await store.search(Subnet, Query(viewer="p9"))] == ["sub2"]
    assert await store.search(Port, Query(viewer="p9")) == []


async def test_a_quota_holds_for_those_who_come_at_once(store: SqlNetworks) -> None:
    await store.set_quota("p1", {"router": 3, "port": 2})
    outcome = await ends(*(store.add([replace(ROUTER, id=f"q{n}")]) for n in range(5)))
    assert sorted(outcome) == ["OverQuota"] * 3 + ["done"] * 2
    with pytest.raises(errors.OverQuota, match="'port', 'router'"):
        await store.write([replace(ROUTER, id="q9"), port(3)])
    await store.set_quota("p1", {"router": -1})
    assert await store.quota("p1") == {"router": -1, "port": 2}
    await store.add([replace(ROUTER, id="q9")])
    assert (await store.usage("p1"))["router"] == 4
    assert (await store.limited_projects(), await store.quota("p2")) == (["p1"], {})
    await store.set_quota("p1", None)
    assert await store.limited_projects() == []
