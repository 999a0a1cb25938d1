"""The fleet as one process knows it: when it is read again, and what becomes of a cell that does not answer."""

import asyncio
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from structlog.testing import capture_logs

from tests.hand_clock import HandClock
from tests.simulated_time import anyio_backend
from tests.unit.scheduling.capacity import NO_RULES, host
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host import Aggregate, Host
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.fleet import Fleet, Load
from whimbrel.ports.stores.hosts import HostNews
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.scheduling.cell_hosts import BEATS_EACH_S, DOWN_FOR_S, OUTDATED_AFTER_S, WHOLE_EACH_S
from whimbrel.scheduling.fleet import MAX_AGE_IN_READS, MAX_AGE_S, KnownFleet

__all__ = ["anyio_backend"]

NOW = 5000.0
C1, C2 = CellName("c1"), CellName("c2")
Result = TypeVar("Result")


@dataclass
class OneCell:
    """All stores of a cell in one, which may be silent."""

    name: CellName
    has: list[Host]
    is_down: bool = False
    hangs: bool = False
    answers: asyncio.Event = field(default_factory=asyncio.Event)  # ends that it hangs
    asked: int = 0
    changes: int = 0
    whole: int = 0  # of these, how often for everything
    changed: set[HostName] = field(default_factory=set)  # since it was asked last
    servers_of: dict[HostName, int] = field(default_factory=dict)
    seen_at: float = 0.0
    forgotten: list[int] = field(default_factory=list)
    searched: list[str | None] = field(default_factory=list)

    async def news(self, mark: int | None, *, images: bool = False) -> HostNews:
        self.asked += 1
        if self.hangs:
            await self.answers.wait()
        if self.is_down:
            raise Unavailable("no answer")
        self.whole += mark is None
        hosts = [one for one in self.has if mark is None or one.name in self.changed]
        loads = {one.name: Load(servers=self.servers_of.get(one.name, 3)) for one in hosts}
        first = self.has[0].name
        if first in loads:
            loads[first] = replace(loads[first], pci=2, free_pci=1, failed_builds=4)
        by_image = {one.name: {"image": 2} for one in hosts if images and one.name == first}
        changed = frozenset(self.changed if mark is not None else ())
        self.changed = set()
        return HostNews(mark=1, newest=self.whole, changed=changed, hosts=hosts, loads=loads, images=by_image)

    async def beats(self) -> dict[HostName, tuple[float, dict[str, float]]]:
        return {one.name: (self.seen_at, {}) for one in self.has}

    async def forget_news(self, until: int) -> None:
        self.forgotten.append(until)

    async def find(self, query: ServerQuery) -> list[Any]:
        self.searched.append(query.image_id)
        return [SimpleNamespace(image_properties={"os_distro": "linux"})]

    @property
    def stores(self) -> Any:
        return self

    hosts = servers = devices = stores


@dataclass
class Written:
    """What is recorded of aggregates, or of cells."""

    has: list[Any] = field(default_factory=list)
    changes: int = 0
    is_down: bool = False
    zone_names: dict[str, str] = field(default_factory=dict)

    async def all(self) -> list[Any]:
        if self.is_down:
            raise Unavailable("no answer")
        return self.has

    async def with_zone_names(self) -> tuple[list[Any], dict[str, str]]:
        return await self.all(), dict(self.zone_names)


async def all_is_done() -> None:
    """Wait until everything else waits."""
    await asyncio.sleep(0.1)


class Reading:
    def __init__(self, scheduler: SchedulerRules = NO_RULES, **rules: float) -> None:
        self.one, self.two = OneCell(C1, [host("a"), host("b")]), OneCell(C2, [host("c", cell=C2)])
        self.clock, self.infos = HandClock(), Written([CellInfo(name=C1), CellInfo(name=C2, enabled=False)])
        self.aggregates = Written([Aggregate(id=1, uuid="a1", name="a1")])
        cells, infos, written = cast(Any, ({C1: self.one, C2: self.two}, self.infos, self.aggregates))
        self.fleets = KnownFleet(cells, infos, written, self.clock, Rules(scheduler=scheduler, **rules))

    async def now(self) -> Fleet:
        return await self.fleets.now()

    async def later(self, seconds: float) -> Fleet:
        await self.clock.advance(seconds)
        return await self.now()


async def test_all_cells_are_in_it_with_what_is_written_down_of_them() -> None:
    fleet = await Reading().now()
    assert fleet.names == ("a", "b", "c")
    assert fleet.servers.tolist() == [3, 3, 3]
    assert (fleet.pci.tolist(), fleet.free_pci.tolist()) == ([2, 0, 2], [1, 0, 1])
    assert fleet.failed_builds.tolist() == [4, 0, 4]
    assert not fleet.cells[C2].enabled


async def test_it_is_read_again_when_it_has_aged_or_was_changed_here() -> None:
    reading = Reading()
    assert reading.fleets.known() is None
    first = await reading.now()
    assert (await reading.later(MAX_AGE_S * 0.9)) is first is reading.fleets.known()
    assert reading.one.asked == 1
    assert (await reading.later(MAX_AGE_S * 0.2)) is first  # nothing has changed
    assert reading.one.asked == 2
    for number, written in enumerate((reading.infos, reading.aggregates, reading.one), 3):
        written.changes += 1
        assert reading.fleets.known() is None
        await reading.now()
        assert reading.one.asked == number


async def test_names_of_zones_are_read_with_it() -> None:
    reading = Reading()
    reading.aggregates.zone_names = {"z1": "east"}
    fleet = await reading.now()
    assert (fleet.zone_name("z1"), fleet.zone_name("nova")) == ("east", "nova")
    reading.aggregates.zone_names = {"z1": "sunrise"}
    assert (await reading.later(MAX_AGE_S * 1.1)).zone_name("z1") == "sunrise"


async def test_only_what_changed_is_read() -> None:
    a_while = MAX_AGE_S * 1.1
    reading = Reading()
    rows = (await reading.now()).row
    reading.one.servers_of = {HostName("a"): 5, HostName("b"): 7}
    reading.one.changed = {HostName("b")}
    fleet = await reading.later(a_while)
    assert fleet.servers.tolist() == [3, 7, 3]
    assert fleet.row is rows, "its hosts are the same"
    reading.one.has[1] = host("b", enabled=False)
    reading.one.changed = {HostName("b")}
    assert (await reading.later(a_while)).enabled.tolist() == [True, False, True]
    reading.one.has = [host("a"), host("d", number=9)]
    reading.one.changed = {HostName("b"), HostName("d")}
    assert (await reading.later(a_while)).names == ("a", "d", "c")
    assert reading.one.whole == 1


async def test_heartbeats_are_read_now_and_then() -> None:
    reading = Reading()
    first = await reading.now()
    reading.one.seen_at = reading.two.seen_at = NOW
    assert await reading.later(BEATS_EACH_S * 0.9) is first
    fleet = await reading.later(BEATS_EACH_S * 0.2)
    assert [one.seen_at for one in fleet.hosts] == [NOW] * 3
    assert reading.one.whole == 1


async def test_now_and_then_everything_is_read_and_what_nobody_asks_for_is_forgotten() -> None:
    reading = Reading()
    reading.one.servers_of = {HostName("a"): 5}
    await reading.now()
    reading.one.servers_of = {HostName("a"): 6}  # nobody notes it
    assert (await reading.later(WHOLE_EACH_S * 0.9)).servers.tolist() == [5, 3, 3]
    assert (await reading.later(WHOLE_EACH_S * 0.2)).servers.tolist() == [6, 3, 3]
    assert reading.one.forgotten == []
    await reading.later(WHOLE_EACH_S)
    assert reading.one.forgotten == [1]  # what was the newest change two reads ago


async def test_images_are_read_where_they_count_and_each_is_learnt_once() -> None:
    assert (await Reading().now()).images == {}
    reading = Reading(SchedulerRules(image_props_weight_multiplier=1.0))
    fleet = await reading.now()
    assert fleet.images == {"a": {"image": 2}, "c": {"image": 2}}
    assert fleet.image_properties == {"image": {"os_distro": "linux"}}
    await reading.later(MAX_AGE_S * 2)
    assert reading.one.searched + reading.two.searched == ["image"]
    by_aggregate = Reading()
    by_aggregate.aggregates.has[0].metadata["image_props_weight_multiplier"] = "1"
    assert (await by_aggregate.now()).images == fleet.images


async def test_a_cell_that_does_not_answer_leaves_the_others_alone() -> None:
    reading = Reading()
    reading.one.is_down = True
    with capture_logs() as logs:
        fleet = await reading.now()
        assert (fleet.names, fleet.unreachable) == (("c",), {C1})
        assert (await reading.later(DOWN_FOR_S + MAX_AGE_S)).names == ("c",)
    assert [(one["log_level"], one["cell"]) for one in logs] == [("warning", "c1")]  # said once
    assert reading.one.asked == 2


async def test_a_cell_that_was_down_is_not_asked_for_a_while_and_then_is_back() -> None:
    reading = Reading()
    reading.one.is_down = True
    await reading.now()
    reading.one.is_down = False
    assert (await reading.later(MAX_AGE_S)).names == ("c",)
    assert reading.one.asked == 1
    with capture_logs() as logs:
        assert (await reading.later(DOWN_FOR_S)).names == ("a", "b", "c")
    assert [(one["log_level"], one["cell"]) for one in logs] == [("info", "c1")]


# Many callers, and cells that are slow


async def _busy(reading: Reading) -> asyncio.Task[Fleet]:
    """Start a decision that waits for the second cell."""
    reading.two.hangs = True
    asked = asyncio.create_task(reading.fleets.now())
    await all_is_done()
    return asked


async def test_all_that_ask_at_the_same_time_wait_for_one_read() -> None:
    reading = Reading()
    first = await _busy(reading)
    others = [asyncio.create_task(reading.fleets.now()) for _ in range(50)]
    await all_is_done()
    first.cancel()  # the read is not its own
    await all_is_done()
    reading.two.answers.set()
    [fleet, *same] = await asyncio.gather(*others)
    assert fleet.names == ("a", "b", "c")
    assert all(each is fleet for each in same)
    assert (reading.one.asked, reading.two.asked) == (1, 1)


async def test_a_read_that_began_before_a_change_is_not_enough_after_it() -> None:
    reading = Reading()
    before = await _busy(reading)
    reading.one.changes += 1
    after = [asyncio.create_task(reading.fleets.now()) for _ in range(5)]
    await all_is_done()
    assert reading.one.asked == 1
    reading.two.answers.set()
    [fleet, *same] = await asyncio.gather(*after)
    assert await before is fleet  # it turned out that nothing was another
    assert all(each is fleet for each in same)
    assert reading.one.asked == 2


async def test_an_error_reaches_all_that_wait_and_the_next_one_asks_again() -> None:
    reading = Reading()
    waiting = [await _busy(reading), asyncio.create_task(reading.fleets.now())]
    await all_is_done()
    reading.infos.is_down = True
    reading.two.answers.set()
    assert [type(each) for each in await asyncio.gather(*waiting, return_exceptions=True)] == [Unavailable] * 2
    reading.infos.is_down = False
    assert (await reading.fleets.now()).names == ("a", "b", "c")


async def test_a_read_that_takes_long_serves_for_longer() -> None:
    reading = Reading()
    waiting = await _busy(reading)
    await reading.clock.advance(MAX_AGE_S * 2)
    reading.two.answers.set()
    fleet = await waiting
    await reading.clock.advance(MAX_AGE_S * 2 * (MAX_AGE_IN_READS - 1) * 0.9)
    assert await reading.fleets.now() is fleet
    assert reading.one.asked == 1
    await reading.clock.advance(MAX_AGE_S)
    await reading.fleets.now()
    assert reading.one.asked == 2


async def test_nobody_waits_for_long_for_a_cell_that_hangs_and_one_at_most() -> None:
    reading = Reading()
    reading.two.hangs = True
    fleet = await reading.fleets.now()
    assert (fleet.names, fleet.unreachable) == (("a", "b"), {C2})
    await reading.clock.advance(MAX_AGE_S * 1.1)
    assert (await reading.fleets.now()).unreachable == {C2}
    assert (reading.one.asked, reading.two.asked) == (2, 1)
    reading.two.answers.set()
    await all_is_done()
    await reading.clock.advance(MAX_AGE_S * 1.1)
    assert (await reading.fleets.now()).names == ("a", "b", "c")


async def _slow(reading: Reading) -> Fleet:
    """Read a cell, then again when it is slow; return what is known then."""
    await reading.fleets.now()
    reading.two.hangs = True
    await reading.clock.advance(MAX_AGE_S * 1.1)
    return await reading.fleets.now()


async def test_a_cell_that_is_slow_is_taken_as_it_was() -> None:
    reading = Reading()
    fleet = await _slow(reading)
    assert (fleet.names, fleet.unreachable) == (("a", "b", "c"), frozenset())
    await reading.clock.advance(OUTDATED_AFTER_S)
    assert (await reading.fleets.now()).unreachable == {C2}


async def test_a_slow_cell_is_not_taken_as_it_was_before_a_change_of_ours() -> None:
    reading = Reading()
    await _slow(reading)
    reading.two.changes += 1
    assert (await reading.fleets.now()).unreachable == {C2}


async def test_a_slow_cell_whose_database_goes_away_is_down() -> None:
    reading = Reading()
    await _slow(reading)
    reading.two.is_down = True
    reading.two.answers.set()
    await all_is_done()
    await reading.clock.advance(MAX_AGE_S * 1.1)
    assert (await reading.fleets.now()).unreachable == {C2}
    assert reading.two.asked == 2
