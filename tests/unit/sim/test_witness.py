"""Simulated hosts of different processes report a server that runs on two of them."""

from pathlib import Path

from tests.host_room import H1, H2, Room, boot, order, spec
from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.sim.world.witness import WitnessedStore, double_runs

OLD, NEW = spec(slot="old"), spec(slot="new")


def room(host: str, directory: Path) -> Room:
    return Room(keep=WitnessedStore(MemoryKeyValueStore(), H1 if host == "h1" else H2, directory))


async def test_a_server_that_runs_twice_is_reported(tmp_path: Path) -> None:
    first, second = room("h1", tmp_path), room("h2", tmp_path)
    await boot(first.agents[H1], OLD, order("first"))
    assert double_runs(tmp_path) == []
    await boot(second.agents[H2], NEW, order("second"))
    assert double_runs(tmp_path) == [f"server {OLD.key.server} was started on h2 while it ran on h1"]


async def test_a_server_that_stops_before_it_starts_elsewhere_is_not(tmp_path: Path) -> None:
    first, second = room("h1", tmp_path), room("h2", tmp_path)
    for stop in ("stop", "destroy"):
        agent = first.agents[H1]
        await boot(agent, OLD, order(f"first {stop}"))
        await (agent.stop(order(stop), OLD.key, 60.0) if stop == "stop" else agent.destroy(order(stop), OLD.key))
        await boot(second.agents[H2], NEW, order(f"second {stop}"))
        await second.agents[H2].destroy(order(f"end {stop}"), NEW.key)
    assert double_runs(tmp_path) == []
