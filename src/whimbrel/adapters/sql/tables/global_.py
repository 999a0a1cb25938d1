"""Tables of the global database: directory, journal, and the objects that operators and users create."""

import sqlalchemy as sa

from whimbrel.adapters.sql.tables.partial_index import where

metadata = sa.MetaData()

Doc = sa.LargeBinary
"""A msgspec-encoded value, read and written as a whole."""

directory = sa.Table(
    "directory",
    metadata,
    sa.Column("server_id", sa.String(36), primary_key=True),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("cell", sa.String(255)),
    sa.Column("unplaced", Doc),
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("memory_mib", sa.Integer, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False, server_default="0"),
    sa.Column("deleted_at", sa.Double),
    sa.Column("delete_wanted_by", sa.String(255)),
    sa.Column("delete_wanted_user", sa.String(255)),
    sa.Column("switch_number", sa.Integer),  # of its last switch to another cell
    sa.CheckConstraint("vcpus >= 0 AND memory_mib >= 0", name="directory_counts_nothing_below_zero"),
    sa.CheckConstraint(
        "(cell IS NULL) = (unplaced IS NOT NULL) OR deleted_at IS NOT NULL", name="directory_one_record"
    ),
    sa.Index("directory_usage", "project_id", "deleted_at", "user_id", "vcpus", "memory_mib"),
    sa.Index("directory_unplaced", "server_id", **where("unplaced IS NOT NULL")),
    sa.Index("directory_switches", "switch_number", **where("switch_number IS NOT NULL")),
    sa.Index("directory_delete_wanted", "server_id", **where("delete_wanted_by IS NOT NULL AND deleted_at IS NULL")),
)

switches = sa.Table(
    "switches",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.CheckConstraint("id = 1", name="switches_one_row"),
)
"""The number of servers that have changed their cell. A switch locks the row, so that numbers appear in order."""

evidence = sa.Table(
    "evidence",
    metadata,
    sa.Column("number", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("run", sa.String(36), nullable=False),
    sa.Column("step", sa.String(64), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),  # compressed
    sa.Index("evidence_by_run", "run"),
)
"""Evidence of the runs' decisions: adapters/sql/global_/decision_evidence.py."""

run_progress = sa.Table(
    "run_progress",
    metadata,
    sa.Column("run", sa.String(36), primary_key=True),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
)
"""The progress of a long step, for users: adapters/sql/global_/run_progress.py."""

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("number", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("id", sa.String(36), nullable=False, unique=True),
    sa.Column("saga", sa.String(64), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("subject", sa.String(36), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("asker_project_id", sa.String(255), nullable=False),
    sa.Column("action", sa.String(255), nullable=False),
    sa.Column("at", sa.String(64), nullable=False),
    sa.Column("way", sa.String(8), nullable=False),
    sa.Column("state", sa.String(8), nullable=False),
    sa.Column("turned", sa.String(8)),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("owner", sa.String(255)),
    sa.Column("due_at", sa.Double, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("since", sa.Double, nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("verdict", sa.String(8)),
    sa.Column("message", sa.Text),
    sa.Column("problem", sa.Text),
    sa.Column("facts", Doc, nullable=False),
    sa.Column("log", Doc, nullable=False),
    sa.Column("debts", Doc, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.Column("parked_at", sa.Double),
    sa.Column("finished_at", sa.Double),
    sa.Column("queued", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("entries", sa.Integer),  # of its log, to be announced; NULL: none
    sa.Column("announced", sa.Integer, nullable=False, server_default="0"),  # entries
    sa.Column("source_host", sa.String(255)),  # of a move; NULL: it has none, or an older program accepted it
    sa.Column("ticket", sa.Integer),  # of a live migration that has drawn one
    sa.CheckConstraint("way IN ('forward', 'back')", name="runs_way"),
    sa.CheckConstraint("state IN ('open', 'parked', 'done', 'undone')", name="runs_state"),
    sa.CheckConstraint("(state IN ('done', 'undone')) = (finished_at IS NOT NULL)", name="runs_over_is_finished"),
    sa.CheckConstraint("state <> 'parked' OR owner IS NULL", name="runs_parked_has_no_owner"),
    sa.CheckConstraint("turned IN ('refused', 'reverted', 'asked')", name="runs_turned"),
    sa.CheckConstraint("verdict IN ('confirm', 'revert')", name="runs_verdict"),
    sa.CheckConstraint("epoch >= 1", name="runs_epoch"),
    # Any number of runs may be queued behind the open one, and one operation may be open beside a parked one.
    sa.Index("one_open_run", "subject", unique=True, **where("state = 'open' AND NOT queued")),
    sa.Index("one_parked_run", "subject", unique=True, **where("state = 'parked'")),
    sa.Index("runs_due", "due_at", **where("state = 'open'")),
    sa.Index("runs_owned", "owner", **where("state = 'open' AND owner IS NOT NULL")),
    sa.Index("runs_by_subject", "subject"),
    sa.Index("runs_by_source", "saga", "source_host"),
    sa.Index("runs_by_ticket", "ticket", **where("ticket IS NOT NULL AND finished_at IS NULL")),
    sa.Index("runs_to_announce", "subject", **where("announced < entries")),
    # Few of all runs are open: see run_filter.py.
    sa.Index("runs_open", "saga", "subject", **where("finished_at IS NULL")),
    # Covers the columns of counts.
    sa.Index("runs_ended", "finished_at", "saga", "turned", "state", **where("finished_at IS NOT NULL")),
    sqlite_autoincrement=True,
)

takeovers = sa.Table(
    "takeovers",
    metadata,
    sa.Column("number", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("run", sa.String(36), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("was", sa.String(255), nullable=False),
    sa.Column("by", sa.String(255), nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Index("takeovers_by_run", "run"),
)
"""Runs that passed from one conductor to another because the first one's lease expired."""

actions = sa.Table(
    "actions",
    metadata,
    sa.Column("number", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("server_id", sa.String(36), nullable=False),
    sa.Column("request_id", sa.String(255), nullable=False),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("run_id", sa.String(36)),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double),
    sa.Column("message", sa.Text),
    sa.Column("to_announce", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.UniqueConstraint("server_id", "request_id", "name", name="actions_once"),
    sa.Index("actions_to_announce", "server_id", **where("to_announce")),
)

announcing = sa.Table(
    "announcing",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("owner", sa.String(255)),
    sa.Column("until", sa.Double, nullable=False, server_default="0"),
    sa.Column("sent", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("dropped", sa.BigInteger, nullable=False, server_default="0"),
    sa.CheckConstraint("id = 1", name="announcing_one_row"),
)
"""The lease of the process that announces, and counts of notifications: adapters/sql/global_/announcements.py."""

flavors = sa.Table(
    "flavors",
    metadata,
    sa.Column("number", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("flavor_id", sa.String(255), nullable=False, unique=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("memory_mib", sa.Integer, nullable=False),
    sa.Column("root_gib", sa.Integer, nullable=False),
    sa.Column("ephemeral_gib", sa.Integer, nullable=False),
    sa.Column("swap_mib", sa.Integer, nullable=False),
    sa.Column("rxtx_factor", sa.Double, nullable=False),
    sa.Column("is_public", sa.Boolean, nullable=False),
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("extra_specs", sa.JSON, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.CheckConstraint(
        "vcpus >= 1 AND memory_mib >= 1 AND root_gib >= 0 AND ephemeral_gib >= 0 AND swap_mib >= 0",
        name="flavors_sizes",
    ),
)

flavor_projects = sa.Table(
    "flavor_projects",
    metadata,
    sa.Column("flavor_id", sa.ForeignKey("flavors.flavor_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("project_id", sa.String(255), primary_key=True),
)

keypairs = sa.Table(
    "keypairs",
    metadata,
    sa.Column("number", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("type", sa.String(8), nullable=False),
    sa.Column("public_key", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.String(255), nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.CheckConstraint("type IN ('ssh', 'x509')", name="keypairs_type"),
    sa.UniqueConstraint("user_id", "name", name="keypairs_name"),
)

quota_limits = sa.Table(
    "quota_limits",
    metadata,
    sa.Column("project_id", sa.String(255), primary_key=True),
    sa.Column("user_id", sa.String(255), primary_key=True),  # "": the whole project
    sa.Column("resource", sa.String(64), primary_key=True),
    sa.Column("hard_limit", sa.Integer, nullable=False),
    sa.CheckConstraint("hard_limit >= -1", name="quota_limits_range"),
)

quota_class_limits = sa.Table(
    "quota_class_limits",
    metadata,
    sa.Column("class_name", sa.String(255), primary_key=True),
    sa.Column("resource", sa.String(64), primary_key=True),
    sa.Column("hard_limit", sa.Integer, nullable=False),
    sa.CheckConstraint("hard_limit >= -1", name="quota_class_limits_range"),
)

aggregates = sa.Table(
    "aggregates",
    metadata,
    sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("metadata", sa.JSON, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double),
)

zones = sa.Table(
    "zones",
    metadata,
    sa.Column("id", sa.String(255), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("created_at", sa.Double, nullable=False),
)

cells = sa.Table(
    "cells",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("database", sa.Text),  # NULL: the cloud's own
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("disabled_reason", sa.Text),
    sa.Column("physnets", sa.JSON(none_as_null=True)),  # NULL: all are reachable
    sa.Column("storage", sa.JSON(none_as_null=True)),
    sa.Column("migration_network", sa.String(255)),  # NULL: its hosts transfer live guests among each other only
    sa.Column("settings", sa.JSON(none_as_null=True)),  # the last content of cloud.toml; NULL: added by a command
    sa.Column("created_at", sa.Double, nullable=False),
    sa.CheckConstraint("NOT enabled OR disabled_reason IS NULL", name="cells_enabled_without_reason"),
)

zone_mends = sa.Table(
    "zone_mends",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.CheckConstraint("id = 1", name="zone_mends_one_row"),
)
"""How often the zones recorded in placement were corrected. A change of zones begun before a correction is refused."""

rounds = sa.Table(
    "rounds",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
)
"""When a conductor last began each shared round."""

cloud = sa.Table(
    "cloud",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("incarnation", sa.Integer, nullable=False, server_default="1"),
    sa.Column("held_at", sa.Double),  # when all runs were held; NULL: they are not
    sa.Column("held_because", sa.Text),
    sa.Column("restoring", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.CheckConstraint("id = 1", name="cloud_one_row"),
)
"""The state of the cloud as a whole: ports/stores/restores.py. No row: the first incarnation, not held."""

last_proof = sa.Table(
    "last_proof",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("violations", sa.Integer, nullable=False),
    sa.Column("unseen", sa.Integer, nullable=False),
    sa.CheckConstraint("id = 1", name="last_proof_one_row"),
)
"""When the cloud's accounting was last checked, and the number of violations and unchecked items."""

proofs = sa.Table(
    "proofs",
    metadata,
    sa.Column("at", sa.Double, primary_key=True),
    sa.Column("violations", sa.Integer, nullable=False),
    sa.Column("unseen", sa.Integer, nullable=False),
)
"""The last proofs, for their trend; older ones are deleted. Processes of earlier releases write `last_proof` only."""

processes = sa.Table(
    "processes",
    metadata,
    sa.Column("id", sa.String(255), primary_key=True),
    sa.Column("role", sa.String(64), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("directory", sa.Text, nullable=False),
    sa.Column("lock", sa.String(255), nullable=False),
    sa.Column("release", sa.String(64), nullable=False),
    sa.Column("is_exclusive", sa.Boolean, nullable=False),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("seen_at", sa.Double, nullable=False),
    sa.Column("lease_until", sa.Double, nullable=False),
    sa.Column("clock_offset_s", sa.Double, nullable=False),
    sa.Column("knows", sa.Text, nullable=False, server_default="{}"),  # JSON: the versions that it can process
    sa.Index("one_process_of_role", "role", unique=True, **where("is_exclusive")),
)
"""The processes of this cloud, with their leases. Times are of the database's clock."""

cloud_identity = sa.Table(
    "cloud_identity",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("cloud_id", sa.String(36), nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.CheckConstraint("id = 1", name="cloud_identity_one_row"),
)
"""The id of the cloud to which this database belongs."""

host_invitations = sa.Table(
    "host_invitations",
    metadata,
    sa.Column("token_hash", sa.String(64), primary_key=True),  # SHA-256, hexadecimal
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("cell", sa.String(255), nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
    sa.Column("used_at", sa.Double),
)
"""One-time tokens with which hosts join."""

host_keys = sa.Table(
    "host_keys",
    metadata,
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Column("cell", sa.String(255), nullable=False),
    sa.Column("public_key", sa.String(64), nullable=False, unique=True),  # an nkey, "U..."
    sa.Column("joined_at", sa.Double, nullable=False),
    sa.Column("retired_at", sa.Double),
)
"""The public keys of hosts that have joined, whose agents are on other machines."""

bus_accounts = sa.Table(
    "bus_accounts",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("public_key", sa.String(64), nullable=False, unique=True),
    sa.Column("seed", sa.Text, nullable=False),
    sa.Column("jwt", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
)
"""The keys with which the cloud admits users of its bus: the operator's, and one account for each cell."""

aggregate_hosts = sa.Table(
    "aggregate_hosts",
    metadata,
    sa.Column("aggregate_id", sa.ForeignKey("aggregates.id"), primary_key=True),
    sa.Column("host", sa.String(255), primary_key=True),
)

server_groups = sa.Table(
    "server_groups",
    metadata,
    sa.Column("number", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("id", sa.String(36), nullable=False, unique=True),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("policy", sa.String(32), nullable=False),
    sa.Column("max_server_per_host", sa.Integer),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.CheckConstraint(
        "policy IN ('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity')", name="server_groups_policy"
    ),
    sa.CheckConstraint(
        "max_server_per_host IS NULL OR (max_server_per_host >= 1 AND policy = 'anti-affinity')",
        name="server_groups_rules",
    ),
    sa.Index("server_groups_by_project", "project_id", "user_id"),
)

server_group_members = sa.Table(
    "server_group_members",
    metadata,
    sa.Column("number", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("server_id", sa.String(36), nullable=False, unique=True),
    sa.Column(
        "group_id",
        sa.ForeignKey("server_groups.id", name="server_group_members_group", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
)

console_tokens = sa.Table(
    "console_tokens",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),  # SHA-256 of the token, hexadecimal
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("server_id", sa.String(36), nullable=False),
    sa.Column("cell", sa.String(255), nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("slot", sa.String(36), nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False, index=True),
)
"""Tokens with which users connect to consoles."""

image_fetches = sa.Table(
    "image_fetches",
    metadata,
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Column("image_id", sa.String(36), primary_key=True),
    sa.Column("cell", sa.String(255), nullable=False),
    sa.Column("requested_at", sa.Double, nullable=False),
    sa.Column("due_at", sa.Double, nullable=False, index=True),
)
"""Images that hosts are requested to fetch ahead of their first use."""

image_requests = sa.Table(
    "image_requests",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("aggregate", sa.JSON, nullable=False),  # as it was then
    sa.Column("hosts", sa.JSON, nullable=False),  # list of names
    sa.Column("images", sa.JSON, nullable=False),  # list of ids
    sa.Column("requested_at", sa.Double, nullable=False, index=True),
    sa.Column("outcomes", sa.JSON, nullable=False),  # list of host, image, whether it is cached; in order
)
"""What is announced of such requests, and how they ended; only while notifications are enabled."""

maintenances = sa.Table(
    "maintenances",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("target", sa.String(255), nullable=False),
    sa.Column("options", Doc, nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("has_disabled", sa.Boolean, nullable=False),
    sa.Column("message", sa.Text),
    sa.Column("failed_before", sa.Integer, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.Column("started_at", sa.Double),
    sa.Column("finished_at", sa.Double),
    sa.CheckConstraint(
        "state IN ('planned', 'running', 'paused', 'aborting', 'aborted', 'done')", name="maintenances_state"
    ),
    sa.Index("maintenances_by_state", "state"),
)
"""Hosts that are emptied by a plan: ports/stores/maintenances.py."""

maintenance_hosts = sa.Table(
    "maintenance_hosts",
    metadata,
    sa.Column("maintenance_id", sa.String(36), primary_key=True),
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Column("cell", sa.String(255), nullable=False),
    sa.Column("was_enabled", sa.Boolean),
    sa.Column("was_reason", sa.Text),
    sa.Column("held", sa.Boolean, nullable=False),
    sa.Index("one_maintenance_of_host", "host", unique=True, **where("held")),
)

maintenance_holds = sa.Table(
    "maintenance_holds",
    metadata,
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Column("maintenance_id", sa.String(36), nullable=False),
)
"""Which maintenance that is under way has a host, also to balance or to pack it."""

maintenance_items = sa.Table(
    "maintenance_items",
    metadata,
    sa.Column("maintenance_id", sa.String(36), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("server_id", sa.String(36), nullable=False),
    sa.Column("server_name", sa.String(255), nullable=False),
    sa.Column("source", sa.String(255), nullable=False),
    sa.Column("kind", sa.String(16)),
    sa.Column("downtime", sa.Boolean, nullable=False),
    sa.Column("target", sa.String(255)),
    sa.Column("group_id", sa.String(36)),
    sa.Column("project_id", sa.String(255)),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("run_id", sa.String(36), unique=True),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("due_at", sa.Double, nullable=False),
    sa.Column("purpose", sa.Text),
    sa.Column("waits_for", Doc),
    sa.Column("started_at", sa.Double),
    sa.Column("finished_at", sa.Double),
    sa.CheckConstraint(
        "state IN ('planned', 'moving', 'moved', 'failed', 'left', 'stays')", name="maintenance_items_state"
    ),
    sa.CheckConstraint("state <> 'moving' OR run_id IS NOT NULL", name="maintenance_items_moving_by_a_run"),
)
