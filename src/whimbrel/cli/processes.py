"""`whimbrel processes`: the processes of a cloud, from its database."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.cli import log_setup, terminal
from whimbrel.cli.role_options import DatabaseFile, SettingsFile, database_of, settings_of

if TYPE_CHECKING:
    from whimbrel.bootstrap.process_list import ListedProcess


def processes(
    *,
    settings_file: SettingsFile = None,
    database_file: DatabaseFile = None,
    data_dir: Path | None = None,
    json: bool = False,
) -> None:
    """List the processes of a cloud: role, host, release, and whether each is live. The agents: `whimbrel host list`.

    Parameters
    ----------
    settings_file
        The settings, for the database.
    database_file
        A file with the URL of the database, if the settings do not say it.
    data_dir
        The data directory of a `whimbrel up`, if the databases are there.
    json
        One JSON document instead of a table.
    """
    log_setup.configure(verbose=False)
    config = settings_of(settings_file, data_dir)
    url = database_of(config, database_file, data_dir)
    from whimbrel.bootstrap import process_list

    found = asyncio.run(process_list.processes(url))
    if json:
        terminal.write_json({"processes": found})
    else:
        _print(found)


def _print(found: "list[ListedProcess]") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("role", "name", "host", "process", "release", "state", "started", "has", box=None)
    for each in found:
        started = datetime.fromtimestamp(each.started_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        state = Text("live", "green") if each.live else Text("dead", "red")
        words = (each.role, each.name, each.host, str(each.pid), each.release)
        table.add_row(*words, state, started, ", ".join(each.parts))
    terminal.console().print(table)
