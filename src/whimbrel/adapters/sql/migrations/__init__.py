"""The versions of each store's schema, as Alembic reads them: <kind>/versions/NNNN_*.py, one line of versions a kind.

To write the first version of a kind anew from its tables (while nothing is released):
`python -m whimbrel.adapters.sql.migration_draft KIND`, then read and edit what it wrote.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic.config import Config


def config_of(kind: str, connection: sa.Connection) -> Config:
    """Tell Alembic where the versions of a kind are and which open connection to use."""
    here = Path(__file__).parent
    config = Config(attributes={"kind": kind, "connection": connection})
    config.set_main_option("script_location", str(here).replace("%", "%%"))
    config.set_main_option("version_locations", str(here / kind / "versions").replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    return config
