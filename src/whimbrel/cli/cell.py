"""`whimbrel cell`: list, add, remove, disable, enable and drain cells."""

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from cyclopts import App, Parameter
from rich.console import RenderableType
from rich.text import Text

from whimbrel.api.views.cells import Cell, Cells
from whimbrel.cli import SAYS_NO, terminal
from whimbrel.cli.client import Api
from whimbrel.cli.database_option import chosen_database, warn_of_passwords
from whimbrel.cli.listing import Column, Listing
from whimbrel.cli.move import POLL_S, Where
from whimbrel.cli.output_format import Json, Output
from whimbrel.domain.errors import Invalid, NotFound, Refused

URL = "/whimbrel/cells"
OPENS_S = 10.0
"""How long to wait for an added cell: processes look every few seconds, and a database may be slow."""
AS_USUAL = Where()
CellArgument = Annotated[str, Parameter(help="Name of the cell.")]
COLUMNS = (
    Column("cell"),
    Column("state"),
    Column("servers"),
    Column("hosts"),
    Column("database", "name"),
    Column("reaches", "name"),
    Column("", "reason"),
)

app = App(
    name="cell", help="Cells: list, add, remove, disable, enable, drain.", default_parameter=Parameter(negative=())
)


@app.command(name="list")
def list_cells(*, output: Output = Output(), where: Where = AS_USUAL) -> None:
    """List cells: whether they are enabled and up, and their numbers of hosts and servers.

    cell0 counts the servers for which no host was found. It has no database: their records are in the directory.
    """
    with where.api() as api:
        answer = api.get("compute", URL)
    if not output.wrote(answer, "cells"):
        terminal.console().print(shown(msgspec.convert(answer, Cells)))


@app.command
def add(
    name: str,
    /,
    *,
    database: str | None = None,
    database_file: Path | None = None,
    physnet: list[str] | None = None,
    storage: list[str] | None = None,
    migration_network: str | None = None,
    disabled: bool = False,
    json: Json = False,
    where: Where = AS_USUAL,
) -> int:
    """Add a cell to a running cloud. Its hosts join it, or are in the settings at the next start.

    Exit code 1: it was recorded, but its database does not answer.

    Parameters
    ----------
    name
        At most 31 lower-case letters, digits and underscores; the first is a letter.
    database
        postgresql://USER@HOST/NAME, or sqlite:///DIRECTORY. Default: the cloud's own.
    database_file
        A file with that URL: a password in it is not shown to other users, as one on the command line is.
    physnet
        A physical network that its hosts reach; can be repeated. Default: all.
    storage
        A storage back end that its hosts reach; can be repeated. Default: all.
    migration_network
        The network on which servers are migrated live to other cells that name it too. Default: to none.
    disabled
        Place no servers in it until it is enabled.
    """
    warn_of_passwords()
    database = chosen_database(database, database_file, variable=None)
    requested = {"name": name, "physnets": physnet or None, "storage": storage or None, "enabled": not disabled}
    requested |= {"migration_network": migration_network} if migration_network else {}
    with where.api() as api:
        api.post("compute", URL, {"cell": requested | ({"database": database} if database else {})})
        found = _wait_until_open(api, name)
    if json:
        terminal.write_json({"cell": found})
    else:
        print(sentence_of_new(found))
    return 0 if found.state == "up" else SAYS_NO


@app.command
def disable(name: CellArgument, /, *, reason: str | None = None, json: Json = False, where: Where = AS_USUAL) -> None:
    """Disable a cell: no more servers are placed in it. Its servers stay there and work as before.

    Parameters
    ----------
    reason
        The reason, which `whimbrel cell list` shows.
    """
    with where.api() as api:
        _print_switched(switch(api, name, enabled=False, reason=reason), json)


@app.command
def enable(name: CellArgument, /, *, json: Json = False, where: Where = AS_USUAL) -> None:
    """Enable a cell: servers are placed in it again."""
    with where.api() as api:
        _print_switched(switch(api, name, enabled=True, reason=None), json)


@app.command
def remove(name: CellArgument, /, *, where: Where = AS_USUAL) -> None:
    """Remove a cell that was added by command and has no servers. The content of its database stays there."""
    with where.api() as api:
        find(api, name)
        api.delete("compute", f"{URL}/{quote(name, safe='')}")
    print(f"cell {name} is no part of the cloud any more")


@app.command
def drain(
    name: CellArgument,
    /,
    *,
    at_once: int = 4,
    confirm: Annotated[bool, Parameter(negative="--no-confirm")] = True,
    reason: str = "drained",
    json: bool = False,
    where: Where = AS_USUAL,
) -> int:
    """Disable a cell and move its servers to other cells. An interrupted command can be repeated.

    Administrators need the right to move servers between cells: policy rule compute:servers:resize:cross_cell.
    Exit code 1: servers are left in the cell.

    Parameters
    ----------
    at_once
        How many servers are moved at the same time.
    confirm
        Confirm each server that has arrived; otherwise it waits for its verdict, as after a resize.
    reason
        Why the cell is disabled, which `whimbrel cell list` shows.
    json
        One JSON document at the end, and no progress.
    """
    from whimbrel.cli import drain as draining

    if at_once < 1:
        raise Invalid("--at-once must be 1 or more")
    console = terminal.console()
    with where.api() as api:
        cell = find(api, name)
        if cell.enabled:
            switch(api, name, enabled=False, reason=reason)
        show = partial(console.print, markup=False)
        drained = draining.Drain(api, cell, at_once, confirm, (lambda _: None) if json else show)
        try:
            outcome = drained.run()
        except Refused:
            if cell.enabled:  # nothing was moved: restore the state
                switch(api, name, enabled=True, reason=None)
            raise
    if json:
        terminal.write_json({"drain": outcome})
    else:
        console.print(draining.summary(outcome))
    return SAYS_NO if outcome.left else 0


def shown(cells: Cells) -> RenderableType:
    rows = [_row(cell) for cell in cells.cells]
    rows.append(("cell0", "", str(cells.cell0.servers), None, "the directory's", "", "servers that found no host"))
    return Listing(COLUMNS, rows)


def _row(cell: Cell) -> tuple[str | Text | None, ...]:
    state = Text(cell.state, "green" if cell.state == "up" else "bold red")
    if not cell.enabled:
        state.append(", disabled", "yellow")
    hosts = None if cell.state == "down" else f"{cell.hosts_up} of {len(cell.hosts)} up"
    why = cell.problem or cell.disabled_reason
    return cell.name, state, str(cell.servers), hosts, cell.database, _reach(cell), why


def sentence_of_new(cell: Cell) -> str:
    if cell.state == "down":
        return (
            f"cell {cell.name} is recorded, but it is down: {cell.problem}. It is opened when its database answers;"
            " see: whimbrel cell list"
        )
    return (
        f"cell {cell.name} is up and has no hosts yet: invite some with: whimbrel host invite NAME --cell {cell.name}"
    )


def find(api: Api, name: str) -> Cell:
    """Raises: NotFound."""
    for cell in msgspec.convert(api.get("compute", URL), Cells).cells:
        if cell.name == name:
            return cell
    raise NotFound(f"there is no cell {name}: whimbrel cell list shows those that there are")


def switch(api: Api, name: str, *, enabled: bool, reason: str | None) -> Cell:
    """Raises: NotFound."""
    requested: dict[str, Any] = {"enabled": enabled} | ({"disabled_reason": reason} if reason else {})
    find(api, name)
    api.put("compute", f"{URL}/{quote(name, safe='')}", {"cell": requested})
    return find(api, name)


def _print_switched(cell: Cell, json: bool) -> None:
    if json:
        terminal.write_json({"cell": cell})
    elif cell.enabled:
        print(f"cell {cell.name} takes servers")
    else:
        there = f"the {cell.servers} that it has stay and work" if cell.servers else "there are none in it"
        print(f"cell {cell.name} takes no more servers; {there}")


def _reach(cell: Cell) -> str:
    """Return what its hosts reach, if that is limited."""
    kinds = (("network", cell.physnets), ("storage", cell.storage))
    limits = [f"{kind} {', '.join(names) or 'none'}" for kind, names in kinds if names is not None]
    return "; ".join(limits) or "all"


def _wait_until_open(api: Api, name: str) -> Cell:
    until = time.monotonic() + OPENS_S
    while (cell := find(api, name)).state == "down" and time.monotonic() < until:
        time.sleep(POLL_S)
    return cell
