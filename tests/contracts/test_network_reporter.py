"""What the network service reports to Placement: names, uuids, inventories and traits as Neutron's, at every start."""

from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any
from uuid import UUID, uuid5

import pytest

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.domain.host_nics import HostNet, HostNic
from whimbrel.domain.ids import ConsumerId, ProjectId, ProviderId, UserId
from whimbrel.embedded.network.placement_reporter import report
from whimbrel.placement.provider import Claim
from whimbrel.placement.provider_trees import StoredTrees
from whimbrel.ports.placement.placement import Inventory, Owner

ROOT = ProviderId("11111111-0000-4000-8000-000000000001")
OPEN_VSWITCH = UUID("87ee7d5c-73bb-11e8-9008-c4d987b2a692")
SRIOV = UUID("87f1895c-73bb-11e8-9008-c4d987b2a692")
CARD = HostNic(name="ens5", physnet="physnet0", egress_kbps=10_000_000, ingress_kbps=5_000_000)
VIRTUAL = HostNic(name="ens6", physnet="Blue-net", egress_kbps=7, vnic_types=("direct",))
HOST = HostNet(host="h1", cards=(CARD, VIRTUAL), kpps=9)

Story = Callable[[SqlPlacement, StoredTrees], Awaitable[None]]
Teller = Callable[[Story], None]


@pytest.fixture
async def placement(open_store: Opener) -> AsyncIterator[SqlPlacement]:
    """A Placement that knows host h1."""
    async with open_store("placement") as db:
        placement = SqlPlacement(db, Random(1))
        await placement.register_host(ROOT, "h1", {"VCPU": Inventory(total=8)})
        yield placement


@pytest.fixture
def trees(placement: SqlPlacement) -> StoredTrees:
    return StoredTrees(placement)


async def seen(placement: SqlPlacement) -> dict[str, tuple[str, str | None, dict[str, int], set[str], int]]:
    """Return all providers by name: uuid, parent's uuid, totals, traits, generation."""
    return {
        node.provider.name: (
            node.provider.uuid,
            node.provider.parent,
            {name: stock.inventory.total for name, stock in node.stocks.items()},
            set(node.traits),
            node.provider.generation,
        )
        for node in (await placement.provider_index()).nodes.values()
    }


async def test_a_tree_below_each_host(placement: SqlPlacement, trees: StoredTrees) -> None:
    await report(trees, [HOST, HostNet(host="unknown", cards=(CARD,))])
    found = await seen(placement)
    switch, agent = str(uuid5(OPEN_VSWITCH, "h1")), str(uuid5(SRIOV, "h1"))
    whole: dict[str, Any] = {name: values[:4] for name, values in found.items()}
    assert whole == {
        "h1": (ROOT, None, {"VCPU": 8}, set()),
        "h1:Open vSwitch agent": (
            switch, ROOT, {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 9}, {"CUSTOM_VNIC_TYPE_NORMAL"},
        ),
        "h1:Open vSwitch agent:ens5": (
            str(uuid5(OPEN_VSWITCH, "h1:ens5")), switch,
            {"NET_BW_EGR_KILOBIT_PER_SEC": 10_000_000, "NET_BW_IGR_KILOBIT_PER_SEC": 5_000_000},
            {"CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_VNIC_TYPE_NORMAL"},
        ),
        "h1:NIC Switch agent": (agent, ROOT, {}, {"CUSTOM_VNIC_TYPE_DIRECT"}),
        "h1:NIC Switch agent:ens6": (
            str(uuid5(SRIOV, "h1:ens6")), agent, {"NET_BW_EGR_KILOBIT_PER_SEC": 7},
            {"CUSTOM_PHYSNET_BLUE_NET", "CUSTOM_VNIC_TYPE_DIRECT"},
        ),
    }  # fmt: skip


async def test_the_same_again_writes_nothing(placement: SqlPlacement, trees: StoredTrees) -> None:
    await report(trees, [HOST])
    before = await seen(placement)
    await report(trees, [HOST])
    assert await seen(placement) == before


async def test_cards_come_change_and_go(placement: SqlPlacement, trees: StoredTrees) -> None:
    await report(trees, [HOST])
    slower = HostNic(name="ens5", physnet="physnet1", egress_kbps=1)
    await report(trees, [HostNet(host="h1", cards=(slower,), egress_kpps=1, ingress_kpps=2)])
    found = await seen(placement)
    assert set(found) == {"h1", "h1:Open vSwitch agent", "h1:Open vSwitch agent:ens5"}
    assert found["h1:Open vSwitch agent"][2] == {
        "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC": 1,
        "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC": 2,
    }
    assert found["h1:Open vSwitch agent:ens5"][2:4] == (
        {"NET_BW_EGR_KILOBIT_PER_SEC": 1},
        {"CUSTOM_PHYSNET_PHYSNET1", "CUSTOM_VNIC_TYPE_NORMAL"},
    )
    await report(trees, [HostNet(host="h1", cards=(HostNic(name="ens5", physnet="physnet1"),))])
    assert set(await seen(placement)) == {"h1"}


async def test_what_is_in_the_way_keeps_out_nothing_else(placement: SqlPlacement, trees: StoredTrees) -> None:
    taken = ProviderId("11111111-0000-4000-8000-000000000009")
    await placement.create_provider(taken, "h1:Open vSwitch agent:ens5", ROOT)
    await report(trees, [HOST])
    found = await seen(placement)
    assert found["h1:Open vSwitch agent:ens5"][0] == taken
    assert found["h1:Open vSwitch agent"][2] == {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 9}
    assert found["h1:NIC Switch agent:ens6"][2] == {"NET_BW_EGR_KILOBIT_PER_SEC": 7}


async def test_what_servers_hold_and_what_others_report_stays(placement: SqlPlacement, trees: StoredTrees) -> None:
    other = ProviderId("11111111-0000-4000-8000-000000000009")
    await placement.create_provider(other, "h1_gpu", ROOT)
    await placement.set_inventories(ROOT, None, {"VCPU": Inventory(total=16, reserved=2)})
    await report(trees, [HOST])
    card = ProviderId(str(uuid5(OPEN_VSWITCH, "h1:ens5")))
    owner, held = Owner(ProjectId("p"), UserId("u")), {card: {"NET_BW_EGR_KILOBIT_PER_SEC": 4}}
    server = ConsumerId("22222222-0000-4000-8000-000000000001")
    await placement.rewrite([Claim(consumer=server, owner=owner, held=held)])
    await report(trees, [HostNet(host="h1")])
    found = await seen(placement)
    assert set(found) == {"h1", "h1_gpu", "h1:Open vSwitch agent", "h1:Open vSwitch agent:ens5"}
    assert found["h1"][2] == {"VCPU": 16}
    await placement.drop(server)
    await report(trees, [HostNet(host="h1")])
    assert set(await seen(placement)) == {"h1", "h1_gpu"}
