"""The home record of a server: the one in the cell that the directory names. A move between cells has two records.

Invariants of a switch: the home record is frozen before the other one is written, and the other one is complete before
the directory names its cell; so a concurrent change by the owner is either copied or refused. A repeated switch
leaves the records alone, because the owner may have changed the new one since.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.ids import CellName, ServerId
from whimbrel.domain.server import Server
from whimbrel.moves.facts import Move, crosses_cells, home_of, target_of
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.servers import Servers


async def records_at_home(move: Move, cloud: Cloud) -> Servers:
    """Return the store that has the server's home record now."""
    cell = home_of(move)
    if crosses_cells(move.facts):
        entry = await cloud.directory.entry(ServerId(move.subject))
        return cloud.cell(entry.cell or cell).servers
    return cloud.cell(cell).servers


async def home_record(move: Move, cloud: Cloud) -> Server:
    return await (await records_at_home(move, cloud)).get(ServerId(move.subject))


async def copy_to_target(move: Move, cloud: Cloud) -> None:
    """Ensure that the target's cell has a copy of the record. It is not visible, and only this move may change it."""
    target, server = target_of(move), ServerId(move.subject)
    record = await cloud.cell(home_of(move)).servers.stand(move.order, server, "shared")
    await cloud.cell(target.cell).servers.insert(move.order, _moved(record, {"cell": target.cell}), "frozen")


async def erase_at_target(move: Move, cloud: Cloud) -> None:
    """Ensure that the source's record is the only one."""
    await _erase(move, target_of(move).cell, home_of(move), cloud)


async def erase_at_source(move: Move, cloud: Cloud) -> None:
    """Ensure that the target's record is the only one."""
    await _erase(move, home_of(move), target_of(move).cell, cloud)


async def _erase(move: Move, lost: CellName, kept: CellName, cloud: Cloud) -> None:
    server = ServerId(move.subject)
    await cloud.cell(lost).servers.erase(move.order, server)
    await cloud.cell(kept).servers.stand(move.order, server, "whole")


async def switch(move: Move, was: CellName, to: CellName, fields: Mapping[str, Any], cloud: Cloud) -> None:
    """Make the record in the other cell the home record, with these fields changed."""
    server = ServerId(move.subject)
    if (await cloud.directory.entry(server)).cell == to:
        await cloud.cell(to).servers.stand(move.order, server, "shared")
        return
    record = await cloud.cell(was).servers.stand(move.order, server, "frozen")
    await cloud.cell(to).servers.insert(move.order, _moved(record, fields), "shared")
    await cloud.directory.switch(move.order, server, to)


def _moved(record: Server, fields: Mapping[str, Any]) -> Server:
    return replace(record, generation=record.generation + 1, **fields)
