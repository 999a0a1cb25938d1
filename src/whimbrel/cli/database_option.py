"""The database URL of a command, also from a file or the environment, so that the command line has no password.

Every user of the machine can read a process's command line, and the shell's history keeps it.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog

from whimbrel.adapters.sql.engine.urls import check_url, without_password
from whimbrel.domain.errors import Invalid
from whimbrel.settings.named_files import read_word

log = structlog.get_logger(__name__)

VARIABLE = "WHIMBREL_DATABASE"
URL = "postgresql://USER:PASSWORD@HOST/NAME"


def chosen_database(
    url: str | None, file: Path | None, option: str = "--database", variable: str | None = VARIABLE
) -> str | None:
    """Return the database URL that was given by an option, in a file or in the environment; None: in none of them.

    variable: None: the environment is not read.
    Raises: Invalid: it is given twice, the file cannot be read, or the URL is not supported.
    """
    if url is not None and file:
        raise Invalid(f"{option} and {option}-file both name a database: give one of them")
    if url is None:
        url = read_word(file, f"{option}-file", URL) if file else os.environ.get(variable or "") or None
    if url is not None:  # an empty value, as of an unset shell variable, is an error, not the default
        check_url(url)
    return url


def warn_of_passwords(arguments: Sequence[str] = sys.argv) -> None:
    """Log a warning if the command line contains a password."""
    if any(each != without_password(each) for each in arguments if "://" in each):
        log.warning(
            f"the password of a database is on the command line, where all users of this machine can read it: use a"
            f" file (--database-file; for Placement --db-file), {VARIABLE}, or PGPASSFILE"
        )
    if any(each.startswith("--os-password") for each in arguments):
        log.warning(
            "the password of --os-password is on the command line, where all users of this machine can read it: use"
            " OS_PASSWORD"
        )
