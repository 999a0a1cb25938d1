"""`whimbrel processes`: the processes of a cloud, from its API or its database."""

import asyncio
import os

import msgspec
from rich.text import Text

from whimbrel.api.views.processes import ListedProcess, Processes
from whimbrel.cli import log_setup, terminal
from whimbrel.cli.client import Api, find_login
from whimbrel.cli.database_option import VARIABLE
from whimbrel.cli.listing import Column, Listing
from whimbrel.cli.output_format import Output
from whimbrel.cli.role_options import DatabaseOptions, settings_of
from whimbrel.settings.datadir import default_path

COLUMNS = (
    Column("role"),
    Column("name", "name"),
    Column("host", "name"),
    Column("process"),
    Column("release"),
    Column("state"),
    Column("started"),
    Column("has", "reason"),
)


def processes(
    *,
    database: DatabaseOptions = DatabaseOptions(),
    os_cloud: str | None = None,
    output: Output = Output(),
) -> None:
    """List the processes of a cloud: role, host, release, and whether it is live. Agents: `whimbrel host list`.

    They are asked for by the API if OS_CLIENT_CONFIG_FILE, OS_CLOUD or --os-cloud names a cloud, or if no database is
    named; else they are read from the database, also when no API answers.

    Parameters
    ----------
    os_cloud
        Which entry of clouds.yaml to log in with. Default: that of OS_CLOUD, or the administrator of `whimbrel up`.
    """
    log_setup.configure(verbose=False)
    found = _of_database(database) if _names_database(database, os_cloud) else _of_api(os_cloud)
    if not output.wrote({"processes": found}, "processes"):
        terminal.console().print(listed(found))


def _names_database(options: DatabaseOptions, os_cloud: str | None) -> bool:
    if options != DatabaseOptions():
        return True
    if os_cloud or os.environ.get("OS_CLIENT_CONFIG_FILE") or os.environ.get("OS_CLOUD"):
        return False
    return bool(os.environ.get(VARIABLE) or settings_of(None, None).database.url)


def _of_database(options: DatabaseOptions) -> list[ListedProcess]:
    _, url = options.found()
    from whimbrel.bootstrap import process_list

    return asyncio.run(process_list.processes(url))


def _of_api(os_cloud: str | None) -> list[ListedProcess]:
    with Api(find_login(default_path(), os_cloud, data_dir_given=False)) as api:
        return msgspec.convert(api.get("compute", "/whimbrel/processes"), Processes).processes


def listed(found: list[ListedProcess]) -> Listing:
    rows = [
        (each.role, each.name, each.host, str(each.pid), each.release,
         Text("live", "green") if each.live else Text("dead", "red"), terminal.moment(each.started_at),
         ", ".join(each.parts))
        for each in found
    ]  # fmt: skip
    return Listing(COLUMNS, rows, none="no processes")
