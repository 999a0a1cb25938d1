"""The commands that free a server whose task state nothing changes: they depend on how far its operation came.

`openstack server set --state` makes a server active, or one in error. One that was neither is freed by SQL, and keeps
its state.
"""

from collections.abc import Iterator, Mapping

from whimbrel.doctor import repairs
from whimbrel.doctor.allocation_checks import holds_its_flavor
from whimbrel.doctor.doctor_finding import Command
from whimbrel.doctor.nova_records import Fleet, Instance, Migration, Subject
from whimbrel.domain.server_states import REBUILDING

KEPT = ("shelved_offloaded", "shelved", "suspended", "paused", "rescued", "soft-delete")
"""States that a server keeps until an operation has ended. Nova's own command would make it active."""
REBOOT, OFFLOAD = "reboot --hard", "offload"
AGAIN: Mapping[str, str] = {
    "unshelving": "unshelve", "shelving": "shelve", "shelving_image_pending_upload": "shelve",
    "shelving_image_uploading": "shelve", "shelving_offloading": OFFLOAD, "resuming": "resume",
    "unpausing": "unpause", "unrescuing": "unrescue", "rebooting_hard": REBOOT,
    "reboot_pending_hard": REBOOT, "reboot_started_hard": REBOOT, "powering-off": "stop",
}  # fmt: skip
"""What is asked for again, by task state, of a server that keeps its state. The others have left its guest alone."""
DELETES: Mapping[str, str] = {"deleting": "error", "soft-deleting": "active"}
"""Task states of deletes, and the state from which each is asked for again."""
RECLAIMED = "if reclaim_instance_interval is set in nova.conf of the API; otherwise its disks are gone at once"
"""Source: ServersController._delete."""
CONFIRMS = "once nova-compute of {} runs: Nova asks it to confirm the move first"
"""Source: API._confirm_resize_on_deleting."""
DISKS_AWAY = "on {}: move a directory that ends in _resize back to its name before the reboot"
"""Source: LibvirtDriver.migrate_disk_and_power_off: renamed first, and back only by a process that lives."""
GUEST_UNTOUCHED = (
    "resize_prep", "image_snapshot_pending", "image_snapshot", "image_pending_upload", "image_uploading",
    "image_backup", "updating_password",
)  # fmt: skip
"""Task states in which nothing has happened to the guest: it needs no reboot."""


def commands(subject: Subject, server: Instance, fleet: Fleet) -> Iterator[Command]:
    yield repairs.show(server.uuid)
    state = DELETES.get(server.task_state or "")
    if state and (waiting := subject.awaits_verdict):
        # Nova confirms the move of a resized server before it deletes it: as one in error it would leave the source
        yield repairs.clear_task(server)
        only = CONFIRMS.format(waiting[0].source) + f"; {RECLAIMED}" * (state == "active")
        yield repairs.delete(server.uuid, only)
    elif state:
        yield repairs.reset(server.uuid, state)
        yield repairs.delete(server.uuid, RECLAIMED * (state == "active"))
    elif server.vm_state in ("building", "deleted"):
        if all(each.cell != server.cell for each in subject.mappings):
            yield repairs.map_to_cell(server, subject.mappings)  # Nova finds by it what it deletes
        if subject.build_request is not None:
            yield repairs.delete_request(server.uuid)  # the delete may leave it, and lists would have the server still
        yield repairs.delete(server.uuid)
    elif server.task_state == "restoring":
        yield from _restore(subject, server)
    elif not subject.open_migrations and server.vm_state in KEPT:
        yield from _again(subject, server)
    elif undone := [
        each for each in (*subject.open_migrations, *subject.ended) if _is_reverted_on(each, server, subject)
    ]:
        yield repairs.clear_task(server)
        yield from (repairs.end_migration(each, "finished") for each in undone)
        yield Command(f"openstack server resize revert {server.uuid}")
    elif made := _copy_that_runs(subject, server):
        yield repairs.show_copy(made)
        yield repairs.map_to_cell(made, subject.mappings)
        yield repairs.hide_copy(server)
        if made.task_state:
            yield repairs.clear_task(made)
            yield from (
                repairs.end_migration(each, "finished") for each in subject.migrations if each.cell == made.cell
            )
            yield Command(f"openstack server resize revert {server.uuid}")
    else:
        yield from _stop_the_operation(subject, server, fleet)


def _restore(subject: Subject, server: Instance) -> Iterator[Command]:
    """Make a soft-deleted server active. Its task state is never cleared alone: nova-compute would destroy the server.

    Source: ComputeManager._reclaim_queued_deletes, which takes soft-deleted servers without a task whose time of
    deletion is NULL, and API.restore, which has set it to that.
    """
    if any(each.is_queued_for_delete for each in subject.mappings):
        yield repairs.keep_mapping(server.uuid)
    yield repairs.reset(server.uuid)
    yield repairs.hard_reboot(server.uuid)


def _copy_that_runs(subject: Subject, server: Instance) -> Instance | None:
    """Return the copy in the target's cell whose guest runs, or did: it waits for its verdict, or is being reverted.

    The one belongs in the place of the server, where the move was about to put it. So does the other: its revert is
    asked for again.
    """
    waits, reverts = server.task_state == "resize_migrated", server.task_state == "resize_reverting"
    finished = {each.cell for each in subject.migrations if each.status == "finished" and each.crosses_cells}
    for each in subject.instances:
        if each.is_hidden and each.vm_state == "resized":
            if waits and each.cell in finished:
                return each
            if reverts and each.task_state == server.task_state:
                return each
    return None


def _again(subject: Subject, server: Instance) -> Iterator[Command]:
    """Ask for an operation again. The guest of an unshelve that came as far as a host is made anew from the image."""
    is_offloaded = server.vm_state == "shelved_offloaded"
    if is_offloaded and server.host:
        yield repairs.ask_host(server.host, server.uuid)  # an unshelve elsewhere would be a second guest
    if is_offloaded and subject.held:
        yield repairs.release(server.uuid)
    yield repairs.clear_task(server, and_host=is_offloaded and server.host is not None)
    verb = "unshelve" if is_offloaded else AGAIN.get(server.task_state or "")
    if verb == REBOOT:
        yield repairs.hard_reboot(server.uuid)
    elif verb == OFFLOAD:
        yield repairs.offload(server.uuid)
    elif verb:
        yield Command(f"openstack server {verb} {server.uuid}")


def _is_reverted_on(migration: Migration, server: Instance, subject: Subject) -> bool:
    """Check whether a revert stands still, and the server is still recorded on the target.

    Between cells that is so until the two rows are swapped; without the row in the source's cell none can be asked for.
    """
    return (
        server.task_state == "resize_reverting"
        and migration.status in ("reverting", "reverted")
        and (not migration.crosses_cells or any(each.is_hidden for each in subject.instances))
        and migration.source != migration.target
        and (migration.cell, migration.target) == (server.cell, server.host)
    )


def _stop_the_operation(subject: Subject, server: Instance, fleet: Fleet) -> Iterator[Command]:
    """Leave the server where its record says that it is."""
    moves = subject.open_migrations
    targets = sorted({target for each in moves if (target := each.may_run_on(server))})
    yield from (repairs.ask_host(each, server.uuid) for each in targets)
    yield from (repairs.end_move(each, server) for each in moves)  # first: the record of an evacuation is dangerous
    yield repairs.reset(server.uuid)
    yield from map(repairs.release, subject.held_by)
    node = fleet.node_of(server)
    wrong = bool(subject.held) and (
        any(root != node for root in fleet.roots(subject.held)) or not holds_its_flavor(subject, server)
    )
    if wrong:
        yield repairs.release(server.uuid)
    if node and (wrong or subject.held is None):
        yield from repairs.heal(server.uuid, subject.held, *subject.held_by.values())
    for copy in subject.instances:
        if copy.is_hidden:
            there = {copy.host, *(each.target for each in moves if each.crosses_cells)} - {server.host}
            hosts = sorted(filter(None, there))
            yield from (Command(f"virsh -c qemu+ssh://{host}/system destroy {copy.uuid}  # if it runs there, too")
                        for host in hosts)  # fmt: skip
            yield from repairs.delete_copy(copy)
    yield from _start(subject, server)


def _start(subject: Subject, server: Instance) -> Iterator[Command]:
    moves = subject.open_migrations
    wait = " --wait" * (server.vm_state == "stopped")
    if any(each.has_evacuated(server) for each in moves):
        yield repairs.hard_reboot(server.uuid, wait, "if its disk was shared; otherwise rebuild")
    elif any(each.type == "evacuation" for each in moves):
        yield Command(f"openstack server evacuate {server.uuid}  # if {server.host} is down; otherwise reboot --hard")
    elif server.task_state in REBUILDING:
        if subject.action and subject.action.name == "rebuild" and not server.boots_from_volume:
            yield Command(f"openstack server rebuild{wait} {server.uuid}  # erases its disk, as was asked for")
        else:  # evacuated, its record has ended because the source came back; its actions are gone; or Nova refuses it
            yield repairs.hard_reboot(server.uuid, wait, "if its disk was shared or is a volume; otherwise rebuild")
    elif server.task_state == "migrating":
        yield repairs.hard_reboot(server.uuid, wait, f"if virsh shows it neither on {server.host} nor elsewhere")
    elif server.task_state not in GUEST_UNTOUCHED:
        if server.task_state == "resize_migrating":
            yield Command(f"ls -d /var/lib/nova/instances/{server.uuid}*  # {DISKS_AWAY.format(server.host)}")
        yield repairs.hard_reboot(server.uuid, wait)
    if server.vm_state == "stopped":
        yield Command(f"openstack server stop {server.uuid}")
