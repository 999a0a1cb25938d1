"""Options of several commands: where the databases of a cloud are, and what each service of a cloud is started with."""

from dataclasses import dataclass
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


@Parameter(name="*")  # its fields are options
@dataclass(frozen=True)
class DatabaseOptions:
    """Where the databases are: of commands that need nothing else of a cloud."""

    settings_file: SettingsFile = None
    """The settings, with the database. Default: whimbrel.toml of the data directory, else of /etc/whimbrel."""
    database_file: DatabaseFile = None
    """A file with the URL of the database. Default: that of WHIMBREL_DATABASE, else of the settings."""
    data_dir: Path | None = None
    """The data directory of a `whimbrel up`, if the databases are there."""

    def found(self) -> tuple[settings.CloudConfig, str]:
        """Return the settings, and the URL of the databases. Raises: Invalid."""
        config = settings_of(self.settings_file, self.data_dir)
        return config, database_of(config, self.database_file, self.data_dir)


@Parameter(name="*")
@dataclass(frozen=True)
class ProcessOptions:
    """Where a process without files finds its cloud."""

    settings_file: SettingsFile = None
    """The settings. Default: /etc/whimbrel/whimbrel.toml, or what the `whimbrel up` of the data directory has."""
    database_file: DatabaseFile = None
    """A file with the URL of the database, if the settings have none."""
    data_dir: Path | None = None
    """Directory of a `whimbrel up` on this machine, which has the hosts. Default: without settings the user's."""
    verbose: bool = False
    """Log more than warnings."""


@Parameter(name="*")
@dataclass(frozen=True)
class ServiceOptions:
    """What a service with files is started with, besides its port."""

    data_dir: Path | None = None
    """Directory with its files. Default: a directory of the user, by the conventions of the platform."""
    host: str | None = None
    """Address to listen at. Default: that of [listen], 127.0.0.1."""
    settings_file: SettingsFile = None
    """The settings. Default: whimbrel.toml of the data directory, else /etc/whimbrel/whimbrel.toml."""
    database_file: DatabaseFile = None
    """A file with the URL of the database, if the settings have none."""
    verbose: bool = False
    """Log more than warnings."""


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
            f" {VARIABLE}; --data-dir names a `whimbrel up` that keeps them in its directory"
        )
    return absolute(url)
