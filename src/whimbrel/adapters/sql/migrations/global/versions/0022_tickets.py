"""The tickets of live migrations, so that the highest is found without reading all that wait.

Migrations that are under way keep theirs. The release before this one has no live migrations.
"""

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.add_column("runs", sa.Column("ticket", sa.Integer(), nullable=True))
    where = sa.text("ticket IS NOT NULL AND finished_at IS NULL")
    op.create_index("runs_by_ticket", "runs", ["ticket"], sqlite_where=where, postgresql_where=where)
    _copy_tickets()


def _copy_tickets() -> None:
    columns = ("number", sa.Integer), ("saga", sa.String), ("facts", sa.LargeBinary), ("finished_at", sa.Double)
    runs = sa.table("runs", *(sa.column(name, kind) for name, kind in columns), sa.column("ticket", sa.Integer))
    waiting = sa.select(runs.c.number, runs.c.facts).where(runs.c.saga == "live_migrate", runs.c.finished_at.is_(None))
    for number, facts in op.get_bind().execute(waiting).all():
        live = msgspec.json.decode(facts).get("live") or {}
        if ticket := live.get("ticket"):
            op.execute(sa.update(runs).where(runs.c.number == number).values(ticket=ticket))
