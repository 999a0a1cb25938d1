"""The commands that repair what a finding names. Commands of Nova and OpenStack first; SQL only where neither has one.

The SQL is such that MariaDB, MySQL and PostgreSQL take it. What was seen is in its WHERE clause: it changes nothing
once the state has changed.
"""

from collections.abc import Iterator, Sequence

from whimbrel.doctor.doctor_finding import AskHost, Command, Reboot
from whimbrel.doctor.nova_records import Allocations, CellMapping, Instance, Migration, VolumeUse

API = "the API database"
PLACEMENT = "the database of Placement"
TOKEN = '-H "X-Auth-Token: $(openstack token issue -f value -c id)"'
"""For calls for which the client has no command."""
NOT_REBOOTED = ("resized", "rescued", "soft-delete")
"""States in which Nova refuses a hard reboot, beside that of shelved servers. Source: vm_states.ALLOW_HARD_REBOOT."""


def reset(server: str, state: str = "active", only: str = "") -> Command:
    """Set a state without the question that the client asks, which ends a script. only: the condition, as a comment."""
    return Command(f"openstack server set --state {state} --auto-approve {server}{f'  # {only}' if only else ''}")


def show(server: str) -> Command:
    return Command(f"openstack server event list --long {server}")


def delete(server: str, only: str = "") -> Command:
    """only: the condition, as a comment."""
    return Command(f"openstack server delete {server}{f'  # {only}' if only else ''}")


def clear_task(server: Instance, *, and_host: bool = False) -> Command:
    """Clear the task state only: Nova's command would change the state, too."""
    host = ", host = NULL, node = NULL" if and_host else ""
    return sql(server.cell, f"UPDATE instances SET task_state = NULL{host} WHERE {as_seen(server)};")


def as_seen(server: Instance) -> str:
    """Return the condition that a server's row is still as it was seen."""
    seen = {"vm_state": server.vm_state, "task_state": server.task_state, "host": server.host}
    return " AND ".join([f"uuid = '{server.uuid}'", *(equals(*each) for each in seen.items()), "deleted = 0"])


def equals(column: str, value: str | None) -> str:
    return f"{column} IS NULL" if value is None else f"{column} = '{value}'"


def names_cell(mappings: Sequence[CellMapping]) -> str:
    """Return the condition that an instance mapping still names the cell that it was seen to name."""
    cell = mappings[0].cell if mappings else None
    if cell is None:
        return "(cell_id IS NULL OR cell_id NOT IN (SELECT id FROM cell_mappings))"
    return f"cell_id = {_id_of_cell(cell)}"


def _id_of_cell(name: str) -> str:
    """name: as doctor gives it: the uuid of a cell without a name, or with one that another cell has already."""
    return f"(SELECT id FROM cell_mappings WHERE name = '{name}' OR uuid = '{name}' ORDER BY id LIMIT 1)"


def hard_reboot(server: str, wait: str = "", only: str = "") -> Command:
    """wait: " --wait": Nova refuses the next command while this one goes on. only: the condition, as a comment."""
    return Reboot(f"openstack server reboot --hard{wait} {server}{f'  # {only}' if only else ''}", server=server)


def offload(server: str) -> Command:
    """The client's `server shelve --offload` passes over a server that is shelved already, and reports success."""
    return Command(
        f'curl --fail-with-body -X POST {TOKEN} -H "Content-Type: application/json" -d \'{{"shelveOffload": null}}\''
        f' "{endpoint("compute")}/servers/{server}/action"'
    )


def endpoint(service: str) -> str:
    return f"$(openstack endpoint list --service {service} --interface public -f value -c URL)"


def end_volume_migration(volume: str) -> Command:
    return _of_volume(volume, '{"os-reset_status": {"migration_status": "none"}}')


def complete_volume_migration(volume: str, copy: str) -> Command:
    """Make Cinder take the copy for the volume and delete what the volume was, as nova-compute asks after a swap."""
    return _of_volume(volume, f'{{"os-migrate_volume_completion": {{"new_volume": "{copy}", "error": false}}}}')


def _of_volume(volume: str, body: str) -> Command:
    """Cinder knows two names for itself in the catalog, and its URL may end in a template of the project."""
    columns = '-f value -c "Service Type" -c URL'
    first = "awk '/volumev3|block-storage/ {sub(/\\/v3.*/, \"/v3\", $2); print $2; exit}'"
    return Command(
        f'curl --fail-with-body -X POST {TOKEN} -H "Content-Type: application/json"'
        f" -d '{body}'"
        f' "$(openstack endpoint list --interface public {columns} | {first})/volumes/{volume}/action"'
    )


def replug(server: Instance) -> list[Command]:
    """Return what makes a guest use what its port or volume is bound to now; nothing if Nova would refuse it."""
    if server.vm_state == "shelved":
        return [offload(server.uuid)]
    return [] if server.vm_state in NOT_REBOOTED else [hard_reboot(server.uuid)]


def not_rebooted(server: Instance) -> str:
    """Return a note on what replug leaves out; "": nothing."""
    if server.vm_state not in NOT_REBOOTED:
        return ""
    return f"Nova reboots no server that is {server.vm_state}: do so, hard, once it is active"


def ask_host(host: str, server: str) -> Command:
    line = f"virsh -c qemu+ssh://{host}/system domstate {server}  # running or paused: stop here"
    return AskHost(line, server=server, host=host)


def release(consumer: str) -> Command:
    return Command(f"openstack resource provider allocation delete {consumer}")


def forget_consumer(server: str) -> Command:
    """Placement's API does not show a consumer that holds nothing, and answers a release with 404."""
    holds = f"SELECT 1 FROM allocations WHERE consumer_id = '{server}'"
    return sql(PLACEMENT, f"DELETE FROM consumers WHERE uuid = '{server}' AND NOT EXISTS ({holds});")


def heal(server: str, *held: Allocations | None) -> list[Command]:
    """Claim again what a server needs. held: what was held for it: Nova leaves out a port that names a provider.

    Source: PlacementCommands._has_request_but_no_allocation.
    """
    has_ports = any(row.of_port for each in held if each for row in each.rows)
    return [*[forget_providers(server)] * has_ports,
            Command(f"nova-manage placement heal_allocations --instance {server}")]  # fmt: skip


def forget_providers(server: str) -> Command:
    """A port that records none fails here, which is fine."""
    return Command(
        f"for port in $(openstack port list --server {server} -f value -c ID); do openstack port unset"
        " --binding-profile allocation $port; done  # as a user with the role service"
    )


def end_migration(migration: Migration, status: str = "error") -> Command:
    return Command(
        f"UPDATE migrations SET status = '{status}' WHERE uuid = '{migration.uuid}' AND status = '{migration.status}';",
        sql_in=migration.cell,
    )


def end_move(migration: Migration, server: Instance) -> Command:
    """End a move that left the server where it is. What was evacuated stays so, for the source to clean up.

    Source: ComputeManager._destroy_evacuated_instances, which takes what is accepted, pre-migrating or done.
    """
    return end_migration(migration, "done" if migration.has_evacuated(server) else "error")


def sql(cell: str, line: str) -> Command:
    return Command(line, sql_in=cell)


def map_to_cell(server: Instance, mappings: Sequence[CellMapping]) -> Command:
    """mappings: as they were seen."""
    where = f"instance_uuid = '{server.uuid}' AND {names_cell(mappings)}"
    return sql(API, f"UPDATE instance_mappings SET cell_id = {_id_of_cell(server.cell)} WHERE {where};")


def keep_mapping(server: str) -> Command:
    where = f"instance_uuid = '{server}' AND queued_for_delete = true"
    return sql(API, f"UPDATE instance_mappings SET queued_for_delete = false WHERE {where};")


def count_no_more(server: str) -> Command:
    where = f"instance_uuid = '{server}' AND queued_for_delete = false"
    return sql(API, f"UPDATE instance_mappings SET queued_for_delete = true WHERE {where};")


def delete_request(server: str) -> Command:
    return sql(API, f"DELETE FROM build_requests WHERE instance_uuid = '{server}';")


def show_copy(copy: Instance) -> Command:
    return sql(copy.cell, f"UPDATE instances SET hidden = false WHERE {as_seen(copy)} AND hidden;")


def hide_copy(copy: Instance) -> Command:
    return sql(copy.cell, f"UPDATE instances SET hidden = true WHERE {as_seen(copy)};")


def delete_copy(copy: Instance) -> Iterator[Command]:
    """Delete a hidden copy with all of its rows, as Nova does: the next move to that cell makes another one.

    A row that is only marked as deleted would later have the live server's mapping and request spec deleted by
    `nova-manage db archive_deleted_rows`, which takes them for those of a deleted server.
    Source: nova.db.main.api.instance_destroy with hard_delete, and DbCommands.archive_deleted_rows.
    """
    copies = f"(SELECT uuid FROM instances WHERE {as_seen(copy)} AND hidden)"
    actions = f"(SELECT id FROM instance_actions WHERE instance_uuid IN {copies})"
    yield sql(copy.cell, f"DELETE FROM instance_actions_events WHERE action_id IN {actions};")
    for table, column in OF_INSTANCES:
        yield sql(copy.cell, f"DELETE FROM {table} WHERE {column} IN {copies};")
    yield sql(copy.cell, f"DELETE FROM instances WHERE {as_seen(copy)} AND hidden;")


OF_INSTANCES = (
    *((table, "instance_uuid") for table in (
        "instance_actions", "security_group_instance_association", "instance_info_caches", "instance_metadata",
        "instance_faults", "instance_extra", "instance_system_metadata", "block_device_mapping", "migrations",
        "virtual_interfaces", "console_auth_tokens")),
    ("instance_id_mappings", "uuid"), ("tags", "resource_id"),
)  # fmt: skip
"""Tables of a cell that name an instance, and the column that does."""


def no_server(server: str) -> str:
    """Return the condition that a cell has no such server."""
    return f"NOT EXISTS (SELECT 1 FROM instances WHERE uuid = '{server}' AND deleted = 0)"


def drop_mapping(use: VolumeUse, only: str) -> Command:
    """Delete a mapping as Nova does. only: a further condition."""
    row = f"instance_uuid = '{use.server}' AND volume_id = '{use.volume}' AND {equals('attachment_id', use.attachment)}"
    done = "SET deleted = id, deleted_at = CURRENT_TIMESTAMP"
    return sql(use.cell, f"UPDATE block_device_mapping {done} WHERE {row} AND deleted = 0 AND {only};")


def delete_attachment(attachment: str) -> Command:
    """Cinder has attachments since microversion 3.27, and the client asks for an older one unless told."""
    return Command(f"openstack --os-volume-api-version 3.27 volume attachment delete {attachment}")
