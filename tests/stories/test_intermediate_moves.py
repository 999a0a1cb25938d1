"""Maintenances of nearly full clouds: other servers make room, in the order in which they must."""

from random import Random

import pytest
from msgspec.structs import replace

from tests.sim.test_plan_simulation import simulated
from tests.stories.maintaining import (
    CAREFUL,
    COLD,
    RULES,
    boot,
    ends_though_killed,
    items_of,
    moves_of,
    planned,
    rounds,
)
from tests.stories.mortal import BEFORE_OR_AFTER, at_each_write
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import GroupId, HostName
from whimbrel.domain.maintenance_plan import AFTER_OTHERS, Maintenance, MaintenanceItem
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.maintenance import operator_requests as requests
from whimbrel.maintenance.drift import MOST_WAITED_FOR
from whimbrel.maintenance.execution import carry_on_all
from whimbrel.maintenance.intermediate_moves import NONE_EXISTS, NOT_WITHIN, IntermediateMoves
from whimbrel.maintenance.target_planning import examine, planner_of
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create, delete, power
from whimbrel.sim.cloud.cloud import LARGE, PROJECT, SMALL, USER, World

THREE = Flavor(flavor_id="9", name="three", vcpus=3, memory_mib=1024, root_gib=1)
HOSTS = ("h1", "h2", "h3", "h4")


def shown(items: list[MaintenanceItem]) -> list[tuple[str, str, str | None, tuple[int, ...]]]:
    return [(item.server_name, item.source, item.target, item.waits_for) for item in items]


async def built(*hosts: str, vcpus: int = 4) -> World:
    world = await World.build(hosts, rules=RULES, vcpus=vcpus, memory_mib=8192)
    await world.cloud.quotas.set_limits(PROJECT, {"instances": -1, "cores": -1})
    return world


async def fragmented() -> World:
    """Return a cloud of hosts with 4 vcpus: h2 and h3 have one left each, and h1 a server with two."""
    world = await built("h1", "h2", "h3")
    for name, host, flavor in (("big", "h1", LARGE), ("b", "h2", THREE), ("c", "h3", SMALL), ("d", "h3", LARGE)):
        await boot(world, name, host, flavor)
    return world


async def chained() -> World:
    """Return a cloud in which `mid` leaves h2 for h3 only after `small` has left that for h4."""
    world = await built(*HOSTS)
    for name, host, flavor in (
        ("big", "h1", THREE), ("mid", "h2", LARGE), ("s1", "h2", SMALL), ("small", "h3", SMALL), ("s2", "h3", SMALL),
        ("s3", "h3", SMALL), ("s4", "h4", THREE),
    ):  # fmt: skip
        await boot(world, name, host, flavor)
    return world


async def servers_of(world: World, host: str) -> list[Server]:
    [named] = await requests.hosts_named(world.cloud, [host])
    return await lookup.on_host(world.cloud, named.cell, named.name)


async def test_a_server_of_another_host_makes_room() -> None:
    world = await fragmented()
    found = await planned(world)
    c, big = await items_of(world, found)
    assert shown([c, big]) == [("c", "h3", "h2", ()), ("big", "h1", "h3", (0,))]
    assert (c.purpose, c.due_at) == (f"makes room for server big ({big.server_id})", 0.0)
    assert (big.purpose, big.due_at) == ("begins when c has left h3", AFTER_OTHERS)
    await requests.start(world.cloud, found.id)
    engine = world.engine("conductor")
    await carry_on_all(world.cloud, engine)
    assert [item.state for item in await items_of(world, found)] == ["moving", "planned"]
    assert (await rounds(world, found)).state == "done"
    assert [(item.state, item.tries) for item in await items_of(world, found)] == [("moved", 0)] * 2
    assert not await servers_of(world, "h1")
    await world.close()


async def test_a_chain_of_moves_makes_room() -> None:
    world = await chained()
    found = await planned(world)
    items = await items_of(world, found)
    assert items[-1].server_name == "big"
    assert len(items) == 3
    assert [item.state for item in items] == ["planned"] * 3, [item.reason for item in items]
    await requests.start(world.cloud, found.id)
    assert (await rounds(world, found)).state == "done"
    ended = await items_of(world, found)
    assert [(item.state, item.tries, item.target) for item in ended] == [("moved", 0, item.target) for item in items]
    for item in ended:
        for position in item.waits_for:
            assert (ended[position].finished_at or 0) <= (item.started_at or 0)
    await world.close()


async def test_that_none_exists_is_said() -> None:
    world = await built("h1", "h2", "h3")
    for name, host, flavor in (("big", "h1", THREE), ("b", "h2", THREE), ("d", "h3", THREE)):
        await boot(world, name, host, flavor)
    [item] = await items_of(world, await planned(world))
    assert item.state == "stays"
    assert (item.reason or "").endswith(f"; {NONE_EXISTS}: the other hosts have 2 VCPU free together, it needs 3")
    await world.close()


async def test_that_none_exists_is_proved_by_trying_all() -> None:
    world = await built("h1", "h2", "h3")
    for name, host, flavor in (("big", "h1", LARGE), ("b", "h2", THREE), ("d", "h3", THREE)):
        await boot(world, name, host, flavor)
    [item] = await items_of(world, await planned(world))
    assert (item.reason or "").endswith(f"; {NONE_EXISTS}"), "two servers of three vcpus have no room on one host"
    await world.close()


async def test_more_moves_than_the_bound_are_not_looked_for() -> None:
    """Four servers would have to leave a host, each for another one."""
    hosts = ("h1", "h2", "h3", "h4", "h5", "h6")
    world = await built(*hosts)
    whole = replace(THREE, vcpus=4, name="whole", flavor_id="10")
    await boot(world, "whole", "h1", whole)
    for number in range(4):
        await boot(world, f"s{number}", "h2")
        await boot(world, f"t{number}", hosts[2 + number], THREE)
    [item] = await items_of(world, await planned(world))
    assert (item.reason or "").endswith(f"; {NOT_WITHIN}")
    await world.close()


async def test_a_stopped_server_makes_room_by_a_cold_move() -> None:
    world = await fragmented()
    [server] = [one for one in await servers_of(world, "h3") if one.name == "c"]
    await power.stop(world.cloud, world.engine("setup"), world.requester(), server)
    await world.settle(world.engine("setup"))
    found = await planned(world)
    c, big = await items_of(world, found)
    assert (c.kind, c.downtime, c.server_name) == ("cold", False, "c")
    await requests.start(world.cloud, found.id)
    assert (await rounds(world, found)).state == "done"
    assert [item.state for item in await items_of(world, found)] == ["moved", "moved"]
    assert big.kind == "live"
    await world.close()


async def test_members_of_a_group_stay_apart() -> None:
    world = await built("h1", "h2", "h3")
    group = ServerGroup(
        id=GroupId("99999999-9999-4999-8999-999999999999"), name="apart", project_id=PROJECT, user_id=USER,
        policy="anti-affinity", created_at=0.0,
    )  # fmt: skip
    await world.cloud.server_groups.create(group, -1)
    for name, host in (("c", "h3"), ("g", "h2")):
        server = replace(world.new_server(name), spec=RequestSpec(hints={"group": group.id}))
        await create.accept(world.cloud, world.engine("setup"), world.requester(), [server], HostName(host))
        await world.settle(world.engine("setup"))
    for name, host, flavor in (("big", "h1", LARGE), ("b", "h2", LARGE), ("d", "h3", LARGE)):
        await boot(world, name, host, flavor)
    [item] = await items_of(world, await planned(world))
    assert item.state == "stays", "c is kept from h2 by g, and no other server is small enough"
    assert "no sequence of" in (item.reason or "")
    await world.close()


async def test_what_waits_for_a_deleted_server_goes_on() -> None:
    world = await fragmented()
    found = await planned(world)
    [server] = [one for one in await servers_of(world, "h3") if one.name == "c"]
    await delete.accept(world.cloud, world.engine("setup"), world.requester(), server)
    await world.settle(world.engine("setup"))
    await requests.start(world.cloud, found.id)
    assert (await rounds(world, found)).state == "done"
    assert [item.state for item in await items_of(world, found)] == ["left", "moved"]
    await world.close()


async def test_no_room_is_made_for_a_server_that_is_gone() -> None:
    world = await chained()
    found = await planned(world)
    [big] = await servers_of(world, "h1")
    await delete.accept(world.cloud, world.engine("setup"), world.requester(), big)
    await world.settle(world.engine("setup"))
    await requests.start(world.cloud, found.id)
    assert (await rounds(world, found)).state == "done"
    items = await items_of(world, found)
    assert [(item.state, item.run_id) for item in items] == [("left", None)] * 3
    assert items[0].reason == "no move waits for the room that it makes"
    await world.close()


async def test_what_waits_for_a_move_that_fails_is_looked_at_again() -> None:
    """The place to which `c` should go is taken meanwhile, and there is no other one."""
    world = await fragmented()
    found = await planned(world)
    await boot(world, "late", "h2")
    await requests.start(world.cloud, found.id)
    assert (await rounds(world, found)).state == "done"
    c, big = await items_of(world, found)
    assert (c.state, big.state) == ("failed", "failed")
    assert "no room" in (big.reason or "")
    await world.close()


async def roomy() -> tuple[World, Maintenance]:
    """Return a plan that moves `big` to h4 without other moves; a server is created there before it begins."""
    world = await built(*HOSTS)
    for name, host, flavor in (
        ("big", "h1", LARGE), ("b", "h2", THREE), ("c", "h3", SMALL), ("d", "h3", LARGE), ("e", "h4", SMALL),
    ):  # fmt: skip
        await boot(world, name, host, flavor)
    found = await planned(world)
    assert shown(await items_of(world, found)) == [("big", "h1", "h4", ())]
    await boot(world, "late", "h4", LARGE)
    return world, found


async def test_room_is_made_for_a_server_whose_target_was_filled() -> None:
    world, found = await roomy()
    await requests.start(world.cloud, found.id)
    await carry_on_all(world.cloud, world.engine("conductor"))
    big, *others = await items_of(world, found)
    assert [(item.server_name, item.state, item.purpose) for item in others] == [
        ("c", "planned", f"makes room for server big ({big.server_id})")
    ]
    assert (big.state, big.target, big.waits_for, big.due_at) == ("planned", "h3", (1,), AFTER_OTHERS)
    assert (big.reason or "").startswith("planned anew, because h4 did not suit: ")
    assert big.purpose == "begins when c has left h3"
    assert (await rounds(world, found)).state == "done"
    ended = await items_of(world, found)
    assert [(item.state, item.tries) for item in ended] == [("moved", 0)] * 2
    assert (ended[1].finished_at or 0) <= (ended[0].started_at or 0)
    assert not await servers_of(world, "h1")
    await world.close()


async def test_a_failed_server_that_is_tried_again_has_room_made() -> None:
    world, found = await roomy()
    block = await boot(world, "block", "h3")
    await requests.start(world.cloud, found.id)
    await requests.pause(world.cloud, found.id)
    items = await items_of(world, found)
    failed = replace(items[0], state="failed", target=None)
    await world.cloud.maintenances.save(await world.cloud.maintenances.get(found.id), [failed])
    await delete.accept(world.cloud, world.engine("setup"), world.requester(), block)
    await world.settle(world.engine("setup"))
    await requests.resume(world.cloud, found.id, retries_failed=True)
    assert (await rounds(world, found)).state == "done"
    assert [item.state for item in await items_of(world, found)] == ["moved", "moved"]
    await world.close()


async def test_room_that_is_taken_again_and_again_is_given_up() -> None:
    world, found = await roomy()
    await requests.start(world.cloud, found.id)
    [big] = await items_of(world, found)
    waited = replace(big, waits_for=tuple(range(100, 100 + MOST_WAITED_FOR)))
    await world.cloud.maintenances.save(await world.cloud.maintenances.get(found.id), [waited])
    assert (await rounds(world, found)).state == "done"
    [big] = await items_of(world, found)
    assert big.state == "failed"
    await world.close()


async def test_a_server_that_is_to_move_makes_no_other_room() -> None:
    """`c` makes room for `big` already; the room that `more` needs is not made by another move of it."""
    world = await fragmented()
    found = await planned(world)
    c, big = await items_of(world, found)
    planner = await planner_of(world.cloud, ["h1"], CAREFUL)
    examined = await examine(world.cloud, (await servers_of(world, "h1"))[0], CAREFUL)
    [item] = await IntermediateMoves(planner, [c, big]).plan([examined])
    assert (item.position, item.state) == (2, "stays")
    await world.close()


@BEFORE_OR_AFTER
async def test_a_process_may_be_killed_while_room_is_made(before: bool) -> None:
    assert await at_each_write(lambda number: killed_at(number, before)) > 8


async def killed_at(number: int, before: bool) -> bool:
    world, found = await roomy()
    was_killed = await ends_though_killed(world, found, number, before)
    items = await items_of(world, found)
    assert [(item.server_name, item.state) for item in items] == [("big", "moved"), ("c", "moved")]
    assert [len(await moves_of(world, item.server_id)) for item in items] == [1, 1]
    assert not await servers_of(world, "h1")
    await world.close()
    return was_killed


async def test_an_abort_keeps_what_waits_from_beginning() -> None:
    world = await fragmented()
    found = await planned(world)
    await requests.start(world.cloud, found.id)
    await carry_on_all(world.cloud, world.engine("conductor"))
    await requests.abort(world.cloud, found.id)
    assert (await rounds(world, found)).state == "aborted"
    assert [item.state for item in await items_of(world, found)] == ["moved", "planned"]
    await world.close()


async def test_a_program_that_knows_no_order_does_not_start_what_waits() -> None:
    """It looks at `due_at` only, as this one did before."""
    world = await fragmented()
    found = await planned(world)
    waiting = [item for item in await items_of(world, found) if item.waits_for]
    assert waiting
    assert all(item.due_at > world.cloud.clock.now() + 1e9 for item in waiting)
    await world.close()


async def test_a_simulation_keeps_the_order() -> None:
    world = await chained()
    found = await planned(world)
    told = await simulated(world, found)
    assert told.state == "done"
    assert [server.state for server in told.servers] == ["moved"] * 3
    assert [server.target for server in told.servers] == [server.planned_target for server in told.servers]
    ends = {server.server_id: (server.starts_s or 0) + (server.takes_s or 0) for server in told.servers}
    starts = {server.server_id: server.starts_s or 0 for server in told.servers}
    items = await items_of(world, found)
    for item in items:
        for position in item.waits_for:
            assert ends[items[position].server_id] <= starts[item.server_id]
    await world.close()


async def random_cloud(seed: int) -> World:
    rng, world = Random(seed), await built(*HOSTS, vcpus=6)
    left = dict.fromkeys(HOSTS, 6)
    for number in range(14):
        flavor, host = rng.choice((SMALL, LARGE, THREE)), rng.choice(HOSTS)
        if left[host] - flavor.vcpus < (3 if host == "h1" else 0):
            continue
        left[host] -= flavor.vcpus
        server = await boot(world, f"s{number}", host, flavor)
        if rng.random() < 0.3:
            await power.stop(world.cloud, world.engine("setup"), world.requester(), server)
            await world.settle(world.engine("setup"))
    return world


@pytest.mark.parametrize("seed", range(12))
async def test_every_plan_is_executed_as_it_is(seed: int) -> None:
    """Placement refuses what exceeds a host at any time: no move is refused, and no target differs from the plan."""
    world = await random_cloud(seed)
    found = await planned(world, COLD if seed % 2 else CAREFUL)
    plan = [item for item in await items_of(world, found) if item.state == "planned"]
    await requests.start(world.cloud, found.id)
    assert (await rounds(world, found)).state == "done"
    ended = [item for item in await items_of(world, found) if item.state != "stays"]
    assert [(item.state, item.tries, item.target) for item in ended] == [("moved", 0, item.target) for item in plan]
    await world.close()
