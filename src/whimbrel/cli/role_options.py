"""The options that all roles have: the settings file, and a file with the URL of the database."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whimbrel import settings
from whimbrel.adapters.sql.engine.urls import absolute
from whimbrel.cli.database_option import VARIABLE, chosen_database
from whimbrel.domain.errors import Invalid
from whimbrel.settings.datadir import DataDir, default_path

SettingsFile = Annotated[Path | None, Parameter(name=["--settings", "--cloud"])]
"""--cloud is its name of earlier releases."""

DatabaseFile = Annotated[Path | None, Parameter(name="--database-file")]


def settings_of(file: Path | None, data_dir: Path | None) -> settings.CloudConfig:
    """Return the settings of a process that needs no cells. Raises: Invalid."""
    found = settings.find(file, (data_dir or default_path()).expanduser())
    return settings.load(found, needs_cells=False) if found else settings.CloudConfig()


def database_of(config: settings.CloudConfig, file: Path | None, data_dir: Path | None) -> str:
    """Return the URL of the cloud's databases; data_dir: those of a `whimbrel up` are in it, if no other is named.

    Raises: Invalid: none is named.
    """
    url = chosen_database(None, file) or config.database.url
    if url is None and data_dir is not None:
        url = DataDir(data_dir).database_url
    if url is None:
        raise Invalid(
            "no database is named: set 'url' or 'url_file' in [database] of the settings, or give --database-file or"
            f" {VARIABLE}"
        )
    return absolute(url)
