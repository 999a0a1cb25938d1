"""At the end of each period all servers are accounted for, once each, also after a crash."""

import dataclasses
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.booting import boot_server
from tests.stories.test_unversioned import FIELDS
from tests.unit.notifications.test_changed_objects import check
from tools.nova_notifications import DATA
from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.domain.ids import CellName
from whimbrel.domain.notification_rules import AuditPeriod, NotificationRules
from whimbrel.domain.server import Server
from whimbrel.notifications import usage_audits
from whimbrel.notifications.usage_audits import UsageAudits, last_completed
from whimbrel.ports.cloud import Rules
from whimbrel.ports.services.notifications import Notification
from whimbrel.servers.lifecycle import delete
from whimbrel.sim.cloud.cloud import SMALL, World
from whimbrel.sim.world.notification_sink import MemorySink

EACH_HOUR = NotificationRules(
    enabled=True, notification_format="both", instance_usage_audit=True, instance_usage_audit_period="hour"
)
RULES = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, notifications=EACH_HOUR)
BOTH = ["compute.instance.exists", "instance.exists"]


class Room:
    def __init__(self, world: World) -> None:
        self.world = world
        self.engine = world.engine("e")
        self.sink = MemorySink()
        self.keep = MemoryKeyValueStore()

    async def server(self, name: str, host: str = "h1") -> Server:
        new = self.world.new_server(name, SMALL)
        return await boot_server(self.world, self.engine, new, host)

    async def end_period(self) -> None:
        now = self.world.cloud.clock.now()
        await self.world.cloud.clock.sleep(3600 - now % 3600 + 1)

    async def told(self) -> list[Notification]:
        """Announce in a new process; return what was sent."""
        await UsageAudits(self.world.cloud, self.keep, self.sink, "c1").announce()
        found, self.sink.sent = self.sink.sent, []
        return found


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    found = Room(await World.build(cells={"c1": ("h1",), "c2": ("h2",)}, rules=RULES))
    await found.end_period()
    yield found
    await found.world.close()


async def test_each_server_is_accounted_for_once_in_each_period(room: Room) -> None:
    servers = [await room.server("a", "h1"), await room.server("b", "h2")]
    assert await room.told() == []  # they were not there in the last hour
    await room.end_period()
    told = await room.told()
    assert sorted(each.event for each in told) == sorted(BOTH * 2)
    assert await room.told() == []
    for each in told:
        if each.is_versioned:
            check(each)
            period = each.payload[DATA]["audit_period"][DATA]
            beginning, ending = period["audit_period_beginning"], period["audit_period_ending"]
            assert datetime.fromisoformat(ending).timestamp() - datetime.fromisoformat(beginning).timestamp() == 3600
        else:
            assert set(each.payload) == FIELDS[each.event]
    assert {each.payload["instance_id"] for each in told if not each.is_versioned} == {one.id for one in servers}
    assert {each.publisher for each in told} == {"compute.h1", "compute.h2", "nova-compute:h1", "nova-compute:h2"}
    await room.end_period()
    again = await room.told()
    assert len(again) == 4
    assert not {each.id for each in again} & {each.id for each in told}


async def test_a_deleted_server_is_accounted_for_in_its_last_period(room: Room) -> None:
    server = await room.server("a")
    await delete.accept(room.world.cloud, room.engine, room.world.requester(), server)
    await room.world.settle(room.engine)
    await room.end_period()
    assert [each.event for each in await room.told()] == BOTH
    await room.end_period()
    assert await room.told() == []


async def test_pages_follow_each_other_and_a_crash_repeats_the_same_ids(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        await room.server(name)
    await room.end_period()
    monkeypatch.setattr(usage_audits, "PAGE", 1)
    told = [await room.told() for _ in range(4)]
    assert [len(each) for each in told] == [2, 2, 2, 0]
    room.keep = MemoryKeyValueStore()  # nothing of it was noted
    assert [each.id for each in await room.told()] == [each.id for each in told[0]]


async def test_a_cell_that_is_down_is_made_up_for(room: Room) -> None:
    await room.server("a", "h1")
    late = await room.server("b", "h2")
    await room.end_period()
    cells = dict(room.world.cloud.cells)
    room.world.cloud.cells.pop(CellName("c2"))  # type: ignore[attr-defined]
    assert len(await room.told()) == 2
    room.world.cloud.cells.update(cells)  # type: ignore[attr-defined]
    [unversioned, _] = await room.told()
    assert unversioned.payload["instance_id"] == late.id


async def test_nothing_is_sent_unless_that_is_set(room: Room) -> None:
    await room.server("a")
    await room.end_period()
    off = replace(RULES, notifications=replace(EACH_HOUR, instance_usage_audit=False))
    room.world.cloud = dataclasses.replace(room.world.cloud, rules=off)
    assert await room.told() == []


@pytest.mark.parametrize(
    ("period", "beginning", "ending"),
    [
        ("hour", "2026-03-01T12:00", "2026-03-01T13:00"),
        ("day", "2026-02-28T00:00", "2026-03-01T00:00"),
        ("month", "2026-02-01T00:00", "2026-03-01T00:00"),
        ("year", "2025-01-01T00:00", "2026-01-01T00:00"),
    ],
)
def test_periods_are_those_of_the_calendar(period: AuditPeriod, beginning: str, ending: str) -> None:
    now = datetime(2026, 3, 1, 13, 59, 1, tzinfo=UTC).timestamp()
    found = [datetime.fromtimestamp(each, UTC).strftime("%Y-%m-%dT%H:%M") for each in last_completed(now, period)]
    assert found == [beginning, ending]
