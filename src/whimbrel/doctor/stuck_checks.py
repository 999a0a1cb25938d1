"""Operations that stand still: task states, confirmations and migration records that nothing continues."""

from collections.abc import Iterator, Mapping

from whimbrel.doctor import repairs, stuck_server_commands
from whimbrel.doctor.check_context import CheckContext
from whimbrel.doctor.doctor_finding import Command, Finding, InFlight
from whimbrel.doctor.nova_records import Fleet, Instance, Migration, Subject
from whimbrel.doctor.server_findings import evidence_of, finding, held_words, in_flight

CAUSES: Mapping[str, str] = {
    "building": "the nova-compute of the host, or its cell's conductor, died while it claimed room",
    "deleted": "the nova-compute of the host died at the end of the delete; it ends this when it starts again",
    "scheduling": "the conductor died while it scheduled the server, or the message to it or to the host was lost",
    "resize_prep": "the conductor died during the move, or the message to the target's nova-compute was lost",
    "resize_migrating": "the source's nova-compute died while it copied the disks; the guest is off",
    "resize_migrated": "the message to the target's nova-compute was lost, or that process died as it began",
    "resize_finish": "the target's nova-compute died while it built the guest",
    "resize_reverting": "a nova-compute died during the revert, or the message to one was lost",
    "migrating": "a nova-compute or the conductor died during the live migration",
    "rebuilding": "the conductor died during an evacuation or a rebuild, or the message to the host was lost",
    "deleting": "the nova-compute of the host is down, or died while it deleted the guest",
}
NO_TASK = "no task state"
OTHERWISE = "the process that worked on it died, or a message to it was lost"
UNCONFIRMED = (
    "the API, the conductor or nova-compute of {} died while the move was confirmed, which Nova does before it deletes"
    " the server, or nova-compute of {} did after that"
)
DESTROYS = (
    "; when nova-compute of {} starts again, it destroys its guest of this server because of the evacuation's record"
)
"""What an evacuation that was not carried out does later. Source: ComputeManager._destroy_evacuated_instances."""


def stuck_server(subject: Subject, server: Instance, context: CheckContext) -> Iterator[Finding | InFlight]:
    """Judge a server that is worked on."""
    fleet, task = context.fleet, server.task_state or ""
    down = context.is_down(server.cell, server.host)
    if context.now - subject.touched <= context.limits.limit_s(task, host_is_down=down):
        yield in_flight(subject, f"{server.vm_state}, {task or NO_TASK}")
        return
    moves = "".join(
        f"; its {each.type} {each.uuid} is {each.status} and holds {held_words(subject.held_by.get(each.uuid), fleet)}"
        for each in (*subject.open_migrations, *subject.ended)
    )
    yield finding(
        "stuck_server", subject, fleet,
        f"on {server.host or 'no host'} is {server.vm_state} with {f'task state {task}' if task else NO_TASK}; it holds"
        f" {held_words(subject.held, fleet)}{moves}",
        "".join(_causes(subject, server, task, down=down)),
        list(stuck_server_commands.commands(subject, server, fleet)), "" if down else _at_work(subject))  # fmt: skip


def _at_work(subject: Subject) -> str:
    """Return where a process may still work on a server."""
    last = subject.action
    if last is None or last.open_event is None:
        return ""
    return (
        f"its {last.name} began {last.open_event} on {last.open_host or 'a host'} and has not ended it: see in the log"
        " there that no process works on the server any more before you run anything"
    )


def _causes(subject: Subject, server: Instance, task: str, *, down: bool) -> Iterator[str]:
    waiting = subject.awaits_verdict
    made = next(
        (each for each in subject.open_migrations if each.type == "evacuation" and each.status == "pre-migrating"), None
    )
    if made:
        yield f"nova-compute of {made.target} died in the evacuation, before or after it had made the guest"
    elif waiting and task in stuck_server_commands.DELETES:
        yield UNCONFIRMED.format(waiting[0].source, server.host)
    else:
        yield CAUSES.get(task or server.vm_state or "", OTHERWISE)
    if any(each.type == "evacuation" for each in subject.open_migrations):
        yield DESTROYS.format(server.host)
    elif down:
        yield f"; nova-compute of {server.host} is down: start it, it may end this itself"


def open_migrations(subject: Subject, server: Instance, context: CheckContext) -> Iterator[Finding | InFlight]:
    """Judge the open migrations of a server that has no task state. Those that wait for a verdict are fine."""
    for each in subject.open_migrations:
        waits = server.vm_state == "resized"
        if waits and each.status == "finished":
            continue
        if waits and each.status == "confirming":
            yield _confirm(subject, each, context)
        elif context.awaits_message(subject):
            yield in_flight(subject, f"{server.vm_state}, {each.type} {each.status}")
        else:
            yield _stale(subject, server, each, context.fleet)


def waits_for_nothing(subject: Subject, server: Instance, fleet: Fleet) -> Iterator[Finding]:
    """Judge a server that waits for a verdict, and has no migration that a verdict could be about."""
    if server.vm_state != "resized" or subject.open_migrations:
        return
    yield finding(
        "stuck_verify", subject, fleet,
        "waits to be confirmed or reverted, and no migration of it is finished: Nova refuses both",
        "nova-compute of the source died at the end of the confirmation, or the migration record was changed",
        [repairs.reset(server.uuid)])  # fmt: skip


def _confirm(subject: Subject, migration: Migration, context: CheckContext) -> Finding | InFlight:
    fleet, limits = context.fleet, context.limits
    works = subject.action is not None and subject.action.open_event is not None
    down = context.is_down(migration.cell, migration.source)
    if context.now - subject.touched <= (limits.work_s if works and not down else limits.message_s):
        return in_flight(subject, "resized, confirming")
    return finding(
        "stuck_confirm", subject, fleet,
        f"waits for its confirmation to end: migration {migration.uuid} is confirming and holds"
        f" {held_words(subject.held_by.get(migration.uuid), fleet)}",
        f"the message to nova-compute of {migration.source} was lost, or that process died; Nova then refuses to"
        " confirm and to revert",
        [repairs.end_migration(migration, "finished"),
         Command(f"openstack server resize confirm {subject.id}")])  # fmt: skip


def _stale(subject: Subject, server: Instance, migration: Migration, fleet: Fleet) -> Finding:
    cause = "the process that ran the move died, or the server's state was reset by hand"
    if migration.has_evacuated(server):
        cause = (
            f"nova-compute of {migration.target} died in it, or that of {migration.source} came back meanwhile: it must"
            " still destroy its guest when it starts"
        )
    elif migration.type == "evacuation":
        cause = "the evacuation was not carried out" + DESTROYS.format(migration.source)
    commands = []
    if target := migration.may_run_on(server):
        commands.append(repairs.ask_host(target, server.uuid))
    commands.append(repairs.end_move(migration, server))
    if migration.uuid in subject.held_by:
        commands.append(repairs.release(migration.uuid))
    return Finding(
        kind="stale_migration",
        subject=server.uuid,
        name=server.name,
        since=subject.touched,
        text=f"{migration.type} {migration.uuid} of server {server.uuid} ({server.name}) is {migration.status}, and the"
        f" server is {server.vm_state} with no task; the migration holds"
        f" {held_words(subject.held_by.get(migration.uuid), fleet)}",
        cause=cause,
        evidence=evidence_of(subject, fleet),
        commands=commands,
    )
