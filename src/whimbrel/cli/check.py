"""`whimbrel check`: every connection, right and version that a cloud needs, before anything is started."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.cli import SAYS_NO, log_setup, terminal
from whimbrel.cli.role_options import DatabaseFile, SettingsFile, database_of, settings_of
from whimbrel.settings.datadir import default_path

if TYPE_CHECKING:
    from whimbrel.adapters.openstack.discovery import Checked

COLORS = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def check(
    *,
    settings_file: SettingsFile = None,
    database_file: DatabaseFile = None,
    data_dir: Path | None = None,
    json: bool = False,
) -> int:
    """Check the connections of a cloud: databases, bus, and the identity, image, network and volume services.

    Nothing is changed, and no process of the cloud has to run. Exit code 0: it can be started, though there may be
    warnings; 1: something failed, and each such line says what to do.

    Parameters
    ----------
    settings_file
        The settings. Default: whimbrel.toml of the data directory, else /etc/whimbrel/whimbrel.toml.
    database_file
        A file with the URL of the database, if the settings have none.
    data_dir
        The data directory of a `whimbrel up`.
    json
        One JSON document instead of a table.
    """
    log_setup.configure(verbose=False)
    config = settings_of(settings_file, data_dir)
    url = database_of(config, database_file, data_dir or default_path())
    from whimbrel.bootstrap.connection_check import check_connections

    found = asyncio.run(check_connections(config, url))
    ok = all(each.state != "failed" for each in found)
    if json:
        terminal.write_json({"ok": ok, "checks": found})
    else:
        _print(found)
    return 0 if ok else SAYS_NO


def _print(found: "list[Checked]") -> None:
    from rich.text import Text

    table = terminal.plain_table("of", "is", "what", "to do")
    for each in found:
        state = Text(each.state, COLORS[each.state])
        table.add_row(each.subject, state, Text(each.text), Text(each.advice))
    terminal.console().print(table)
