"""`whimbrel upgrade`: what holds an upgrade back."""

import asyncio
from typing import TYPE_CHECKING

from cyclopts import App, Parameter

from whimbrel.cli import SAYS_NO, log_setup, terminal
from whimbrel.cli.output_format import Json
from whimbrel.cli.role_options import DatabaseOptions

if TYPE_CHECKING:
    from whimbrel.bootstrap.upgrade_check import Report

app = App(
    name="upgrade",
    help="Upgrades: see what holds one back.",
    default_parameter=Parameter(negative=()),
)


@app.command
def check(
    *,
    database: DatabaseOptions = DatabaseOptions(),
    json: Json = False,
) -> int:
    """Show what holds an upgrade to this release back: processes, agents, open runs, databases, migrations.

    Read from the databases; nothing is changed. Exit code 0: nothing holds it back; 1: something does.
    """
    log_setup.configure(verbose=False)
    _, url = database.found()
    from whimbrel.bootstrap.upgrade_check import report

    found = asyncio.run(report(url))
    if json:
        terminal.write_json({"upgrade": found})
    else:
        _print(found)
    return SAYS_NO if found.holds_back else 0


def _print(found: "Report") -> None:
    from rich.text import Text

    console = terminal.console()
    members = len(found.processes) + len(found.agents)
    console.print(
        f"This program is release {found.release}; the oldest release of {members} live processes and agents is"
        f" {found.floor or '-'}.",
    )
    if not found.holds_back:
        console.print(Text("Nothing holds an upgrade back.", "green"))
        return
    table = terminal.plain_table("what", "name", "why")
    for each in found.holds_back:
        table.add_row(each.kind, each.name, each.reason)
    console.print(table)
