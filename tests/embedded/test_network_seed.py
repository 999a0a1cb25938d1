"""The network that a new cloud starts with: on what all hosts reach, and the same however often a start is begun."""

from collections.abc import Sequence

import pytest

from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.network import SqlNetworks
from whimbrel.domain.host_nics import HostNet, HostNic
from whimbrel.embedded.network.initial_network import seed_network
from whimbrel.ports.embedded.network_store import Network, Query, Subnet
from whimbrel.sim.world.clock import JumpingClock

ONE, TWO = HostNic(name="ens5", physnet="one"), HostNic(name="ens6", physnet="two")
DIRECT = HostNic(name="ens7", physnet="direct", vnic_types=("direct",))


async def seeded(projects: Sequence[str], hosts: Sequence[HostNet]) -> tuple[Network, Subnet]:
    """Seed for one project after the other; return the one network and subnet that there are then."""
    database = open_database("sqlite://", "network")
    await create_all(database, "network")
    store = SqlNetworks(database)
    for project in projects:
        await seed_network(store, JumpingClock(), project, hosts)
    [network] = await store.search(Network, Query())
    [subnet] = await store.search(Subnet, Query())
    await database.close()
    return network, subnet


@pytest.mark.parametrize(
    ("cards", "kind", "physnet"),
    [
        ([(ONE,), (TWO, ONE)], "vlan", "one"),
        ([(ONE, TWO), (TWO,)], "vlan", "two"),
        ([(ONE,), (TWO,)], "vxlan", ""),
        ([(DIRECT,), (DIRECT,)], "vxlan", ""),
        ([(), (ONE,)], "vxlan", ""),
        ([], "vxlan", ""),
    ],
)
async def test_it_is_where_all_hosts_are(cards: list[tuple[HostNic, ...]], kind: str, physnet: str) -> None:
    hosts = [HostNet(host=f"h{number}", cards=nics) for number, nics in enumerate(cards)]
    network, subnet = await seeded(["p"], hosts)
    [segment] = network.segments
    assert (segment.network_type, segment.physical_network) == (kind, physnet)
    assert (network.name, network.shared, network.subnets) == ("private", True, (subnet.id,))


async def test_a_start_that_is_begun_again_makes_it_for_the_people_who_come() -> None:
    first, again = (await seeded(["p"], [])), (await seeded(["gone", "p"], []))
    assert again == first
    assert again[0].project_id == again[1].project_id == "p"
