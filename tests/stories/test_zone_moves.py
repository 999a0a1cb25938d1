"""A pinned server moves to another zone: once it has moved it is pinned to that one, whatever fails meanwhile."""

from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from tests.share import share
from tests.stories.lifecycle import Books, Lifecycle, Scenario, check, confirmed, the_run
from tools.scenarios.incarnations import Result
from whimbrel.domain.errors import Invalid
from whimbrel.domain.host import Zone
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.moves import live_requests, requests
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.servers import edit, lookup
from whimbrel.sim.cloud.cloud import LARGE, World
from whimbrel.sim.faults.chaos import Fault, Plan

NORTH = Zone(id="7", name="north")


async def pinned(world: World, server: Server) -> None:
    """Make it pinned to the default zone, and another zone beside that."""
    cloud = world.cloud
    await cloud.zones.ensure(NORTH)
    aggregate = await cloud.aggregates.create("north", cloud.ids.uuid(), {"availability_zone": NORTH.id}, 1.0)
    for host in ("h2", "h3"):
        await cloud.aggregates.add_host(aggregate.id, HostName(host), 1.0)
    record = await lookup.find(cloud, server.id)
    await edit.change(cloud, record, {"spec": replace(record.spec, zone_pin=record.zone)})


async def moved_to_the_other_zone(world: World, server: Server) -> None:
    engine = world.engine("setup")
    record = await lookup.find(world.cloud, server.id)
    await requests.move(world.cloud, engine, world.requester(), record, requests.Wanted(zone=NORTH.id, flavor=LARGE))
    await world.settle(engine)
    record = await lookup.find(world.cloud, server.id)
    assert (record.vm_state, record.zone, record.spec.zone_pin) == ("resized", "7", "nova")


async def confirm(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> Any:
    with suppress(Invalid):  # it is confirmed
        await requests.confirm(cloud, engine, requester, server)


async def confirmed_and_pinned(result: Result) -> Books:
    books = await confirmed(result)
    [(server_id, record)] = books["servers"].items()
    return {**books, "servers": {server_id: replace(record, spec=replace(record.spec, zone_pin=NORTH.id))}}


async def move_live(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> Any:
    await live_requests.migrate_live(cloud, engine, requester, server, None, zone=NORTH.id)


async def arrived_and_pinned(result: Result) -> Books:
    target, before = (await the_run(result, "live_migrate")).facts.target, result.before
    [(server_id, record)] = before["servers"].items()
    [(_, _, _, *guest)], [(_, _, held)] = before["guests"], before["claims"]
    moved = {"host": target.host, "slot": target.slot, "zone": NORTH.id}
    return {
        **before,
        "servers": {server_id: replace(record, spec=replace(record.spec, zone_pin=NORTH.id), **moved)},
        "guests": [(target.host, server_id, target.slot, *guest)],
        "claims": [(server_id, target.provider, held)],
    }


CONFIRM = Scenario("confirm", confirm, confirmed_and_pinned, (pinned, moved_to_the_other_zone), insists=True)
LIVE = Scenario("live migration of a pinned server to another zone", move_live, arrived_and_pinned, (pinned,))

FAULTS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.UNANSWERED, Fault.LOST_ANSWER)


async def completed(scenario: Scenario, plan: Plan) -> Lifecycle:
    lifecycle = Lifecycle(scenario, plan)
    await check(await lifecycle.play(), scenario, may_be_nothing=bool(plan))
    return lifecycle


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_the_pin_follows_whatever_fails(fault: Fault) -> None:
    for touch in range(len((await completed(CONFIRM, {})).acts)):
        await completed(CONFIRM, {touch: fault})


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_the_pin_follows_a_live_migration_whatever_fails(fault: Fault) -> None:
    for touch in share(range(len((await completed(LIVE, {})).acts))):
        await completed(LIVE, {touch: fault})
