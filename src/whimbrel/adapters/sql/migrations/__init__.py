"""The versions of each store's schema for Alembic: <kind>/versions/NNNN_*.py, one linear history per kind.

`python -m whimbrel.adapters.sql.migration_draft` drafts the next one.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic.config import Config


def config_of(kind: str, connection: sa.Connection) -> Config:
    """Return the Alembic configuration of a kind's versions on an open connection."""
    here = Path(__file__).parent
    config = Config(attributes={"kind": kind, "connection": connection})
    config.set_main_option("script_location", str(here).replace("%", "%%"))
    config.set_main_option("version_locations", str(here / kind / "versions").replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    return config
