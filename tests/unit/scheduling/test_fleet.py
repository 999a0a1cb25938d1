"""The fleet as one process knows it: when it is read again, and what becomes of a cell that does not answer."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from structlog.testing import capture_logs

from tests.hand_clock import HandClock
from tests.unit.scheduling.rooms import NO_RULES, host
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host import Aggregate, Host
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.scheduler import SchedulerRules
from whimbrel.ports.cells import CellInfo
from whimbrel.ports.cloud import Rules
from whimbrel.ports.devices import DeviceCount
from whimbrel.ports.fleet import Fleet, Load
from whimbrel.ports.servers import ServerQuery
from whimbrel.scheduling.fleet import DOWN_FOR_S, MAX_AGE_S, KnownFleet

C1, C2 = CellName("c1"), CellName("c2")


@dataclass
class OneCell:
    """All stores of a cell in one, which may be silent."""

    name: CellName
    has: list[Host]
    is_down: bool = False
    hangs: bool = False
    asked: int = 0
    changes: int = 0
    searched: list[str | None] = field(default_factory=list)

    async def all(self) -> list[Host]:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.is_down:
            raise Unavailable("no answer")
        return self.has

    async def loads(self) -> dict[HostName, Load]:
        return {one.name: Load(servers=3) for one in self.has}

    async def counts(self) -> dict[HostName, DeviceCount]:
        return {self.has[0].name: DeviceCount(offered=2, free=1)}

    async def failed_builds(self) -> dict[HostName, int]:
        return {self.has[0].name: 4}

    async def images(self) -> dict[HostName, dict[str, int]]:
        return {self.has[0].name: {"image": 2}}

    async def find(self, query: ServerQuery) -> list[Any]:
        self.searched.append(query.image_id)
        return [SimpleNamespace(image_properties={"os_distro": "linux"})]

    @property
    def stores(self) -> Any:
        return self

    hosts = servers = devices = stores


@dataclass
class Written:
    """What is written down of aggregates, or of cells."""

    has: list[Any] = field(default_factory=list)
    changes: int = 0

    async def all(self) -> list[Any]:
        return self.has


class Reading:
    def __init__(self, scheduler: SchedulerRules = NO_RULES, **rules: float) -> None:
        self.one, self.two = OneCell(C1, [host("a"), host("b")]), OneCell(C2, [host("c", cell=C2)])
        self.clock, self.infos = HandClock(), Written([CellInfo(name=C1), CellInfo(name=C2, enabled=False)])
        self.aggregates = Written([Aggregate(id=1, uuid="a1", name="a1")])
        cells, infos, written = cast(Any, ({C1: self.one, C2: self.two}, self.infos, self.aggregates))
        self.fleets = KnownFleet(cells, infos, written, self.clock, Rules(scheduler=scheduler, **rules))

    def now(self) -> Fleet:
        return asyncio.run(self.fleets.now())

    def later(self, seconds: float) -> Fleet:
        asyncio.run(self.clock.advance(seconds))
        return self.now()


def test_all_cells_are_in_it_with_what_is_written_down_of_them() -> None:
    fleet = Reading().now()
    assert fleet.names == ("a", "b", "c")
    assert fleet.servers.tolist() == [3, 3, 3]
    assert (fleet.pci.tolist(), fleet.free_pci.tolist()) == ([2, 0, 2], [1, 0, 1])
    assert fleet.failed_builds.tolist() == [4, 0, 4]
    assert not fleet.cells[C2].enabled


def test_it_is_read_again_when_it_has_aged_or_was_changed_here() -> None:
    reading = Reading()
    first = reading.now()
    assert reading.later(MAX_AGE_S * 0.9) is first
    assert reading.later(MAX_AGE_S * 0.2) is not first
    for written in (reading.infos, reading.aggregates, reading.one):
        known = reading.now()
        written.changes += 1
        assert reading.now() is not known


def test_images_are_read_where_they_count_and_each_is_learnt_once() -> None:
    assert Reading().now().images == {}
    reading = Reading(SchedulerRules(image_props_weight_multiplier=1.0))
    fleet = reading.now()
    assert fleet.images == {"a": {"image": 2}, "c": {"image": 2}}
    assert fleet.image_properties == {"image": {"os_distro": "linux"}}
    reading.later(MAX_AGE_S * 2)
    assert reading.one.searched + reading.two.searched == ["image"]
    by_aggregate = Reading()
    by_aggregate.aggregates.has[0].metadata["image_props_weight_multiplier"] = "1"
    assert by_aggregate.now().images == fleet.images


def test_a_cell_that_does_not_answer_leaves_the_others_alone() -> None:
    reading = Reading()
    reading.one.is_down = True
    with capture_logs() as logs:
        fleet = reading.now()
        assert (fleet.names, fleet.silent) == (("c",), {C1})
        assert reading.later(DOWN_FOR_S + MAX_AGE_S).names == ("c",)
    assert [(one["log_level"], one["cell"]) for one in logs] == [("warning", "c1")]  # said once
    assert reading.one.asked == 2


def test_nobody_waits_for_long_for_a_cell_that_hangs() -> None:
    reading = Reading(cell_timeout_s=0.01)
    reading.two.hangs = True
    fleet = reading.now()
    assert (fleet.names, fleet.silent) == (("a", "b"), {C2})
    assert reading.later(MAX_AGE_S * 1.1).silent == {C2}
    assert reading.two.asked == 1


def test_a_cell_that_was_down_is_not_asked_for_a_while_and_then_is_back() -> None:
    reading = Reading()
    reading.one.is_down = True
    reading.now()
    reading.one.is_down = False
    assert reading.later(MAX_AGE_S).names == ("c",)
    assert reading.one.asked == 1
    with capture_logs() as logs:
        assert reading.later(DOWN_FOR_S).names == ("a", "b", "c")
    assert [(one["log_level"], one["cell"]) for one in logs] == [("info", "c1")]
