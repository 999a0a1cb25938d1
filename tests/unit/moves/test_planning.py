"""What a plan says is what the move does: in clouds that nobody thought of."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.depth import examples
from whimbrel.domain.errors import Invalid
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.host import Zone
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.scheduling.decision import from_bytes
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create
from whimbrel.sim.cloud.cloud import CELL, LARGE, SMALL, World
from whimbrel.sim.world.equipment import with_devices

HUGE = Flavor(flavor_id="9", name="huge", vcpus=4, memory_mib=1024, root_gib=3)
NAMES = tuple(HostName(f"h{number}") for number in range(1, 5))


@st.composite
def clouds(draw: st.DrawFn) -> dict[str, Any]:
    hosts = NAMES[: draw(st.integers(1, 4))]
    return {
        "hosts": hosts,
        "others": draw(st.lists(st.sampled_from([(host, f) for host in hosts for f in (SMALL, LARGE)]), max_size=5)),
        "disabled": draw(st.lists(st.sampled_from(hosts), unique=True, max_size=1)),
        "zone": draw(st.lists(st.sampled_from(hosts), unique=True, max_size=2)),
        "devices": draw(st.sampled_from([False, False, False, True])),
        "rules": Rules(
            cpu_allocation_ratio=1.0,
            step_timeout_s=20.0,
            allow_resize_to_same_host=draw(st.booleans()),
            az_on_move=draw(st.sampled_from(["keep", "prefer", "free"])),
        ),
    }


@st.composite
def asked_for(draw: st.DrawFn) -> Flavor | HostName | None:
    """A flavor to resize to, a host to migrate to, or None: a migration to wherever."""
    return draw(st.sampled_from([LARGE, LARGE, HUGE, None, None, *NAMES[1:3]]))


@settings(max_examples=examples(20))
@given(clouds(), asked_for())
async def test_the_move_does_what_its_plan_said(cloud: dict[str, Any], requested: Flavor | HostName | None) -> None:
    await plan_and_move(cloud, requested)


async def plan_and_move(given: dict[str, Any], requested: Flavor | HostName | None) -> None:
    world = await World.build(given["hosts"], rules=given["rules"], equipped=given["devices"])
    try:
        server = await furnish(world, given)
        if requested in NAMES and requested not in given["hosts"]:
            return
        try:
            planned = await requests.plan(world.cloud, server, await facts(world, server, requested))
        except Invalid as no:
            with pytest.raises(Invalid, match=re.escape(no.reason)):
                await really(world, server, requested)
            return
        assert await lookup.find(world.cloud, server.id) == server
        assert await world.cloud.journal.open_run(server.id) is None
        await really(world, server, requested)
        [run, *_] = await world.cloud.journal.find(RunFilter(subject=server.id, limit=1))
        evidence = await world.cloud.journal.evidence(run.id)
        if isinstance(planned, str):
            assert not evidence
            assert run.message == planned
            return
        [taken] = [from_bytes(each.document) for each in evidence]
        assert replace(taken, at=0.0) == replace(planned, at=0.0)
        assert ([run.facts.target.host] if run.facts.target else []) == list(planned.chosen[:1])
        assert run.facts.tried == planned.chosen[:1]
    finally:
        await world.close()


async def furnish(world: World, given: dict[str, Any]) -> Server:
    """Put a small server on h1 and others where they are to be; return hosts their zone."""
    cloud = world.cloud
    await cloud.flavors.create(HUGE, 0.0)
    zone = await cloud.zones.ensure(Zone(id="east-id", name="east", created_at=0.0))
    if given["zone"]:
        made = await cloud.aggregates.create("east", cloud.ids.uuid(), {"availability_zone": zone.id}, 0.0)
        for host in given["zone"]:
            await cloud.aggregates.add_host(made.id, host, 0.0)
    server = world.new_server("one")
    server = with_devices(server) if given["devices"] else server
    engine = world.engine("setup")
    await create.accept(cloud, engine, world.requester(), [server], NAMES[0])
    await world.settle(engine)
    for host, flavor in given["others"]:
        await create.accept(cloud, engine, world.requester(), [world.new_server("other", flavor)], host)
    await world.settle(engine)
    for host in given["disabled"]:
        await cloud.cell(CELL).hosts.set_service(host, enabled=False, disabled_reason=None, forced_down=False)
    return await lookup.find(cloud, server.id)


async def facts(world: World, server: Server, requested: Flavor | HostName | None) -> MoveFacts:
    if isinstance(requested, Flavor):
        return await requests.resize_facts(world.cloud, server, requested)
    return await requests.migrate_facts(world.cloud, server, requested)


async def really(world: World, server: Server, requested: Flavor | HostName | None) -> None:
    engine, cloud = world.engine("really"), world.cloud
    if isinstance(requested, Flavor):
        await requests.resize(cloud, engine, world.requester(), server, requested)
    else:
        await requests.migrate(cloud, engine, world.requester(), server, requested)
    await world.settle(engine)
