"""Maintenances that pack or balance hosts: no plan makes it worse, and what is planned is what happens."""

from collections import Counter
from dataclasses import replace as with_fields
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.sim.test_plan_simulation import WITH_GPU, simulated, start
from tests.stories.maintaining import boot, ends_though_killed, home, items_of, moves_of, rounds
from tests.stories.mortal import BEFORE_OR_AFTER, at_each_write
from whimbrel.adapters.sql.tables.global_ import maintenances
from whimbrel.domain.errors import Conflict
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import GroupId, HostName
from whimbrel.domain.maintenance_goal import Goal, HostInGoal, UsedShares
from whimbrel.domain.maintenance_plan import Maintenance, MaintenanceOptions
from whimbrel.domain.server import RequestSpec
from whimbrel.hosts.switching import switch
from whimbrel.maintenance import host_shares
from whimbrel.maintenance import operator_requests as requests
from whimbrel.ports.cloud import Rules
from whimbrel.ports.placement.placement import DISABLED
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create, power
from whimbrel.sim.cloud.cloud import LARGE, PROJECT, SMALL, USER, World
from whimbrel.sim.world.equipment import GPU, GPUS

RULES = Rules(cpu_allocation_ratio=1.0)
HOSTS = ("h1", "h2", "h3", "h4")
WIDE = Flavor(flavor_id="8", name="wide", vcpus=1, memory_mib=1536, root_gib=8)
PACK = Goal(kind="pack")
BALANCE = Goal(kind="balance", spread=10)


def options(goal: Goal, **more: Any) -> MaintenanceOptions:
    return MaintenanceOptions(goal=goal, on_drift="pause", **more)


async def planned(world: World, goal: Goal, *hosts: str, **more: Any) -> Maintenance:
    found = await requests.hosts_named(world.cloud, hosts or HOSTS)
    return await requests.plan(world.cloud, world.requester(), goal.kind, "hosts", found, options(goal, **more))


def use(found: Maintenance) -> dict[str, HostInGoal]:
    assert found.options.goal
    return {host.name: host for host in found.options.goal.hosts}


async def random_cloud(seed: int) -> World:
    """Return a cloud of four hosts of 8 vcpus with servers of three sizes; some are stopped."""
    rng, world = Random(seed), await World.build(HOSTS, rules=RULES, vcpus=8, memory_mib=8192)
    for number in range(9):
        server = await boot(world, f"s{number}", rng.choice(HOSTS[: 2 + seed % 3]), rng.choice((SMALL, LARGE, WIDE)))
        if rng.random() < 0.2:
            await power.stop(world.cloud, world.engine("setup"), world.requester(), server)
            await world.settle(world.engine("setup"))
    return world


def widest(uses: list[UsedShares]) -> dict[str, float]:
    columns = {name: [getattr(use, name) for use in uses] for name in ("vcpus", "memory", "disk")}
    return {name: max(column) - min(column) for name, column in columns.items()}


@pytest.mark.parametrize("goal", [PACK, BALANCE], ids=["pack", "balance"])
@pytest.mark.parametrize("seed", range(6))
async def test_no_plan_makes_it_worse_and_what_is_planned_is_what_happens(seed: int, goal: Goal) -> None:
    world = await random_cloud(seed)
    found, again = await planned(world, goal), await planned(world, goal)
    items = await items_of(world, found)
    assert (found.options, items) == (again.options, await items_of(world, again)), "the same plan for the same cloud"
    assert max(Counter(item.server_id for item in items).values(), default=1) == 1
    assert all(item.purpose and item.state == "planned" and item.target != item.source for item in items)
    uses = use(found)
    for host in uses.values():
        shares = (host.after.vcpus, host.after.memory, host.after.disk)
        assert all(share is not None and share <= 100 for share in shares)
    before, after = [host.before for host in uses.values()], [host.after for host in uses.values()]
    if goal.kind == "pack":
        assert {item.source for item in items} == {name for name, host in uses.items() if host.becomes_empty}
        assert all(uses[item.target or ""].after.servers > uses[item.target or ""].before.servers for item in items)
        assert all(host.reason for host in uses.values() if not host.becomes_empty)
    else:
        was, becomes = widest(before), widest(after)
        assert all(becomes[name] <= max(was[name], 10) + 0.02 for name in was)
        assert found.options.goal
        assert found.options.goal.is_reached or any(host.reason for host in uses.values())
    await requests.start(world.cloud, found.id)
    ended = await rounds(world, found)
    assert (ended.state, ended.message) == ("done", None)
    assert {item.state for item in await items_of(world, found)} <= {"moved"}
    hosts = await requests.hosts_named(world.cloud, HOSTS)
    servers = {host.name: await lookup.on_host(world.cloud, host.cell, host.name) for host in hosts}
    shares_now = await host_shares.read(world.cloud, hosts, servers)
    assert {name: shares_now.shown(HostName(name)) for name in HOSTS} == {name: one.after for name, one in uses.items()}
    assert all(host.enabled for host in hosts)
    await world.close()


@pytest.mark.parametrize(("goal", "first", "second"), [(PACK, 4, 3), (BALANCE, 0, 6)], ids=["pack", "balance"])
async def test_a_target_takes_more_processors_in_all_than_one_server_may_have(
    goal: Goal, first: int, second: int
) -> None:
    rules = Rules(cpu_allocation_ratio=4.0)
    world = await World.build(("h1", "h2"), rules=rules, vcpus=4, memory_mib=32_768, disk_gib=100)
    for number in range(first + second):
        await boot(world, f"s{number}", "h1" if number < first else "h2", LARGE)
    found = await planned(world, goal, "h1", "h2")
    assert [(item.source, item.target) for item in await items_of(world, found)] == [("h2", "h1")] * 3
    assert found.options.goal
    assert found.options.goal.is_reached in (True, None)
    await world.close()


async def test_the_least_used_host_is_packed_into_the_fullest_that_has_room() -> None:
    world = await World.build(HOSTS, rules=RULES)
    for name, host, flavor in (("a", "h1", LARGE), ("b", "h2", SMALL), ("c", "h2", LARGE), ("d", "h3", SMALL)):
        await boot(world, name, host, flavor)
    found = await planned(world, PACK)
    items = [
        (item.server_name, item.source, item.target, item.kind, item.purpose) for item in await items_of(world, found)
    ]
    assert items == [("d", "h3", "h2", "live", "h3 becomes empty: at most 25 % of it is used")]
    reasons = {name: host.reason or "" for name, host in use(found).items()}
    assert "server a (" in reasons["h1"]
    assert "no room for 2 VCPU" in reasons["h1"]
    assert (reasons["h2"], reasons["h4"]) == ("it takes servers of other hosts", "it is empty")
    await world.close()


async def test_servers_move_from_the_fullest_host_until_the_spread_is_as_asked() -> None:
    world = await World.build(("h1", "h2", "h3"), rules=RULES)
    for name, host in (("a", "h1"), ("b", "h1"), ("c", "h1"), ("d", "h2")):
        await boot(world, name, host)
    found = await planned(world, replace(BALANCE, spread=25), "h1", "h2", "h3")
    [item] = await items_of(world, found)
    assert (item.source, item.target, item.purpose) == ("h1", "h3", "h1 has 75 % of its vcpus used, h3 0 %")
    assert [host.after.servers for host in use(found).values()] == [2, 1, 1]
    even = await planned(world, replace(BALANCE, spread=80), "h1", "h2", "h3")
    assert await items_of(world, even) == []
    narrow = await planned(world, replace(BALANCE, spread=5), "h1", "h2", "h3")
    assert narrow.options.goal
    assert not narrow.options.goal.is_reached
    assert use(narrow)["h1"].reason == (
        "50 % of its vcpus, 25 % of its memory stay used: no move of another of its servers makes the use more even"
    )
    await world.close()


async def test_the_members_of_a_group_stay_apart() -> None:
    world = await World.build(("h1", "h2", "h3"), rules=RULES)
    group = ServerGroup(
        id=GroupId("99999999-9999-4999-8999-999999999999"), name="apart", project_id=PROJECT, user_id=USER,
        policy="anti-affinity", created_at=0.0,
    )  # fmt: skip
    await world.cloud.server_groups.create(group, -1)
    for name, host in (("apart1", "h1"), ("apart2", "h2"), ("apart3", "h3")):
        server = replace(world.new_server(name), spec=RequestSpec(hints={"group": group.id}))
        await create.accept(world.cloud, world.engine("setup"), world.requester(), [server], HostName(host))
        await world.settle(world.engine("setup"))
    found = await planned(world, PACK, "h1", "h2", "h3")
    assert await items_of(world, found) == []
    assert all("apart" in (host.reason or "") for host in use(found).values())
    await world.close()


@pytest.mark.parametrize("goal", [PACK, replace(BALANCE, spread=20)], ids=["pack", "balance"])
async def test_a_server_has_no_downtime_that_nobody_has_allowed(goal: Goal) -> None:
    world = await World.build(("h1", "h2"), rules=Rules(cpu_allocation_ratio=1.0, pci_alias=(GPU,)), equipped=True)
    for host in ("h1", "h2"):
        await world.cloud.cell(next(iter(world.cloud.cells))).devices.register(HostName(host), GPUS[:2])
    await start(world, world.new_server("gpu1", WITH_GPU), "h1")
    await start(world, world.new_server("gpu2", WITH_GPU), "h1" if goal.kind == "balance" else "h2")
    if goal.kind == "pack":
        await boot(world, "live", "h2", LARGE)
    careful = await planned(world, goal, "h1", "h2")
    assert await items_of(world, careful) == []
    assert "It can move with downtime, which is not allowed" in (use(careful)["h1"].reason or "")
    [item] = await items_of(world, await planned(world, goal, "h1", "h2", allow_downtime=True))
    assert (item.kind, item.downtime, item.source, item.target) == ("cold", True, "h1", "h2")
    assert "passed through" in (item.reason or "")
    await world.close()


async def test_hosts_stay_enabled_and_a_host_is_in_one_maintenance() -> None:
    world = await World.build(HOSTS, rules=RULES)
    await boot(world, "a", "h1")
    await boot(world, "b", "h2")
    found, other = await planned(world, PACK), await planned(world, BALANCE, "h4", "h1")
    [disabled] = await requests.hosts_named(world.cloud, ["h3"])
    assert (found.hosts, found.host_names) == ((), frozenset())
    await requests.start(world.cloud, found.id)
    with pytest.raises(Conflict, match=r"pack \(.*\) is running, and has h1, h4 as well"):
        await requests.start(world.cloud, other.id)
    for host in await requests.hosts_named(world.cloud, HOSTS):
        assert host.enabled
    assert not any(DISABLED in provider.traits for provider in await world.placement.providers())
    await requests.abort(world.cloud, found.id)
    assert (await rounds(world, found)).state == "aborted"
    with pytest.raises(Conflict, match="is aborted: it cannot be aborted"):
        await requests.abort(world.cloud, found.id)
    await requests.start(world.cloud, other.id)
    assert disabled.enabled
    await world.close()


async def test_hosts_that_are_disabled_take_no_part() -> None:
    world = await World.build(("h1", "h2", "h3"), rules=RULES)
    await boot(world, "a", "h1")
    await boot(world, "b", "h2")
    hosts = await requests.hosts_named(world.cloud, ["h2"])
    emptied = await requests.plan(world.cloud, world.requester(), "disks", "h2", hosts, MaintenanceOptions())
    await requests.start(world.cloud, emptied.id)
    found = await planned(world, PACK, "h1", "h2", "h3")
    assert use(found)["h2"].reason == f"it is disabled: maintenance disks ({emptied.id})"
    assert not use(found)["h2"].takes_part
    assert await items_of(world, found) == []
    await world.close()


@pytest.mark.parametrize(("drift", "state"), [("replan", "done"), ("pause", "paused")])
async def test_a_target_that_is_filled_meanwhile_is_replaced_within_the_goal(drift: Any, state: str) -> None:
    """Without the goal the scheduler would choose h4, which is empty."""
    world = await World.build(HOSTS, rules=RULES)
    for name, host, flavor in (("a", "h1", LARGE), ("b", "h2", LARGE), ("c", "h2", SMALL), ("d", "h3", SMALL)):
        await boot(world, name, host, flavor)
    found = await planned(world, replace(PACK, on_drift=drift))
    [item] = await items_of(world, found)
    assert (item.server_name, item.target) == ("d", "h2")
    await boot(world, "late", "h2")
    await requests.start(world.cloud, found.id)
    ended = await rounds(world, found)
    assert ended.state == state
    [item] = await items_of(world, found)
    if drift == "replan":
        assert (item.state, item.target) == ("moved", "h1")
        assert item.purpose == "h3 becomes empty: at most 25 % of it is used"
    else:
        assert "no room" in (ended.message or "")
    await world.close()


async def test_a_move_that_helps_no_more_fails() -> None:
    """Its target is disabled, and on the only other host more is used than before."""
    world = await World.build(("h1", "h2", "h3"), rules=RULES)
    servers = [await boot(world, f"s{number}", "h1") for number in range(4)]
    for number in range(2):
        await boot(world, f"other{number}", "h3")
    found = await planned(world, replace(BALANCE, spread=50), "h1", "h2", "h3")
    [item] = await items_of(world, found)
    assert item.target == "h2"
    [h2] = await requests.hosts_named(world.cloud, ["h2"])
    await switch(world.cloud, h2, enabled=False, reason="noise")
    await boot(world, "late", "h3")
    await requests.start(world.cloud, found.id)
    assert (await rounds(world, found)).state == "done"
    [item] = await items_of(world, found)
    assert (item.state, item.reason) == ("failed", "its move would not make the use of the hosts more even")
    assert [await home(world, server) for server in servers] == ["h1"] * 4
    await world.close()


async def test_a_goal_is_simulated() -> None:
    world = await random_cloud(2)
    found = await planned(world, PACK)
    told = await simulated(world, found)
    items = await items_of(world, found)
    assert items
    assert (told.state, {one.server_id: (one.state, one.target) for one in told.servers}) == (
        "done",
        {item.server_id: ("moved", item.target) for item in items},
    )
    assert {loss.host for loss in told.losses} == set(HOSTS), "none of them is disabled"
    await world.close()


@BEFORE_OR_AFTER
async def test_a_conductor_may_be_killed_at_each_write(before: bool) -> None:
    assert await at_each_write(lambda number: killed_at(number, before)) > 5


async def killed_at(number: int, before: bool) -> bool:
    world = await World.build(("h1", "h2"), rules=RULES)
    servers = [await boot(world, name, host) for name, host in (("a", "h1"), ("b", "h2"), ("c", "h2"))]
    await power.stop(world.cloud, world.engine("setup"), world.requester(), servers[0])
    await world.settle(world.engine("setup"))
    found = await planned(world, PACK, "h1", "h2")
    was_killed = await ends_though_killed(world, found, number, before)
    assert [len(await moves_of(world, server.id)) for server in servers] == [1, 0, 0]
    assert [await home(world, server) for server in servers] == ["h2"] * 3
    assert all(host.enabled for host in await requests.hosts_named(world.cloud, ["h1", "h2"]))
    await world.close()
    return was_killed


@pytest.mark.parametrize("first", [PACK, None], ids=["pack", "empty"])
async def test_of_two_maintenances_that_start_at_once_one_has_the_host(first: Goal | None) -> None:
    """Both have seen that the hosts are free before either one has started."""
    world = await World.build(HOSTS, rules=RULES)
    await boot(world, "a", "h1")
    hosts = await requests.hosts_named(world.cloud, ["h1", "h2"])
    plan = options(first) if first else MaintenanceOptions()
    one = await requests.plan(world.cloud, world.requester(), "one", "hosts", hosts, plan)
    other = await planned(world, BALANCE, "h2", "h3")
    late = AlreadyFree(world.cloud.maintenances)
    await requests.start(world.cloud, one.id)
    with pytest.raises(Conflict, match=rf"Maintenance one \({one.id}\) is running, and has h2 as well"):
        await requests.start(with_fields(world.cloud, maintenances=late), other.id)
    assert late.asked == 2
    await requests.abort(world.cloud, one.id)
    await rounds(world, one)
    await requests.start(world.cloud, other.id)
    await world.close()


class AlreadyFree:
    """A store that shows no other maintenance at first, as it was a moment ago."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def find(self, *arguments: Any, **named: Any) -> Any:
        self.asked += 1
        return [] if self.asked == 1 else await self._inner.find(*arguments, **named)


async def test_a_hold_that_an_older_program_left_is_none() -> None:
    """It ends a maintenance, and does not know that it has to let its hosts go."""
    world = await World.build(HOSTS, rules=RULES)
    await boot(world, "a", "h1")
    one, other = await planned(world, PACK), await planned(world, BALANCE)
    await requests.start(world.cloud, one.id)
    async with world.remains.databases["global"].write() as tx:
        await tx.run(sa.update(maintenances).where(maintenances.c.id == one.id).values(state="done"))
    assert (await requests.start(world.cloud, other.id)).state == "running"
    await world.close()


async def test_no_goal_moves_servers_to_a_host_that_another_one_empties() -> None:
    """h3 becomes empty by a pack, and is not disabled for that."""
    world = await World.build(HOSTS, rules=RULES)
    for name, host, flavor in (("a", "h4", LARGE), ("b", "h2", LARGE), ("c", "h2", SMALL), ("d", "h3", SMALL)):
        await boot(world, name, host, flavor)
    before = await requests.plan(
        world.cloud, world.requester(), "disks", "h4", await requests.hosts_named(world.cloud, ["h4"]),
        MaintenanceOptions(),
    )  # fmt: skip
    pack = await planned(world, PACK, "h2", "h3")
    assert use(pack)["h3"].becomes_empty
    await requests.start(world.cloud, pack.id)
    after = await requests.plan(
        world.cloud, world.requester(), "again", "h4", await requests.hosts_named(world.cloud, ["h4"]),
        MaintenanceOptions(),
    )  # fmt: skip
    assert [item.target for item in await items_of(world, after)] == ["h1"]
    [item] = await items_of(world, before)
    await world.cloud.maintenances.save(before, [replace(item, target=HostName("h3"))])
    await requests.start(world.cloud, before.id)
    assert (await rounds(world, before)).state == "done"
    [item] = await items_of(world, before)
    assert (item.state, item.target) == ("moved", "h1")
    await world.close()
