"""The process that announces: what delays notifications, what drops them, and that nothing else waits for it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from tests.booting import boot_server
from tools.nova_notifications import DATA
from whimbrel.adapters.sql.global_.announcements import SqlAnnouncements
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import CellName, ServerId, UserId
from whimbrel.domain.notification_rules import NotificationRules
from whimbrel.domain.run import Action
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.moves import requests
from whimbrel.notifications import announcer as announcing
from whimbrel.notifications.announcer import LEASE_S, Announcer
from whimbrel.notifications.versioned_objects import request_spec
from whimbrel.ports.cloud import Rules
from whimbrel.servers import edit, lookup
from whimbrel.servers.lifecycle import power
from whimbrel.sim.cloud.cloud import LARGE, PROJECT, SMALL, World
from whimbrel.sim.world.notification_sink import MemorySink

RULES = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, notifications=NotificationRules(enabled=True))
CREATED = [
    *("scheduler.select_destinations.start", "scheduler.select_destinations.end"),
    *("instance.create.start", "instance.create.end"),
]


class Room:
    """A cloud in two cells that marks what it does, and processes that announce."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sink = MemorySink()
        self.announcements = SqlAnnouncements(world.remains.databases["global"], SAGAS)
        self.engine = world.engine("e")
        self.first, self.second = self.process("first"), self.process("second")

    def process(self, name: str) -> Announcer:
        return Announcer(self.world.cloud, self.announcements, self.sink, SAGAS, name, "c1")

    async def server(self, name: str, host: Any = None) -> Server:
        new = self.world.new_server(name, SMALL)
        return await boot_server(self.world, self.engine, new, host)

    async def told(self, by: Announcer | None = None) -> list[str]:
        """Announce; return the events that were sent."""
        await (by or self.first).announce()
        found, self.sink.sent = self.sink.sent, []
        return [each.event for each in found]


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    found = Room(await World.build(cells={"c1": ("h1",), "c2": ("h2",)}, rules=RULES))
    yield found
    await found.world.close()


async def test_nothing_is_sent_twice_without_need(room: Room) -> None:
    await room.server("a")
    assert await room.told() == CREATED
    assert await room.told() == []


async def test_one_process_announces_and_another_takes_over(room: Room) -> None:
    await room.server("a")
    assert await room.told(room.first) == CREATED
    await room.server("b")
    await room.first.announce()  # extends the lease
    room.sink.sent.clear()
    await room.server("c")
    assert await room.announcements.hold("first", room.world.cloud.clock.now(), LEASE_S)
    assert await room.told(room.second) == []
    await room.world.cloud.clock.sleep(LEASE_S + 1)
    assert await room.told(room.second) == CREATED
    await room.server("d")
    await room.second.close()
    assert await room.told(room.first) == CREATED


async def test_a_broker_that_is_away_delays_all_and_says_so_once(room: Room) -> None:
    await room.server("a")
    room.sink.is_away = True
    with capture_logs() as logs:
        for _ in range(3):
            assert await room.told() == []
        room.sink.is_away = False
        assert await room.told() == CREATED
    assert [entry["log_level"] for entry in logs] == ["warning", "info"]


async def test_a_cell_that_is_down_delays_its_servers_only(room: Room) -> None:
    one, other = await room.server("a", "h1"), await room.server("b", "h2")
    assert (one.cell, other.cell) == ("c1", "c2")
    cells = dict(room.world.cloud.cells)
    room.world.cloud.cells.pop(CellName("c1"))  # type: ignore[attr-defined]
    assert await room.told() == CREATED
    room.world.cloud.cells.update(cells)  # type: ignore[attr-defined]
    assert await room.told() == CREATED


async def test_what_is_too_old_is_dropped_and_counted(room: Room) -> None:
    await room.server("a")
    await room.world.cloud.clock.sleep(RULES.notifications.backlog_s + 60)
    assert await room.told() == []
    backlog = (await room.world.cloud.journal.tally(0.0)).backlog
    assert backlog is not None
    assert (backlog.marked, backlog.sent, backlog.dropped) == (0, 0, len(CREATED))


async def test_a_server_that_cannot_be_composed_holds_up_no_other(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck, fine = sorted([await room.server("a"), await room.server("b")], key=lambda server: server.id)
    whole = announcing.occurrences

    def broken(run: Any, *more: Any) -> Any:
        if run.subject == stuck.id:
            raise AssertionError("a bug")
        return whole(run, *more)

    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr(announcing, "occurrences", broken)
        assert await room.told() == CREATED
        assert await room.told() == []
    assert [entry.get("server") for entry in logs] == [stuck.id]
    assert await room.told() == CREATED
    assert fine.id != stuck.id


async def test_lock_and_unlock_are_told_between_what_came_before_and_after(room: Room) -> None:
    server = await room.server("a")
    cloud = room.world.cloud
    for name, by in (("lock", "owner"), ("unlock", None)):
        server = await edit.change(cloud, server, {"locked_by": by})
        await cloud.clock.sleep(1.0)
        action = Action(
            server_id=ServerId(server.id),
            request_id=f"req-{name}",
            name=name,
            project_id=PROJECT,
            user_id=UserId("locker"),
            started_at=cloud.clock.now(),
        )
        await cloud.journal.add_action(action)
    await cloud.clock.sleep(1.0)
    await power.stop(cloud, room.engine, room.world.requester(), server)
    await room.world.settle(room.engine)
    await room.first.announce()
    assert [each.event for each in room.sink.sent] == [
        *CREATED,
        *("instance.lock", "instance.unlock"),
        *("instance.power_off.start", "instance.power_off.end"),
    ]
    locked, unlocked = room.sink.sent[len(CREATED) :][:2]
    assert (locked.request_id, locked.user_id) == ("req-lock", "locker")
    assert locked.payload[DATA]["locked"]
    assert not unlocked.payload[DATA]["locked"]


async def test_a_confirm_is_of_the_user_who_requested_it(room: Room) -> None:
    server = await room.server("a", "h1")
    cloud, owner = room.world.cloud, room.world.requester()
    await requests.resize(cloud, room.engine, owner, server, LARGE, leaves_cell=True)
    await room.world.settle(room.engine)
    admin = replace(owner, user_id=UserId("admin"), request_id="req-confirm")
    await requests.confirm(cloud, room.engine, admin, await lookup.find(cloud, server.id))
    await room.world.settle(room.engine)
    await room.first.announce()
    by = {each.event: (each.user_id, each.request_id) for each in room.sink.sent}
    assert by["instance.resize.start"] == (owner.user_id, owner.request_id)
    assert by["instance.resize_confirm.end"] == ("admin", "req-confirm")


async def test_a_search_for_a_host_tells_what_for(room: Room) -> None:
    server = await room.server("a", "h1")
    cloud, owner = room.world.cloud, room.world.requester()
    await requests.resize(cloud, room.engine, owner, server, LARGE, leaves_cell=True)
    await room.world.settle(room.engine)
    await room.first.announce()
    told = [each for each in room.sink.sent if each.event.startswith("scheduler.")]
    assert [each.publisher for each in told] == ["nova-scheduler:c1"] * 4
    flavors = [each.payload[DATA]["flavor"][DATA]["flavorid"] for each in told]
    assert flavors == [SMALL.flavor_id] * 2 + [LARGE.flavor_id] * 2
    asked = told[-1].payload[DATA]
    assert (asked["instance_uuid"], asked["num_instances"], asked["security_groups"]) == (server.id, 1, ["default"])


async def test_hints_are_lists_of_texts(room: Room) -> None:
    spec = RequestSpec(hints={"group": "g", "different_host": ["s1", "s2"]})
    found = request_spec(replace(room.world.new_server("a", SMALL), spec=spec), LARGE, "nova")[DATA]
    assert found["scheduler_hints"] == {"group": ["g"], "different_host": ["s1", "s2"]}
    assert found["availability_zone"] == "nova"


async def test_a_journal_that_does_not_answer_is_an_error(room: Room) -> None:
    class Away(SqlAnnouncements):
        async def hold(self, owner: str, now: float, lease_s: float) -> bool:
            raise Unavailable("no answer")

    away = Away(room.world.remains.databases["global"], SAGAS)
    with pytest.raises(Unavailable):
        await Announcer(room.world.cloud, away, room.sink, SAGAS, "x").announce()
