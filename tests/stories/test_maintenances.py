"""Maintenances: hosts are emptied by a plan, whatever dies meanwhile; no server is moved twice."""

from dataclasses import replace as with_fields
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from tests.stories.maintaining import CAREFUL, RULES, boot, home, items_of, moves_of, planned, rounds, traits_of
from whimbrel.domain.errors import Conflict, Invalid, Unavailable
from whimbrel.domain.ids import HostName, ProviderId
from whimbrel.domain.maintenance_plan import Budgets, Maintenance, MaintenanceItem, MaintenanceOptions
from whimbrel.domain.run import Action, Run
from whimbrel.domain.time_windows import Windows
from whimbrel.maintenance import operator_requests as requests
from whimbrel.maintenance.execution import carry_on_all
from whimbrel.maintenance.progress_estimate import progress_of
from whimbrel.moves import live_requests
from whimbrel.moves import requests as moves
from whimbrel.ports.placement.placement import DISABLED
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create, power
from whimbrel.sim.cloud.cloud import LARGE, World


async def test_a_host_is_emptied_and_takes_no_servers_from_its_start() -> None:
    world = await World.build(rules=RULES)
    servers = [await boot(world, f"s{number}", "h1") for number in range(3)]
    found = await planned(world)
    plan = await items_of(world, found)
    assert [(item.kind, item.state, item.source) for item in plan] == [("live", "planned", "h1")] * 3
    assert all(item.target in ("h2", "h3") for item in plan)
    assert (await world.cloud.cell(servers[0].cell or "").hosts.get(HostName("h1"))).enabled  # type: ignore[arg-type]
    await requests.start(world.cloud, found.id)
    host = (await requests.hosts_named(world.cloud, ["h1"]))[0]
    assert (host.enabled, host.disabled_reason) == (False, f"maintenance disks ({found.id})")
    found = await rounds(world, found)
    assert (found.state, found.message) == ("done", None)
    ended = await items_of(world, found)
    assert [await home(world, server) for server in servers] != ["h1"] * 3
    assert {item.target for item in ended} == {item.target for item in plan}
    assert progress_of(found, ended).moved == 3
    with pytest.raises(Conflict, match="only a planned one"):
        await requests.start(world.cloud, found.id)
    await world.close()


async def test_what_cannot_move_is_named_before_anything_starts() -> None:
    world = await World.build(rules=RULES, cells={"c1": ("h1", "h2")})
    await boot(world, "big", "h1", LARGE)
    await boot(world, "large", "h1", LARGE)
    await boot(world, "other", "h2", LARGE)
    plan = await items_of(world, await planned(world))
    assert [(item.state, item.target) for item in plan] == [("planned", "h2"), ("stays", None)]
    assert "no room for 2 VCPU" in (plan[1].reason or "")
    with pytest.raises(Invalid, match=r"There is no host h9, .*: whimbrel host list shows"):
        await requests.hosts_named(world.cloud, ["h1", "h9"])
    await world.close()


async def test_the_old_guest_of_a_move_that_waits_for_its_verdict_is_named() -> None:
    """The server is elsewhere, but a revert needs what it left behind: the host is not empty."""
    world = await World.build(rules=RULES)
    engine, server = world.engine("setup"), await boot(world, "s", "h1")
    await moves.migrate(world.cloud, engine, world.requester(), server, None)
    await world.settle(engine)
    target = await home(world, server)
    found = await planned(world)
    [item] = await items_of(world, found)
    assert (item.server_id, item.source, item.state) == (server.id, "h1", "stays")
    why = f"its migrate to {target} waits to be confirmed or reverted: until then its old guest stays here"
    assert item.reason == why
    await requests.start(world.cloud, found.id)
    found = await requests.pause(world.cloud, found.id)
    await requests.resume(world.cloud, found.id, retries_failed=True)
    assert (await rounds(world, found)).state == "done"
    [item] = await items_of(world, found)
    assert (item.state, item.reason) == ("stays", why)  # its revert is still possible
    await world.close()


async def test_a_stopped_server_moves_cold_and_is_confirmed() -> None:
    world = await World.build(rules=RULES)
    server = await boot(world, "s", "h1")
    await power.stop(world.cloud, world.engine("setup"), world.requester(), server)
    await world.settle(world.engine("setup"))
    found = await planned(world)
    [item] = await items_of(world, found)
    assert (item.kind, item.downtime, item.state) == ("cold", False, "planned")
    await requests.start(world.cloud, found.id)
    assert (await rounds(world, found)).state == "done"
    after = await lookup.find(world.cloud, server.id)
    assert (after.host == item.target, after.vm_state) == (True, "stopped")
    await world.close()


async def test_budgets_limit_what_is_under_way() -> None:
    world = await World.build(rules=RULES)
    for number in range(4):
        await boot(world, f"s{number}", "h1")
    found = await planned(world, MaintenanceOptions(budgets=Budgets(at_once=3, host_at_once=2)))
    await requests.start(world.cloud, found.id)
    for name in ("one", "two"):
        await carry_on_all(world.cloud, world.engine(name))
        assert progress_of(found, await items_of(world, found)).moving == 2
    assert (await rounds(world, found)).state == "done"
    await world.close()


@pytest.mark.parametrize("budget", ["zone_at_once", "aggregate_at_once", "project_at_once"])
async def test_budgets_of_zones_aggregates_and_projects_limit_what_is_under_way(budget: str) -> None:
    """The zone and the project have all servers; the aggregate only one of the two hosts that are emptied."""
    world = await World.build(("h1", "h2", "h3", "h4"), rules=RULES)
    for number in range(4):
        await boot(world, f"s{number}", "h1" if number < 2 else "h2")
    rack = await world.cloud.aggregates.create("rack", world.cloud.ids.uuid(), {}, 0.0)
    await world.cloud.aggregates.add_host(rack.id, HostName("h1"), 0.0)
    options = MaintenanceOptions(budgets=Budgets(**{budget: 1}))  # type: ignore[arg-type]
    found = await planned(world, options, "h1", "h2")
    await requests.start(world.cloud, found.id)
    for name in ("one", "two"):
        await carry_on_all(world.cloud, world.engine(name))
        moving = [item for item in await items_of(world, found) if item.state == "moving"]
        sources = [item.source for item in moving]
        assert (sources.count("h1"), len(moving)) == (1, 3 if budget == "aggregate_at_once" else 1)
    assert (await rounds(world, found)).state == "done"
    await world.close()


async def test_moves_start_within_the_windows_only() -> None:
    world = await World.build(rules=RULES)
    servers = [await boot(world, f"s{number}", "h1") for number in range(2)]
    clock = world.remains.clock
    begin = (int(clock.now()) // 3600 + 2) % 24
    windows = Windows(texts=(f"{begin:02}:00-{begin:02}:30",))
    found = await planned(world, MaintenanceOptions(budgets=Budgets(at_once=1), windows=windows))
    await requests.start(world.cloud, found.id)

    async def counts() -> tuple[int, int, int]:
        await carry_on_all(world.cloud, world.engine(f"conductor{clock.now()}"))
        now = progress_of(found, await items_of(world, found))
        return now.moved, now.moving, now.planned

    assert await counts() == (0, 0, 2)
    clock.advance((windows.changes_at(clock.now()) or 0.0) - clock.now())
    assert await counts() == (0, 1, 1)
    clock.advance((windows.changes_at(clock.now()) or 0.0) - clock.now())
    assert await counts() == (0, 1, 1)
    await world.settle(world.engine("steps"))
    assert await counts() == (1, 0, 1)  # its end is noted outside of the window as well
    assert (await world.cloud.maintenances.get(found.id)).state == "running"
    clock.advance(86_400.0 - 1800.0)
    assert await counts() == (1, 1, 0)
    await world.settle(world.engine("steps"))
    assert (await rounds(world, found)).state == "done"
    assert [len(await moves_of(world, server.id)) for server in servers] == [1, 1]
    await world.close()


async def test_the_trouble_of_one_maintenance_keeps_no_other_back() -> None:
    """Each of four has its turn, and an error of its own in the log: two under way, and two that were aborted."""
    world = await World.build(("h1", "h2", "h3", "h4", "h5"), rules=RULES)
    for host in ("h1", "h2"):
        await boot(world, f"of{host}", host)
    made = {host: await planned(world, CAREFUL, host) for host in ("h1", "h2", "h3", "h4")}
    for host in ("h3", "h4"):
        await requests.start(world.cloud, made[host].id)
        await requests.abort(world.cloud, made[host].id)
    await carry_on_all(world.cloud, world.engine("before"))
    for host in ("h3", "h4"):
        assert (await world.cloud.maintenances.get(made[host].id)).state == "aborted"
        [row] = await requests.hosts_named(world.cloud, [host])
        await world.placement.set_disabled(row.id, True)  # by a round that was slow
    for host in ("h1", "h2"):
        await requests.start(world.cloud, made[host].id)

    class Silent:
        """Maintenances; the items of one are not to be read."""

        def __getattr__(self, name: str) -> Any:
            return getattr(world.cloud.maintenances, name)

        async def items(self, maintenance_id: str) -> list[MaintenanceItem]:
            if maintenance_id == made["h1"].id:
                raise Unavailable("no answer about h1")
            return await world.cloud.maintenances.items(maintenance_id)

    class Stubborn:
        """Placement; one of its hosts cannot be changed."""

        def __getattr__(self, name: str) -> Any:
            return getattr(world.placement, name)

        async def set_disabled(self, provider: ProviderId, disabled: bool) -> None:
            if provider == silent:
                raise Unavailable("no answer about h3")
            await world.placement.set_disabled(provider, disabled)

    [row] = await requests.hosts_named(world.cloud, ["h3"])
    silent = row.id
    cloud: Any = with_fields(world.cloud, maintenances=Silent(), placement=Stubborn())
    with capture_logs() as logs, pytest.raises(Unavailable, match="about h1"):
        await carry_on_all(cloud, world.engine("conductor", cloud))
    told = {(each["id"], each["reason"]) for each in logs if each["event"] == "a maintenance does not go on"}
    assert told == {(made["h1"].id, "no answer about h1"), (made["h3"].id, "no answer about h3")}
    assert progress_of(made["h2"], await items_of(world, made["h2"])).planned == 0
    assert DISABLED not in await traits_of(world, "h4")
    await world.close()


async def test_nothing_starts_while_paused_or_after_an_abort() -> None:
    world = await World.build(rules=RULES)
    servers = [await boot(world, f"s{number}", "h1") for number in range(3)]
    found = await planned(world, MaintenanceOptions(budgets=Budgets(at_once=1)))
    await requests.start(world.cloud, found.id)
    engine = world.engine("conductor")
    await carry_on_all(world.cloud, engine)
    await requests.pause(world.cloud, found.id)
    await world.settle(engine)
    await carry_on_all(world.cloud, engine)
    counts = progress_of(found, await items_of(world, found))
    assert (counts.moved, counts.moving, counts.planned) == (1, 0, 2)
    assert (await requests.resume(world.cloud, found.id)).state == "running"
    await carry_on_all(world.cloud, engine)
    assert (await requests.abort(world.cloud, found.id)).state == "aborting"
    host = (await requests.hosts_named(world.cloud, ["h1"]))[0]
    assert (host.enabled, host.disabled_reason) == (True, None)
    assert progress_of(found, await items_of(world, found)).moving == 1
    assert (await rounds(world, found)).state == "aborted"
    counts = progress_of(found, await items_of(world, found))
    assert (counts.moved, counts.moving, counts.planned) == (2, 0, 1)
    assert sum([len(await moves_of(world, server.id)) for server in servers]) == 2
    await world.close()


async def test_a_round_that_was_slow_starts_nothing_after_an_abort() -> None:
    """What it has read is outdated: the journal refuses its run in the transaction that would accept it."""
    world = await World.build(rules=RULES)
    server = await boot(world, "s", "h1")
    found = await planned(world)
    await requests.start(world.cloud, found.id)

    class Slow:
        """Aborts the maintenance between the read of a round and the start of its move."""

        def __getattr__(self, name: str) -> Any:
            return getattr(world.cloud.journal, name)

        async def accept(self, run: Run[Any], action: Action, *more: Any, **named: Any) -> Run[Any]:
            await requests.abort(world.cloud, found.id)
            return await world.cloud.journal.accept(run, action, *more, **named)

    slow: Any = with_fields(world.cloud, journal=Slow())
    await carry_on_all(slow, world.engine("slow", slow))
    assert await moves_of(world, server.id) == []
    assert (await rounds(world, found)).state == "aborted"
    assert await home(world, server) == "h1"
    await world.close()


async def test_a_start_that_was_slow_leaves_no_host_disabled_after_an_abort() -> None:
    world = await World.build(rules=RULES)
    found = await planned(world, CAREFUL, "h1", "h2")

    class Slow:
        """Has the maintenance aborted, to its end, before the trait of the first host is set."""

        def __getattr__(self, name: str) -> Any:
            return getattr(world.cloud.placement, name)

        async def set_disabled(self, host: ProviderId, is_disabled: bool) -> None:
            if (await world.cloud.maintenances.get(found.id)).state == "running":
                await requests.abort(world.cloud, found.id)
                assert (await rounds(world, found)).state == "aborted"
            await world.cloud.placement.set_disabled(host, is_disabled)

    await requests.start(with_fields(world.cloud, placement=Slow()), found.id)
    assert DISABLED in await traits_of(world, "h2")
    await carry_on_all(world.cloud, world.engine("conductor"))
    for host in await requests.hosts_named(world.cloud, ["h1", "h2"]):
        assert (host.enabled, host.disabled_reason) == (True, None)
        assert DISABLED not in await traits_of(world, host.name)
    await world.close()


async def test_a_host_is_in_one_maintenance_at_a_time() -> None:
    world = await World.build(rules=RULES)
    await boot(world, "s", "h1")
    first, second = await planned(world), await planned(world, CAREFUL, "h2", "h1")
    await requests.start(world.cloud, first.id)
    with pytest.raises(Conflict, match=r"disks \(.*\) is running, and has h1 as well"):
        await requests.start(world.cloud, second.id)
    assert (await world.cloud.maintenances.get(second.id)).state == "planned"
    await world.close()


@pytest.mark.parametrize("drift", ["replan", "pause"])
async def test_a_target_that_filled_up_meanwhile_is_noticed(drift: Any) -> None:
    world = await World.build(rules=RULES)
    server = await boot(world, "s", "h1", LARGE)
    found = await planned(world, MaintenanceOptions(on_drift=drift))
    [item] = await items_of(world, found)
    assert item.target
    for number in range(2):
        await boot(world, f"late{number}", item.target, LARGE)
    await requests.start(world.cloud, found.id)
    found = await rounds(world, found)
    [after] = await items_of(world, found)
    if drift == "pause":
        assert (found.state, after.state, await home(world, server)) == ("paused", "planned", "h1")
        assert "no room for 2 VCPU" in (found.message or "")
    else:
        assert (found.state, after.state) == ("done", "moved")
        assert await home(world, server) not in ("h1", item.target)
    await world.close()


async def test_failures_pause_it_and_a_resume_tries_them_again() -> None:
    world = await World.build(rules=RULES)
    servers = [await boot(world, f"s{number}", "h1", LARGE) for number in range(2)]
    found = await planned(world, MaintenanceOptions(budgets=Budgets(most_failed=0)))
    fillers = [await boot(world, f"full{host}{number}", host, LARGE) for host in ("h2", "h3") for number in range(2)]
    await requests.start(world.cloud, found.id)
    found = await rounds(world, found)
    assert (found.state, found.message) == ("paused", "2 moves failed since it was started.")
    assert len(fillers) == 4
    with pytest.raises(Conflict, match="only a planned one"):
        await requests.start(world.cloud, found.id)
    resumed = await requests.resume(world.cloud, found.id, retries_failed=True)
    assert progress_of(resumed, await items_of(world, resumed)).planned == len(servers)
    await world.close()


class Overtaken:
    """Placement; a maintenance starts between the choice of a host and the first claim."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.chosen: HostName | None = None  # the host of that claim
        self.maintenance: Maintenance | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.placement, name)

    async def claim(self, *arguments: Any) -> None:
        if self.chosen is None:
            root = arguments[-1].root
            fleet = await self._world.cloud.fleets.now()
            [self.chosen] = [host.name for host in fleet.hosts if host.id == root]
            planned_now = await planned(self._world, CAREFUL, self.chosen)
            self.maintenance = await requests.start(self._world.cloud, planned_now.id)
        await self._world.placement.claim(*arguments)


@pytest.mark.parametrize("what", ["create", "migrate", "migrate live"])
async def test_nothing_lands_on_a_host_that_was_chosen_before_the_maintenance_began(what: str) -> None:
    world = await World.build(rules=RULES)
    overtaken = Overtaken(world)
    cloud: Any = with_fields(world.cloud, placement=overtaken)
    engine = world.engine("slow", cloud)
    if what == "create":
        server = world.new_server("s")
        await create.accept(cloud, engine, world.requester(), [server])
    else:
        server = await boot(world, "s", "h1")
        ask = moves.migrate if what == "migrate" else live_requests.migrate_live
        await ask(cloud, engine, world.requester(), server, None)
    await world.settle(engine)
    assert overtaken.chosen
    assert overtaken.maintenance
    assert overtaken.maintenance.has_disabled
    after = await lookup.find(world.cloud, server.id)
    expected = "resized" if what == "migrate" else "active"  # it waits for its verdict there
    assert (after.vm_state, after.host == overtaken.chosen) == (expected, False)
    assert (await rounds(world, overtaken.maintenance)).message is None
    await world.close()


async def test_a_host_is_disabled_for_claims_before_any_move_starts() -> None:
    """Placement does not answer while the hosts are disabled: the start is repeated until it does."""
    world = await World.build(rules=RULES)
    server = await boot(world, "s", "h1")
    found = await planned(world)

    class Silent:
        answers = False

        def __getattr__(self, name: str) -> Any:
            return getattr(world.placement, name)

        async def set_disabled(self, provider: ProviderId, disabled: bool) -> None:
            if not self.answers:
                raise Unavailable("no answer from Placement")
            await world.placement.set_disabled(provider, disabled)

    silent = Silent()
    cloud: Any = with_fields(world.cloud, placement=silent)
    assert not (await requests.start(cloud, found.id)).has_disabled
    with pytest.raises(Unavailable):
        await carry_on_all(cloud, world.engine("conductor", cloud))
    assert await moves_of(world, server.id) == []
    silent.answers = True
    await carry_on_all(cloud, world.engine("conductor", cloud))
    assert DISABLED in await traits_of(world, "h1")
    assert len(await moves_of(world, server.id)) == 1
    silent.answers = False
    assert (await requests.abort(cloud, found.id)).state == "aborting"
    assert DISABLED in await traits_of(world, "h1")
    assert (await rounds(world, found)).state == "aborted"
    assert DISABLED not in await traits_of(world, "h1")
    await world.close()


def test_the_remaining_time_is_estimated_from_the_moves_that_ended() -> None:
    found = Maintenance(
        id="m", name="n", target="host h1", hosts=(), options=MaintenanceOptions(budgets=Budgets(at_once=2)),
        user_id="u", project_id="p", state="running", created_at=0.0, updated_at=0.0,
    )  # type: ignore[arg-type]  # fmt: skip
    item = MaintenanceItem(
        position=0, server_id="s", server_name="s", source="h1", kind="live", target="h2", state="planned"
    )  # type: ignore[arg-type]  # fmt: skip
    moved = replace(item, state="moved", started_at=10.0, finished_at=70.0)
    assert progress_of(found, [item]).remaining_s is None
    assert progress_of(found, [moved, item, item, item]).remaining_s == 120.0
    assert progress_of(found, [moved]).remaining_s is None
