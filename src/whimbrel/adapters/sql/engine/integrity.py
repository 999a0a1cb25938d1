"""Checks a SQLite file that is not in use, without writing anything beside it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from whimbrel.adapters.sql.engine.schema import VERSION, revisions
from whimbrel.adapters.sql.tables import kind_of

SHOWN = 10
"""Maximum number of defects listed per file."""


def defects(file: Path, schema: str, revision: str | None) -> Iterator[str]:
    """Yield what is wrong with a file that holds this schema in this version."""
    # immutable: no log and no locks, which SQLite would otherwise create beside a file in WAL mode.
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)) as connection:
            for (said,) in connection.execute(f"PRAGMA integrity_check({SHOWN})"):
                if said != "ok":
                    yield f"the database is damaged: {said}"
            [found] = connection.execute(VERSION.text).fetchone()
    except sqlite3.Error as error:
        yield f"the database cannot be read: {error}"
        return
    if found != revision:
        yield f"the database has version {found} of its schema instead of {revision}"
    known = revisions(kind_of(schema))
    if found not in known:
        yield (
            f"the database has version {found} of its schema, and this Whimbrel knows versions up to {known[-1]}: use"
            " the Whimbrel that made the backup, or a newer one"
        )
