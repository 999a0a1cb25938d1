"""Cells, for operators: /v2.1/whimbrel/cells is Whimbrel's own part of the API.

A cell is up while its database answers this process; for one that is down, data from other sources is shown.
Servers without a host have no database of their own: the directory stores them, and cell0 is its count (ADR 4).
"""

import asyncio

from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.views.cells import Cell, CellAnswer, Cells, Unplaced
from whimbrel.domain.errors import Conflict, Unavailable
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName
from whimbrel.domain.nouns import counted
from whimbrel.http.problem import Problem
from whimbrel.ports.stores.cells import CellInfo


async def index(call: Call) -> Cells:
    infos = await call.cloud.cell_infos.all()
    unplaced = await call.cloud.directory.unplaced(None)
    return Cells(await _shown(call, infos), cell0=Unplaced(len(unplaced)))


async def add(call: Call) -> CellAnswer:
    """Add a cell; every process opens it within moments."""
    requested = call.body["cell"]
    info = CellInfo(
        name=CellName(requested["name"]),
        database=requested.get("database"),
        enabled=truth(requested.get("enabled", True)),
        physnets=_set(requested.get("physnets")),
        storage=_set(requested.get("storage")),
        migration_network=requested.get("migration_network"),
        created_at=call.cloud.clock.now(),
    )
    await call.cloud.cell_infos.add(info)
    return CellAnswer((await _shown(call, [info]))[0])


async def switch(call: Call) -> CellAnswer:
    """Enable or disable a cell for new servers."""
    requested = call.body["cell"]
    enabled, reason = truth(requested["enabled"]), requested.get("disabled_reason")
    if enabled and reason:
        raise Problem(400, "An enabled cell has no disabled_reason.")
    info = await call.cloud.cell_infos.set_enabled(CellName(call.params["name"]), enabled, reason)
    return CellAnswer((await _shown(call, [info]))[0])


async def remove(call: Call) -> None:
    """Remove a cell that a command added. Raises: Conflict: cloud.toml names it, or it has servers."""
    name = CellName(call.params["name"])
    info = await call.cloud.cell_infos.get(name)
    if info.in_settings:
        raise Conflict(f"Cell {name} is named in cloud.toml: leave it out there, and start the cloud again.")
    if servers := (await call.cloud.directory.homes()).get(name):
        raise Conflict(f"Cell {name} has {counted(servers, 'server')}: whimbrel cell drain {name} moves them away.")
    await call.cloud.cell_infos.forget(name)


async def _shown(call: Call, infos: list[CellInfo]) -> list[Cell]:
    homes = await call.cloud.directory.homes()
    looks = await asyncio.gather(*(_look(call, info.name) for info in infos))
    now = call.cloud.clock.now()
    return [
        Cell(
            name=info.name,
            enabled=info.enabled,
            disabled_reason=info.disabled_reason,
            state="down" if isinstance(found, str) else "up",
            problem=found if isinstance(found, str) else None,
            database=_kind(call, info.name),
            hosts=[] if isinstance(found, str) else sorted(host.name for host in found),
            hosts_up=0 if isinstance(found, str) else sum(host.is_up(now) for host in found),
            servers=homes.get(info.name, 0),
            physnets=None if info.physnets is None else sorted(info.physnets),
            storage=None if info.storage is None else sorted(info.storage),
            migration_network=info.migration_network,
            in_settings=info.in_settings,
            created_at=info.created_at,
        )
        for info, found in zip(infos, looks, strict=True)
    ]


async def _look(call: Call, name: CellName) -> list[Host] | str:
    """Return the hosts of a cell, or why it is down."""
    if name not in call.cloud.cells:
        return "it is not open yet"
    try:
        return await call.cloud.cells[name].hosts.all()
    except Unavailable as trouble:
        return trouble.reason


def _kind(call: Call, name: CellName) -> str | None:
    return call.cloud.cells[name].database if name in call.cloud.cells else None


def _set(names: list[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
