"""Draft the next version of a kind's schema: `python -m whimbrel.adapters.sql.migration_draft KIND --next MESSAGE`.

It is the difference between the versions, which are never changed, and the tables. Review the result: Alembic does not
detect every change (a changed CHECK, for example).
"""

import subprocess
import sys
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
def draft(*kinds: str, next_: Annotated[str, Parameter(name="--next")]) -> None:
    """Draft the next version of these kinds, of all if none is named. next_: what it changes."""
    for kind in kinds or MODULES:
        (MIGRATIONS / kind / "versions").mkdir(parents=True, exist_ok=True)
        file = _write_version(kind, f"{len(revisions(kind)) + 1:04}", next_)
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", file], check=True)


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
