"""Tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "actions",
        sa.Column("number", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.Column("request_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("server_id", "request_id", "name", name="actions_once"),
    )
    op.create_table(
        "aggregates",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("uuid"),
    )
    op.create_table(
        "directory",
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("cell", sa.String(length=255), nullable=True),
        sa.Column("unplaced", sa.LargeBinary(), nullable=True),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mib", sa.Integer(), nullable=False),
        sa.Column("deleted_at", sa.Double(), nullable=True),
        sa.Column("delete_wanted_by", sa.String(length=255), nullable=True),
        sa.Column("delete_wanted_user", sa.String(length=255), nullable=True),
        sa.CheckConstraint(
            "(cell IS NULL) = (unplaced IS NOT NULL) OR deleted_at IS NOT NULL", name="directory_one_record"
        ),
        sa.CheckConstraint("vcpus >= 0 AND memory_mib >= 0", name="directory_counts_nothing_below_zero"),
        sa.PrimaryKeyConstraint("server_id"),
    )
    op.create_index(
        "directory_delete_wanted",
        "directory",
        ["server_id"],
        unique=False,
        sqlite_where=sa.text("delete_wanted_by IS NOT NULL AND deleted_at IS NULL"),
        postgresql_where=sa.text("delete_wanted_by IS NOT NULL AND deleted_at IS NULL"),
    )
    op.create_index(
        "directory_unplaced",
        "directory",
        ["server_id"],
        unique=False,
        sqlite_where=sa.text("unplaced IS NOT NULL"),
        postgresql_where=sa.text("unplaced IS NOT NULL"),
    )
    op.create_index(
        "directory_usage", "directory", ["project_id", "deleted_at", "user_id", "vcpus", "memory_mib"], unique=False
    )
    op.create_table(
        "flavors",
        sa.Column("number", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("flavor_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mib", sa.Integer(), nullable=False),
        sa.Column("root_gib", sa.Integer(), nullable=False),
        sa.Column("ephemeral_gib", sa.Integer(), nullable=False),
        sa.Column("swap_mib", sa.Integer(), nullable=False),
        sa.Column("rxtx_factor", sa.Double(), nullable=False),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("extra_specs", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "vcpus >= 1 AND memory_mib >= 1 AND root_gib >= 0 AND ephemeral_gib >= 0 AND swap_mib >= 0",
            name="flavors_sizes",
        ),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("flavor_id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "keypairs",
        sa.Column("number", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=8), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint("type IN ('ssh', 'x509')", name="keypairs_type"),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("user_id", "name", name="keypairs_name"),
    )
    op.create_table(
        "quota_class_limits",
        sa.Column("class_name", sa.String(length=255), nullable=False),
        sa.Column("resource", sa.String(length=64), nullable=False),
        sa.Column("hard_limit", sa.Integer(), nullable=False),
        sa.CheckConstraint("hard_limit >= -1", name="quota_class_limits_range"),
        sa.PrimaryKeyConstraint("class_name", "resource"),
    )
    op.create_table(
        "quota_limits",
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("resource", sa.String(length=64), nullable=False),
        sa.Column("hard_limit", sa.Integer(), nullable=False),
        sa.CheckConstraint("hard_limit >= -1", name="quota_limits_range"),
        sa.PrimaryKeyConstraint("project_id", "user_id", "resource"),
    )
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("saga", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("subject", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("asker_project_id", sa.String(length=255), nullable=False),
        sa.Column("action", sa.String(length=255), nullable=False),
        sa.Column("at", sa.String(length=64), nullable=False),
        sa.Column("way", sa.String(length=8), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("turned", sa.String(length=8), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("verdict", sa.String(length=8), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("facts", sa.LargeBinary(), nullable=False),
        sa.Column("log", sa.LargeBinary(), nullable=False),
        sa.Column("debts", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("parked_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.CheckConstraint("(state IN ('done', 'undone')) = (finished_at IS NOT NULL)", name="runs_over_is_finished"),
        sa.CheckConstraint("state <> 'parked' OR owner IS NULL", name="runs_parked_has_no_owner"),
        sa.CheckConstraint("state IN ('open', 'parked', 'done', 'undone')", name="runs_state"),
        sa.CheckConstraint("turned IN ('refused', 'reverted', 'asked')", name="runs_turned"),
        sa.CheckConstraint("verdict IN ('confirm', 'revert')", name="runs_verdict"),
        sa.CheckConstraint("way IN ('forward', 'back')", name="runs_way"),
        sa.CheckConstraint("epoch >= 1", name="runs_epoch"),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "one_open_run",
        "runs",
        ["subject"],
        unique=True,
        sqlite_where=sa.text("finished_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL"),
    )
    op.create_index("runs_by_subject", "runs", ["subject"], unique=False)
    op.create_index(
        "runs_due",
        "runs",
        ["due_at"],
        unique=False,
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )
    op.create_index(
        "runs_owned",
        "runs",
        ["owner"],
        unique=False,
        sqlite_where=sa.text("state = 'open' AND owner IS NOT NULL"),
        postgresql_where=sa.text("state = 'open' AND owner IS NOT NULL"),
    )
    op.create_table(
        "aggregate_hosts",
        sa.Column("aggregate_id", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["aggregate_id"],
            ["aggregates.id"],
        ),
        sa.PrimaryKeyConstraint("aggregate_id", "host"),
    )
    op.create_table(
        "flavor_projects",
        sa.Column("flavor_id", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["flavor_id"], ["flavors.flavor_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("flavor_id", "project_id"),
    )
