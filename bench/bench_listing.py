"""A page of 1,000 of 10,000 servers with all details: processor time of the control plane, with 1, 2 and 10 cells."""

import asyncio
from pathlib import Path
from uuid import UUID

import msgspec
import sqlalchemy as sa
from cloud import Cloud, User
from figures import report
from msgspec.structs import replace

from whimbrel.adapters.sql.cell.server_rows import record_values
from whimbrel.adapters.sql.tables.cell import servers as records
from whimbrel.adapters.sql.tables.global_ import directory
from whimbrel.domain.ids import CellName, ServerId
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import FixedIp, Nic

CELLS = (1, 2, 10)
SERVERS, PAGE, ROUNDS = 10_000, 1_000, 10
GOAL_MS, GOAL_RATIO = 50, 2.0


async def main() -> None:
    took = {}
    for cells in CELLS:
        with Cloud(cells=cells) as cloud:
            user = await cloud.user()
            fill(cloud.databases, await one(user, cloud.databases), cells)
            took[cells] = await measure(cloud, user)
        report(f"{PAGE} of {SERVERS} servers with details, cells: {cells}", processor_ms=took[cells], goal_ms=GOAL_MS)
    report("the most cells over one", ratio=took[CELLS[-1]] / took[1], goal_ratio=GOAL_RATIO)


async def measure(cloud: Cloud, user: User) -> float:
    """Return the processor milliseconds of a page, the first that any client asks for and then every other one."""
    path = f"/servers/detail?limit={PAGE}"
    first = await user.call("GET", path)
    assert len(first["servers"]) == PAGE
    before = cloud.processor_s()
    for number in range(ROUNDS):
        page = await user.call("GET", f"{path}&marker={first['servers'][-1]['id']}" if number % 2 else path)
        assert len({server["id"] for server in page["servers"]}) == PAGE
    return (cloud.processor_s() - before) / ROUNDS * 1000


async def one(user: User, databases: Path) -> Server:
    """Make a server, and give its record with as much in it as servers usually have."""
    server_id = await user.boot("one")
    await user.until(server_id, "ACTIVE")
    nic = Nic(
        port_id=server_id,
        network_id=server_id,
        label="private",
        mac="fa:16:3e:00:00:01",
        addresses=(FixedIp("10.0.0.3", server_id),),
    )
    server = record_of(server_id, databases)
    return replace(server, nics=(nic,), metadata={"purpose": "bench", "owner": "us"}, tags=["a", "b"])


def record_of(server_id: str, databases: Path) -> Server:
    for file in databases.glob("cell_*.sqlite"):
        with sa.create_engine(f"sqlite:///{file}").connect() as connection:
            found = connection.execute(sa.select(records.c.record).where(records.c.id == server_id)).first()
        if found is not None:
            return msgspec.json.decode(found.record, type=Server)
    raise RuntimeError(f"server {server_id} is in no cell")


def fill(databases: Path, server: Server, cells: int) -> None:
    """Write servers straight into the databases: all like the one that is there, each a second younger."""
    living = [_copy(server, number, CellName(f"cell{number % cells}")) for number in range(1, SERVERS)]
    entries = [_entry(each) for each in living]
    with sa.create_engine(f"sqlite:///{databases}/global.sqlite").begin() as connection:
        connection.execute(sa.insert(directory), entries)
    for number in range(cells):
        cell = f"cell{number}"
        mine = [record_values(each, None) for each in living if each.cell == cell]
        with sa.create_engine(f"sqlite:///{databases}/cell_{cell}.sqlite").begin() as connection:
            connection.execute(sa.insert(records), mine)


def _copy(server: Server, number: int, cell: CellName) -> Server:
    id = ServerId(str(UUID(int=UUID(server.id).int ^ number)))
    return replace(server, id=id, name=f"s{number}", cell=cell, created_at=server.created_at + number)


def _entry(server: Server) -> dict[str, object]:
    return {
        "server_id": server.id,
        "project_id": server.project_id,
        "user_id": server.user_id,
        "cell": server.cell,
        "vcpus": server.flavor.vcpus,
        "memory_mib": server.flavor.memory_mib,
        "created_at": server.created_at,
    }


if __name__ == "__main__":
    asyncio.run(main())
