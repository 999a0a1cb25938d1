"""Maintenances: the hosts that they empty, and the servers that they move."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.create_table(
        "maintenances",
        sa.Column("id", sa.String(length=36), primary_key=True),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("target", sa.String(length=255), nullable=False),
        sa.Column("options", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("has_disabled", sa.Boolean(), nullable=False),
        sa.Column("message", sa.Text()),
        sa.Column("failed_before", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("finished_at", sa.Double()),
        sa.CheckConstraint(
            "state IN ('planned', 'running', 'paused', 'aborting', 'aborted', 'done')", name="maintenances_state"
        ),
    )
    op.create_index("maintenances_by_state", "maintenances", ["state"])
    op.create_table(
        "maintenance_hosts",
        sa.Column("maintenance_id", sa.String(length=36), primary_key=True),
        sa.Column("host", sa.String(length=255), primary_key=True),
        sa.Column("cell", sa.String(length=255), nullable=False),
        sa.Column("was_enabled", sa.Boolean()),
        sa.Column("was_reason", sa.Text()),
        sa.Column("held", sa.Boolean(), nullable=False),
    )
    where = sa.text("held")
    op.create_index(
        "one_maintenance_of_host",
        "maintenance_hosts",
        ["host"],
        unique=True,
        sqlite_where=where,
        postgresql_where=where,
    )
    op.create_table(
        "maintenance_items",
        sa.Column("maintenance_id", sa.String(length=36), primary_key=True),
        sa.Column("position", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.Column("server_name", sa.String(length=255), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=16)),
        sa.Column("downtime", sa.Boolean(), nullable=False),
        sa.Column("target", sa.String(length=255)),
        sa.Column("group_id", sa.String(length=36)),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("run_id", sa.String(length=36), unique=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("finished_at", sa.Double()),
        sa.CheckConstraint(
            "state IN ('planned', 'moving', 'moved', 'failed', 'left', 'stays')", name="maintenance_items_state"
        ),
        sa.CheckConstraint("state <> 'moving' OR run_id IS NOT NULL", name="maintenance_items_moving_by_a_run"),
    )
