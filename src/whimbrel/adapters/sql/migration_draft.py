"""Draft a version of a kind's schema from its tables: `python -m whimbrel.adapters.sql.migration_draft KIND`.

Until the first release there is one version, which is regenerated. A released version is never changed: with `--next
MESSAGE` the difference between the versions and the tables becomes the next version. Review the result: Alembic does
not detect every change (a changed CHECK, for example).
"""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import sqlalchemy as sa
from alembic import command
from alembic.script import Script
from cyclopts import App, Parameter

from whimbrel.adapters.sql.engine.schema import MIGRATIONS, revisions
from whimbrel.adapters.sql.migrations import config_of
from whimbrel.adapters.sql.tables import MODULES

app = App(help=__doc__)


@app.default
def draft(*kinds: str, next_: Annotated[str, Parameter(name="--next")] = "") -> None:
    """Draft the versions of these kinds, all of them if none is named."""
    for kind in kinds or MODULES:
        directory = MIGRATIONS / kind / "versions"
        directory.mkdir(parents=True, exist_ok=True)
        if not next_:
            _remove_only_version(directory)
        file = _write_version(kind, f"{len(revisions(kind)) + 1:04}", next_ or "Tables.")
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", file], check=True)


def _remove_only_version(directory: Path) -> None:
    files = sorted(directory.glob("[0-9]*_*.py"))
    assert len(files) <= 1, "there is more than one version: the first one is released"
    for file in files:
        file.unlink()


def _write_version(kind: str, revision: str, message: str) -> str:
    with sa.create_engine("sqlite://").connect() as connection:
        config = config_of(kind, connection)
        if revisions(kind):
            command.upgrade(config, "head")
        versions = str(MIGRATIONS / kind / "versions")
        script = command.revision(config, message, autogenerate=True, rev_id=revision, version_path=versions)
    assert isinstance(script, Script)
    return script.path


if __name__ == "__main__":
    app()
