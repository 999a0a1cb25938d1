"""Many hosts registered at once: new ones, known ones, and those that another process registers at the same time."""

import asyncio
from random import Random

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.domain.ids import ProviderId
from whimbrel.ports.placement.placement import DISABLED, HostOffer, Inventory

TRAITS = frozenset({"COMPUTE_NODE", "CUSTOM_SSD"})


def offer(number: int, *, disabled: bool = False, vcpus: int = 8) -> HostOffer:
    return HostOffer(
        provider=ProviderId(f"11111111-0000-4000-8000-{number:012}"),
        name=f"n{number}",
        inventories={"VCPU": Inventory(total=vcpus), "CUSTOM_GPU": Inventory(total=1)},
        traits=TRAITS,
        disabled=disabled,
    )


async def known(placement: SqlPlacement) -> dict[str, tuple[str, dict[str, int], frozenset[str]]]:
    """Return by name: root, totals, traits."""
    return {
        node.provider.name: (
            node.provider.root,
            {name: stock.inventory.total for name, stock in node.stocks.items()},
            frozenset(node.traits),
        )
        for node in (await placement.provider_index()).nodes.values()
    }


async def test_new_hosts_have_what_they_offer(open_store: Opener) -> None:
    async with open_store("placement") as db:
        placement = SqlPlacement(db, Random(1))
        await placement.register_hosts([offer(number, disabled=number == 2) for number in range(250)])
        found = await known(placement)
        assert len(found) == 250
        assert found["n1"] == (offer(1).provider, {"VCPU": 8, "CUSTOM_GPU": 1}, TRAITS)
        assert found["n2"][2] == TRAITS | {DISABLED}
        fewer = HostOffer(provider=offer(1).provider, name="n1", inventories={}, traits=frozenset(), disabled=False)
        await placement.register_hosts([fewer, offer(2), offer(250)])
        found = await known(placement)
        assert found["n1"] == (offer(1).provider, {}, frozenset())  # it had offered them itself
        assert found["n2"][2] == TRAITS
        assert len(found) == 251


async def test_processes_register_the_same_hosts_at_once(open_store: Opener) -> None:
    async with open_store("placement") as db:
        placements = [SqlPlacement(db, Random(number)) for number in range(3)]
        offers = [offer(number) for number in range(30)]
        await asyncio.gather(
            *(placement.register_hosts(offers[first:]) for first, placement in zip((0, 5, 10), placements, strict=True))
        )
        for placement in placements:
            found = await known(placement)
            assert {name: values[1] for name, values in found.items()} == {
                each.name: {"VCPU": 8, "CUSTOM_GPU": 1} for each in offers
            }
            assert {values[2] for values in found.values()} == {TRAITS}
