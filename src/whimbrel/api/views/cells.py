"""Cells."""

import msgspec


class Cell(msgspec.Struct, kw_only=True):
    """problem: why it is down. physnets, storage: what its hosts reach; None: everything.

    migration_network: shared with the cells to which servers can be migrated live.
    """

    name: str
    enabled: bool
    disabled_reason: str | None = None
    state: str
    problem: str | None = None
    database: str | None = None
    hosts: list[str] = []
    hosts_up: int = 0
    servers: int = 0
    physnets: list[str] | None = None
    storage: list[str] | None = None
    migration_network: str | None = None
    in_settings: bool = False
    created_at: float = 0.0


class Unplaced(msgspec.Struct):
    """Servers without a host; the directory stores them."""

    servers: int


class Cells(msgspec.Struct):
    cells: list[Cell]
    cell0: Unplaced


class CellAnswer(msgspec.Struct):
    cell: Cell
