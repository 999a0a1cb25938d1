"""The load of hosts that report it is announced each minute, with Nova's names and whole numbers."""

from dataclasses import replace

import pytest

from tests.unit.notifications.test_changed_objects import check
from tools.nova_notifications import DATA
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import HostName
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.notifications.host_metrics import EVERY_S, HostMetrics
from whimbrel.ports.cloud import Rules
from whimbrel.sim.cloud.cloud import CELL, World
from whimbrel.sim.world.notification_sink import MemorySink

H1, H2 = HostName("h1"), HostName("h2")


async def reporting(*hosts: HostName) -> World:
    """Return a cloud where these hosts have reported their load."""
    rules = Rules(scheduler=SchedulerRules(metrics_weight_setting=("cpu.percent=-1.0",)))
    world = await World.build(rules=rules, seen_at=0.0)
    await world.cloud.cell(CELL).hosts.seen(hosts, world.cloud.clock.now())
    load = {"cpu.percent": 0.25, "cpu.user.percent": 0.123, "cpu.user.time": 7e9, "cpu.frequency": 2400.0}
    await world.cloud.cell(CELL).hosts.tell(dict.fromkeys(hosts, load))
    return world


async def test_the_load_of_a_host_is_announced_each_minute() -> None:
    world, sink = await reporting(H1), MemorySink()
    metrics = HostMetrics(world.cloud, sink)
    assert [await metrics.announce(), await metrics.announce()] == [1, 0]
    [sent] = sink.sent
    check(sent)
    assert (sent.event, sent.publisher, sent.payload[DATA]["nodename"]) == ("metrics.update", "nova-compute:h1", "h1")
    found = {each[DATA]["name"]: each[DATA]["value"] for each in sent.payload[DATA]["metrics"]}
    assert found == {"cpu.percent": 25, "cpu.user.percent": 12, "cpu.user.time": 7_000_000_000, "cpu.frequency": 2400}
    await world.cloud.clock.sleep(EVERY_S)
    assert await metrics.announce() == 0  # it is down by now
    await world.cloud.cell(CELL).hosts.seen([H1], world.cloud.clock.now())
    await world.cloud.clock.sleep(EVERY_S / 2)  # heartbeats are not read at every look
    assert await metrics.announce() == 1
    assert sink.sent[0].id != sink.sent[1].id
    await world.close()


async def test_hosts_that_report_nothing_are_not_announced_and_a_broker_may_be_away() -> None:
    world, sink = await reporting(H2), MemorySink()
    metrics = HostMetrics(world.cloud, sink)
    sink.is_away = True
    with pytest.raises(Unavailable):
        await metrics.announce()
    sink.is_away = False
    assert await metrics.announce() == 1
    assert [each.publisher for each in sink.sent] == ["nova-compute:h2"]
    world.cloud = replace(world.cloud, rules=Rules())
    assert await HostMetrics(world.cloud, sink).announce() == 0
    await world.close()
