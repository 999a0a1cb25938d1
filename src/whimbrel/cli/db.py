"""`whimbrel db`: migrate the databases of a cloud explicitly, and show their versions."""

import asyncio
import sys
from typing import TYPE_CHECKING

from cyclopts import App, Parameter

from whimbrel.cli import log_setup, terminal
from whimbrel.cli.role_options import DatabaseOptions

if TYPE_CHECKING:
    from whimbrel.bootstrap.upgrade_check import Schema

app = App(
    name="db",
    help="The databases of a cloud: migrate them, show their versions.",
    default_parameter=Parameter(negative=()),
)


@app.command
def upgrade(*, database: DatabaseOptions = DatabaseOptions()) -> None:
    """Migrate all databases to the schema of this version, and store the rules of the settings for all processes.

    What is missing is created. Processes of the release before go on beside the new schema.
    """
    log_setup.configure(verbose=False)
    config, url = database.found()
    from whimbrel.bootstrap import database_upgrade

    asyncio.run(database_upgrade.upgrade(url, config))
    terminal.console().print("All databases have the schema of this version.")


@app.command
def show(
    *,
    database: DatabaseOptions = DatabaseOptions(),
    json: bool = False,
) -> None:
    """Show the id of the cloud and the versions of its databases. Exit code 1: one is older than this version.

    Parameters
    ----------
    json
        One JSON document instead of a table.
    """
    log_setup.configure(verbose=False)
    _, url = database.found()
    from whimbrel.bootstrap import database_upgrade

    async def read() -> "tuple[str | None, list[Schema]]":
        return await database_upgrade.cloud_of(url), await database_upgrade.versions(url)

    cloud, stores = asyncio.run(read())
    if json:
        terminal.write_json({"cloud": cloud, "stores": stores})
    else:
        _print_table(cloud, stores)
    if not all(each.is_current for each in stores):
        sys.exit(1)


def _print_table(cloud: str | None, stores: "list[Schema]") -> None:
    table = terminal.plain_table("store", "version", "of this program", "")
    for each in stores:
        remark = each.trouble or ("" if each.is_current else "run: whimbrel db upgrade")
        table.add_row(each.store, each.version or "-", each.newest, remark)
    console = terminal.console()
    console.print(f"cloud {cloud or '-'}")
    console.print(table)
