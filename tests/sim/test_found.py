"""What the simulator has found: short stories that broke a law once, told again."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.sim.test_run import check
from whimbrel.domain.ids import HostName, RunId
from whimbrel.moves import requests
from whimbrel.ports.cloud import Rules
from whimbrel.ports.journal import RunFilter
from whimbrel.servers import create, lookup
from whimbrel.sim.chaos import Chaos
from whimbrel.sim.decisions import from_document
from whimbrel.sim.equipment import PORT, with_devices
from whimbrel.sim.invariants import Invariants
from whimbrel.sim.run import run
from whimbrel.sim.world import LARGE, World

OPEN = RunFilter(only_open=True)
FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.stem)
def test_a_story_that_failed_once(file: Path) -> None:
    document = msgspec.json.decode(file.read_bytes())
    assert document.pop("whimbrel") == "story"
    check(run(from_document(document)))


def test_a_hand_over_that_comes_after_its_undo() -> None:
    """Seed 4 of 25 steps: an operator turned a move back while the network was asked to hand its ports over."""
    asyncio.run(hand_over_late())


async def hand_over_late() -> None:
    world = await World.build(rules=Rules(cpu_allocation_ratio=1.0, patience_s=20.0), equipped=True)
    engine, made = world.engine("one"), with_devices(world.new_server("s"))
    await create.accept(world.cloud, engine, world.asker(), [made], HostName("h1"))
    await world.settle(engine)
    server = await lookup.find(world.cloud, made.id)
    await requests.resize(world.cloud, engine, world.asker(), server, LARGE)
    await world.settle(engine)
    [run_id] = [one.id for one in await world.cloud.journal.find(OPEN)]
    late: list[str] = []

    async def hand_over_again(touch: str) -> None:
        moved = await world.cloud.journal.get(RunId(run_id))
        last = moved.log[-1]
        if not late and (last.step, last.way) == ("activate_target", "undo"):
            late.append(touch)
            await world.remains.network.activate_binding(PORT, moved.facts.target.host)

    engine = world.engine("two", Chaos({}, hand_over_again).wrap(world.cloud))
    await requests.revert(world.cloud, engine, world.asker(), await lookup.find(world.cloud, made.id))
    await world.settle(engine)
    assert late
    assert (await world.cloud.network.port(PORT)).host == "h1"
    assert (await world.cloud.journal.get(RunId(run_id))).state == "undone"
    await Invariants(world).check()
    await world.close()
