"""What it costs to register hosts: a start writes as often for many as for few, and leaves alone what is so already."""

from pathlib import Path
from typing import Any

import pytest

from tests.bootstrap.test_process_factory import CELL, HOST, Home
from whimbrel.adapters.sql.engine.sqlite import SqliteDatabase
from whimbrel.bootstrap.process import Process
from whimbrel.ports.stores.catalog import zone_of

MANY = 40
NIC = '[[cell.host.nic]]\nname = "eth0"\nphysnet = "front"\negress_kbps = 1000\ningress_kbps = 1000\n'
PCI = '[[cell.host.pci]]\naddress = "0000:01:00.0"\nvendor_id = "10de"\nproduct_id = "1eb8"\n'


def settings(count: int, also: str = "", last: str = "") -> str:
    """Return settings with so many hosts. also: of each of them. last: of the last one."""
    return CELL.format("one") + "".join(HOST.format(f"n{number}") + also for number in range(count)) + last


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[SqliteDatabase]:
    """Return the databases of all transactions that may write, one after the other."""
    begun: list[SqliteDatabase] = []
    write = SqliteDatabase.write

    def counted(database: SqliteDatabase) -> Any:
        begun.append(database)
        return write(database)

    monkeypatch.setattr(SqliteDatabase, "write", counted)
    return begun


async def start(home: Home, text: str, writes: list[SqliteDatabase]) -> tuple[int, Process]:
    """Start a process; return how often it wrote, and the process."""
    writes.clear()
    process = await home.start(text)
    return len(writes), process


async def costs(path: Path, count: int, also: str, writes: list[SqliteDatabase]) -> list[int]:
    """Return how often the first start and the second one write."""
    found, home = [], Home(path)
    for _ in range(2):
        cost, process = await start(home, settings(count, also), writes)
        await process.close()
        found.append(cost)
    return found


async def test_a_start_writes_as_often_for_many_hosts_as_for_few(tmp_path: Path, writes: list[SqliteDatabase]) -> None:
    few = await costs(tmp_path / "few", 2, "", writes)
    many = await costs(tmp_path / "many", MANY, "", writes)
    assert many == few


async def test_what_hosts_have_besides_is_not_written_again(tmp_path: Path, writes: list[SqliteDatabase]) -> None:
    besides = 'traits = ["CUSTOM_SSD"]\nresources = { CUSTOM_GPU = 3 }\n' + NIC
    [_, few] = await costs(tmp_path / "few", 2, besides, writes)
    [_, many] = await costs(tmp_path / "many", MANY, besides, writes)
    assert many == few


async def test_a_start_without_changes_raises_no_generation(tmp_path: Path, writes: list[SqliteDatabase]) -> None:
    home, seen = Home(tmp_path), []
    for _ in range(2):
        _, process = await start(home, settings(3, NIC + PCI), writes)
        index = await process.placement.provider_index()
        seen.append({node.provider for node in index.nodes.values()})
        await process.close()
    assert seen[0] == seen[1]


async def test_of_many_hosts_the_one_that_is_new_or_has_changed_is_written(
    tmp_path: Path, writes: list[SqliteDatabase]
) -> None:
    home = Home(tmp_path)
    _, process = await start(home, settings(3), writes)
    await process.close()
    changed = settings(3, last='traits = ["CUSTOM_SSD"]\n').replace("vcpus = 4", "vcpus = 8", 1)
    _, process = await start(home, changed + HOST.format("new"), writes)
    [cell] = process.cloud.cells.values()
    hosts = {host.name: host for host in await cell.hosts.all()}
    assert {name: host.vcpus for name, host in hosts.items()} == {"n0": 8, "n1": 4, "n2": 4, "new": 4}
    nodes = (await process.placement.provider_index()).nodes
    assert [nodes[hosts[name].id].stocks["VCPU"].inventory.total for name in sorted(hosts)] == [8, 4, 4, 4]
    assert [name for name in sorted(hosts) if "CUSTOM_SSD" in nodes[hosts[name].id].traits] == ["n2"]
    aggregates = await process.cloud.aggregates.all()
    assert len({zone_of(name, aggregates) for name in hosts}) == 1
    assert all(nodes[host.id].aggregates == {aggregates[0].uuid} for host in hosts.values())
    await process.close()
