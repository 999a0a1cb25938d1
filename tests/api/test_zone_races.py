"""An operator brings a host into another zone while a server is on its way there: one of both comes too late."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from tests.api.front import Front, fault
from tests.api.moving import stands
from tests.api.test_zones import put_into_zone
from whimbrel.domain.errors import Conflict, Refused
from whimbrel.domain.guest import Order
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, ConsumerId, HostName, RunId
from whimbrel.ports.placement.placement import HostRule, Owner
from whimbrel.ports.stores.catalog import Zoning
from whimbrel.reconcilers.zone_sync import repair_zones
from whimbrel.servers.zones.zone_changes import changing
from whimbrel.sim.cloud.cloud import PROJECT, USER

STRANGER = ConsumerId("22222222-0000-4000-8000-000000000009")


class Meddled:
    """A port; before its first claim something else happens."""

    def __init__(self, port: Any, happening: Any) -> None:
        self._port = port
        self._happening = happening
        self.claims = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def claim(self, *arguments: Any) -> None:
        self.claims += 1
        if self.claims == 1:
            await self._happening(arguments[-1])
        await self._port.claim(*arguments)


async def host(front: Front, name: str) -> Host:
    return await front.world.cloud.cell(CellName("c1")).hosts.get(HostName(name))


async def claim(front: Front, name: str, *zones: str, number: int = 1) -> None:
    """Claim a little on a host, counting on its zone."""
    root, order = (await host(front, name)).id, Order(RunId(f"run-{number}"), 1)
    rule = HostRule(root=root, zones=frozenset(zones))
    await front.world.placement.claim(order, STRANGER, Owner(PROJECT, USER), {root: {"VCPU": 1}}, None, rule)


async def act(front: Front, number: int, **action: Any) -> Any:
    return await front.ask("POST", f"/os-aggregates/{number}/action", action, who="admin")


async def test_a_server_goes_elsewhere_when_its_host_leaves_the_zone(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1", "h2")
    world = front.world
    [aggregate] = await world.cloud.aggregates.all()
    left: list[str] = []

    async def leave(rule: HostRule) -> None:
        """Make the operator come between the choice and the claim."""
        [name] = [each.name for each in await world.cloud.cell(CellName("c1")).hosts.all() if each.id == rule.root]
        await world.cloud.aggregates.remove_host(aggregate.id, name, 2.0)
        await world.placement.zone_hosts({rule.root: ""})
        left.append(name)

    server_id = await front.boot(availability_zone="zone1", settle=False)
    meddled = Meddled(world.placement, leave)
    await world.settle(world.engine("other", replace(world.cloud, placement=meddled)))
    assert meddled.claims == 2
    assert (await stands(front, server_id))[:2] == ("ACTIVE", "zone1")
    assert {(await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"], *left} == {"h1", "h2"}


async def test_what_an_operator_does_comes_too_late_for_a_claim(front: Front) -> None:
    """No server is seen on the host yet: only placement knows that one will be."""
    await put_into_zone(front, "east", "h2", "h3")
    [aggregate] = await front.world.cloud.aggregates.all()
    await claim(front, "h2", aggregate.zone or "")
    words = "(h2 is in use, or was given to a server just now)"
    assert words in fault(await act(front, aggregate.id, remove_host={"host": "h2"}), "conflictingRequest", 409)
    metadata = {"metadata": {"availability_zone": "west"}}
    assert words in fault(await act(front, aggregate.id, set_metadata=metadata), "conflictingRequest", 409)
    change = {"aggregate": {"availability_zone": "west"}}
    answer = await front.ask("PUT", f"/os-aggregates/{aggregate.id}", change, who="admin")
    assert words in fault(answer, "conflictingRequest", 409)
    assert await front.world.cloud.aggregates.all() == [aggregate]
    assert (await act(front, aggregate.id, remove_host={"host": "h3"})).status_code == 200


async def test_claims_that_count_on_the_old_zone_are_refused_after_a_change(front: Front) -> None:
    await put_into_zone(front, "east", "h2")
    [aggregate] = await front.world.cloud.aggregates.all()
    east = aggregate.zone or ""
    with pytest.raises(Refused):
        await claim(front, "h2", "nova", "")
    await claim(front, "h2", east, number=2)
    await front.world.placement.drop(STRANGER)
    metadata = {"metadata": {"availability_zone": "west"}}
    assert (await act(front, aggregate.id, set_metadata=metadata)).status_code == 200
    with pytest.raises(Refused):
        await claim(front, "h2", east, number=3)
    assert (await act(front, aggregate.id, remove_host={"host": "h2"})).status_code == 200
    await claim(front, "h2", "nova", "", number=4)


async def test_a_change_that_is_refused_after_placement_was_notified_leaves_nothing(front: Front) -> None:
    """The first aggregate that has a host tells its zone, so that placement was told before the refusal."""
    cloud = front.world.cloud
    west = await cloud.aggregates.create("west", cloud.ids.uuid(), {"availability_zone": "west"}, 1.0)
    east = await cloud.aggregates.create("east", cloud.ids.uuid(), {"availability_zone": "east"}, 1.0)
    await cloud.aggregates.add_host(east.id, HostName("h2"), 1.0)
    fault(await act(front, west.id, add_host={"host": "h2"}), "conflictingRequest", 409)
    assert [told.zone for told in await cloud.placement.zoned_hosts()] == ["east"]
    await claim(front, "h2", "east")


async def test_a_request_that_died_is_put_right_and_its_ghost_is_refused(front: Front) -> None:
    cloud = front.world.cloud
    east = await cloud.aggregates.create("east", cloud.ids.uuid(), {"availability_zone": "east"}, 1.0)
    row, before = await host(front, "h2"), await cloud.aggregates.all()
    after = [structs.replace(before[0], hosts=[row.name])]
    ghost = changing(cloud, [row], before, after)
    zoning = await ghost.__aenter__()
    assert zoning == Zoning(zones={HostName("h2"): "east"}, repairs=0)
    with pytest.raises(Refused):
        await claim(front, "h2", "nova", "")
    await repair_zones(cloud, front.engine)
    await claim(front, "h2", "nova", "", number=2)
    with pytest.raises(Conflict, match="by another request"):
        await cloud.aggregates.add_host(east.id, HostName("h2"), 2.0, zoning)
    await repair_zones(cloud, front.engine)
    assert (await cloud.aggregates.zone_mends(), await cloud.aggregates.all()) == (1, before)
