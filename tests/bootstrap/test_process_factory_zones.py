"""Hosts that the settings put into a zone: Placement is told before they are in it, and by that may say no."""

from pathlib import Path

from msgspec.structs import replace

from tests.bootstrap.test_process_factory import CELL, HOST, ONE, Home
from whimbrel.bootstrap.process import Process
from whimbrel.domain.guest import Order
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, ConsumerId, HostName, ProjectId, RunId, UserId
from whimbrel.ports.placement.placement import Owner
from whimbrel.ports.stores.catalog import zone_of
from whimbrel.servers.zones import zone_changes

N1 = HostName("n1")
IN_DEFAULT = CELL.format("one") + HOST.format("n1").replace('"z"', '"nova"')
CONSUMER = ConsumerId("99999999-9999-4999-8999-999999999999")


async def n1(process: Process) -> Host:
    return await process.cloud.cell(CellName("one")).hosts.get(N1)


async def taken_out(process: Process) -> str:
    """Take n1 out of its zone, as an operator does, and return the zone."""
    cloud, now = process.cloud, process.cloud.clock.now()
    [before] = await cloud.aggregates.all()
    after = replace(before, hosts=[HostName("n2")])
    async with zone_changes.changing(cloud, [await n1(process)], [before], [after]) as zoning:
        await cloud.aggregates.remove_host(before.id, N1, now, zoning)
    assert before.zone
    return before.zone


async def told(process: Process) -> dict[str, str]:
    return {one.root: one.zone for one in await process.cloud.placement.zoned_hosts()}


async def test_placement_knows_at_once_that_a_host_is_back_in_its_zone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    process = await home.start(ONE)
    zone, root = await taken_out(process), (await n1(process)).id
    assert (await told(process))[root] == ""
    await process.close()
    process = await home.start(ONE)
    assert zone_of(N1, await process.cloud.aggregates.all()) == zone
    assert (await told(process))[root] == zone
    await process.close()


async def test_a_host_on_which_somebody_holds_something_stays_in_its_zone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    process = await home.start(IN_DEFAULT)
    order, owner = Order(RunId("11111111-1111-4111-8111-111111111111"), 1), Owner(ProjectId("p"), UserId("u"))
    await process.cloud.placement.claim(order, CONSUMER, owner, {(await n1(process)).id: {"VCPU": 1}})
    await process.close()
    process = await home.start(ONE)
    assert zone_of(N1, await process.cloud.aggregates.all()) is None
    await process.cloud.placement.release(order, CONSUMER)
    await process.close()
    process = await home.start(ONE)
    assert zone_of(N1, await process.cloud.aggregates.all()) is not None
    await process.close()
