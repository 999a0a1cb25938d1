"""Cells of a process: databases and buses of their own, and one that is down keeps nobody else from working."""

from pathlib import Path

import httpx
import pytest

from tests.bootstrap.test_process_factory import CELL, HOST, ONE, Home
from tests.contracts.databases import own_postgres, postgres
from tests.postgres_proxy import Proxy
from whimbrel.adapters.bus.agent_client import HttpAgents
from whimbrel.adapters.bus.agent_server import cells_app
from whimbrel.bootstrap.process import Process
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.numa import NumaNode
from whimbrel.ports.stores.cells import CellInfo

__all__ = ["own_postgres", "postgres"]

ONE_NAME, TWO_NAME = CellName("one"), CellName("two")


def two_cells(place: Path, more: str = "") -> str:
    """Return settings with a second cell, whose database is in a directory of its own."""
    return ONE + CELL.format("two") + f'database = "sqlite:///{place}"\n{more}' + HOST.format("m1")


def block(place: Path) -> None:
    place.write_text("no directory")


async def hosts_of(process: Process, cell: CellName) -> list[str]:
    return [host.name for host in await process.cloud.cell(cell).hosts.all()]


async def known_hosts(process: Process) -> list[str]:
    fleet = await process.cloud.fleets.now()
    return sorted(fleet.names)


async def test_each_cell_has_a_database_and_a_bus_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    process = await Home(tmp_path).start(two_cells(place))
    assert (place / "cell_two.sqlite").exists()
    assert await known_hosts(process) == ["m1", "n1", "n2"]
    assert await hosts_of(process, TWO_NAME) == ["m1"]
    assert await process.cloud.agent(TWO_NAME, HostName("m1")).guests() == []
    with pytest.raises(Unavailable, match="no agent of host m1 is here"):
        await process.cloud.agent(ONE_NAME, HostName("m1")).guests()
    await process.close()


async def test_over_http_each_cell_has_a_path_of_its_own(tmp_path: Path) -> None:
    process = await Home(tmp_path).start(two_cells(tmp_path / "elsewhere"))
    endpoint = cells_app({name: cell.agents for name, cell in process.cloud.cells.items()}, "secret")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(endpoint)) as client:

        def bus(cell: str) -> HttpAgents:
            return HttpAgents(f"http://hosts.test/cells/{cell}", "secret", client)

        assert await bus("two").at(HostName("m1")).guests() == []
        for cell in ("one", "three"):
            with pytest.raises(Unavailable):
                await bus(cell).at(HostName("m1")).guests()
    await process.close()


async def test_a_cell_that_is_down_keeps_nobody_from_starting_and_comes_by_itself(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    block(place)
    process = await Home(tmp_path).start(two_cells(place))
    assert await known_hosts(process) == ["n1", "n2"]
    assert [each.info.name for each in process.cells.up] == [ONE_NAME]
    with pytest.raises(Unavailable):
        await hosts_of(process, TWO_NAME)
    await process.sign_of_life()
    done: dict[str, float] = {}
    await process.forget_before(5.0, done)
    assert done == {"placement": 5.0, "cell one": 5.0, "cell two": 5.0}  # no run has ended: nothing to be forgotten
    place.unlink()
    await _look(process)
    assert await hosts_of(process, TWO_NAME) == ["m1"]
    index = await process.placement.provider_index()
    assert {node.provider.name for node in index.nodes.values()} >= {"n1", "n2", "m1"}
    [aggregate] = await process.cloud.aggregates.all()
    assert sorted(aggregate.hosts) == ["m1", "n1", "n2"]
    await process.close()


async def test_hosts_tell_their_nodes_and_where_a_rule_weighs_it_their_load(tmp_path: Path) -> None:
    numa = "[[cell.host.numa]]\ncpus = 1\nmemory_mib = 512\n"
    weighed = '[rules.scheduler]\nmetrics_weight_setting = ["cpu.percent=-1"]\nmetrics_required = true\n'
    for rules, told in ((weighed, {"cpu.percent": 0.0, "cpu.idle.percent": 1.0}), ("", {})):
        process = await Home(tmp_path / str(bool(rules))).start(ONE + numa + rules)
        await process.sign_of_life()
        *_, host = await process.cloud.cell(ONE_NAME).hosts.all()
        assert host.numa == (NumaNode(cpus=1, memory_mib=512),)
        assert host.metrics == told
        await process.close()


async def test_a_cell_that_was_added_by_command_is_opened_and_stays(tmp_path: Path) -> None:
    home, place = Home(tmp_path), tmp_path / "elsewhere"
    process = await home.start(ONE)
    info = CellInfo(name=TWO_NAME, database=f"sqlite:///{place}", physnets=frozenset({"front"}))
    await process.cloud.cell_infos.add(info)
    seen = iter(process.cloud.cells)
    assert next(seen) == ONE_NAME
    await _look(process)
    assert list(seen) == []  # who was going through them is not disturbed
    assert list(process.cloud.cells) == [ONE_NAME, TWO_NAME]
    assert await hosts_of(process, TWO_NAME) == []
    await process.close()
    process = await home.start(ONE + CELL.format("two") + HOST.format("m1"))
    found = await process.cloud.cell_infos.get(TWO_NAME)
    assert (found.database, found.physnets, found.in_settings) == (info.database, info.physnets, True)
    assert (place / "cell_two.sqlite").exists()
    assert await hosts_of(process, TWO_NAME) == ["m1"]
    await process.close()


async def test_a_cell_that_was_removed_by_command_is_closed(tmp_path: Path) -> None:
    process = await Home(tmp_path).start(ONE)
    await process.cloud.cell_infos.add(CellInfo(name=TWO_NAME))
    await _look(process)
    two = process.cloud.cell(TWO_NAME)
    await process.cloud.cell_infos.forget(TWO_NAME)
    await _look(process)
    assert list(process.cloud.cells) == [ONE_NAME]
    with pytest.raises(Unavailable, match="it was closed"):
        await two.hosts.all()
    await process.close()


async def test_a_cell_that_the_settings_leave_out_is_forgotten_and_what_a_command_said_stays(tmp_path: Path) -> None:
    home, place = Home(tmp_path), tmp_path / "elsewhere"
    process = await home.start(two_cells(place, "enabled = false\n"))
    infos = process.cloud.cell_infos
    assert [cell.enabled for cell in await infos.all()] == [True, False]
    await infos.set_enabled(ONE_NAME, False, "old")
    await process.close()
    process = await home.start(ONE)
    [one] = await process.cloud.cell_infos.all()
    assert (one.name, one.enabled, one.disabled_reason) == (ONE_NAME, False, "old")
    assert list(process.cloud.cells) == [ONE_NAME]
    await process.close()


async def test_a_cell_that_comes_with_a_host_of_another_one_is_not_mixed_up(tmp_path: Path) -> None:
    home, place = Home(tmp_path), tmp_path / "elsewhere"
    await home.hosts(ONE)
    block(place)
    moved = two_cells(place).replace(HOST.format("n2"), "", 1) + HOST.format("n2")
    process = await home.start(moved)  # what is in the cell cannot be known
    place.unlink()
    await _look(process)
    assert await hosts_of(process, TWO_NAME) == []
    await process.close()
    assert "host 'n2' of cell 'two' is known" in await home.refusal(moved)


async def test_a_cell_in_the_clouds_own_database_is_not_waited_for(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "data" / "db").mkdir(parents=True)
    (tmp_path / "data" / "db" / "cell_one.sqlite").mkdir()
    with pytest.raises(Unavailable, match="cell_one"):
        await home.start(ONE)


async def test_a_cell_that_goes_down_disturbs_no_other_one(tmp_path: Path, own_postgres: str) -> None:
    async with Proxy(own_postgres) as endpoint:
        text = ONE + CELL.format("two") + f'database = "{endpoint.url}"\n' + HOST.format("m1")
        process = await Home(tmp_path).start(text)
        assert await known_hosts(process) == ["m1", "n1", "n2"]
        await endpoint.shut()
        await _look(process)
        assert [each.info.name for each in process.cells.up] == [ONE_NAME]
        before = {host.name: host.seen_at for host in await process.cloud.cell(ONE_NAME).hosts.all()}
        await process.sign_of_life()
        after = {host.name: host.seen_at for host in await process.cloud.cell(ONE_NAME).hosts.all()}
        assert all(after[name] > before[name] for name in before)
        await process.cloud.cell_infos.set_enabled(ONE_NAME, True, None)  # so that the fleet is looked at afresh
        assert await known_hosts(process) == ["n1", "n2"]
        await endpoint.open()
        await _look(process)
        assert await hosts_of(process, TWO_NAME) == ["m1"]
        await process.close()


async def _look(process: Process) -> None:
    """Make the process look at its cells once, as it does all the time."""
    await process.cells.look(process.arrived)
