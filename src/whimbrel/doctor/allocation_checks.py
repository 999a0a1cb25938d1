"""What is held in Placement: by servers that nothing works on, and by ids that are no servers."""

from collections.abc import Iterator, Sequence

from whimbrel.doctor import repairs
from whimbrel.doctor.check_context import CheckContext
from whimbrel.doctor.doctor_finding import Command, Finding, InFlight
from whimbrel.doctor.nova_records import Allocations, Fleet, Instance, Node, Subject
from whimbrel.doctor.server_findings import evidence_of, finding, held_words

CPU_CLASSES = ("VCPU", "PCPU")
OTHER_RULES = ("resources", "hw:emulator_threads_policy", "hw:cpu_policy")
"""Beginnings of extra specs that change what a flavor asks for: its amounts are not compared."""

GUEST_MAY_BE_ON_TARGET = (
    "; nova-compute of the source ends a live migration as error when it starts, even if the guest has moved"
)
"""Source: ComputeManager._reset_live_migration: it aborts the job, and does not look where the guest is."""
TARGET_DID_NOT_ANSWER = (
    "; nova-compute of the target died, or did not answer, at the end of the live migration: the guest is there, and"
    " the server may be in error though it runs"
)
"""Source: ComputeManager._post_live_migration_update_host, and what _do_live_migration does with the exception."""


def of_server(subject: Subject, server: Instance, fleet: Fleet) -> Iterator[Finding]:
    """Judge what a server holds that has no task state and no migration but one that waits for a verdict."""
    node, roots = fleet.node_of(server), fleet.roots(subject.held)
    if server.host is None:
        if subject.held:
            yield finding("allocation_elsewhere", subject, fleet,
                          f"has no host and holds {held_words(subject.held, fleet)}",
                          "a create or an offload was interrupted before the allocation was deleted",
                          [repairs.release(server.uuid)])  # fmt: skip
    elif server.vm_state == "shelved_offloaded":
        release = [repairs.release(server.uuid)] * bool(subject.held)
        yield finding("offloaded_on_host", subject, fleet,
                      f"is offloaded, is still recorded on {server.host}, and holds {held_words(subject.held, fleet)}",
                      "nova-compute of the host died at the end of the offload",
                      [*release, repairs.clear_task(server, and_host=True)])  # fmt: skip
    elif node is None:
        return  # its compute node is gone: not judged
    elif not roots and cpus_and_memory(subject.held) == (0, 0):
        if subject.held is None and server.is_launched and not _asks_for_nothing(subject):
            yield _nothing(subject, server, fleet)
    elif node not in roots:
        yield finding("allocation_elsewhere", subject, fleet,
                      f"is on {server.host} and holds {held_words(subject.held, fleet)}",
                      "a move was interrupted between the change of its host and the change of its allocation",
                      [*(repairs.ask_host(root.host, server.uuid) for root in roots),
                       repairs.release(server.uuid), *repairs.heal(server.uuid, subject.held)])  # fmt: skip
    elif len(roots) > 1:
        yield from _several(subject, server, fleet, node, roots)
    elif _holds_of_lost_node(subject.held, fleet):
        yield finding("doubled_allocation", subject, fleet,
                      f"is on {server.host} and holds {held_words(subject.held, fleet)}, part of it on a compute node"
                      " that is gone",
                      "the compute service of a host was deleted after the server had been evacuated from it, or while"
                      " it moved: nothing releases that part",
                      [repairs.release(server.uuid), *repairs.heal(server.uuid, subject.held)])  # fmt: skip
    else:
        yield from _amounts(subject, server, fleet)


def _holds_of_lost_node(held: Allocations | None, fleet: Fleet) -> bool:
    """Check whether an allocation has CPUs or memory of a root that is no compute node. Shared providers have none."""
    classes = (*CPU_CLASSES, "MEMORY_MB")
    return any(row.resource_class in classes and fleet.node(row.root) is None for row in (held.rows if held else ()))


def consumer(subject: Subject, server: Instance, fleet: Fleet) -> Iterator[Finding]:
    """Judge a consumer that holds nothing: Placement refuses the claims of its server, which take it for a new one.

    Source: placement.handlers.util.ensure_consumer, which makes it in a transaction of its own.
    """
    if subject.consumer_left is not None:
        yield finding("consumer_left", subject, fleet,
                      "holds nothing, and Placement has a record of its consumer: it refuses to claim for it",
                      "Placement died while it wrote an allocation",
                      [repairs.forget_consumer(server.uuid)])  # fmt: skip


def of_source(subject: Subject, server: Instance, fleet: Fleet) -> Iterator[Finding]:
    """Judge a server that waits for a verdict: until then its migration holds the source.

    Source: ComputeManager._revert_allocation, which gives a server back what its migration holds, if that is something.
    """
    lost = [each for each in subject.open_migrations if each.status == "finished" and each.uuid not in subject.held_by]
    if server.vm_state != "resized" or not lost or not fleet.roots(subject.held):
        return
    yield finding("source_not_held", subject, fleet,
                  f"waits to be confirmed or reverted, and its migration {lost[0].uuid} holds nothing on"
                  f" {lost[0].source}: other servers can take its room there, and after a revert it would hold"
                  f" {held_words(subject.held, fleet)}",
                  "somebody deleted the allocation of the migration, or the database of Placement was restored",
                  [Command(f"openstack server resize confirm {server.uuid}  # or revert, if {lost[0].source} has room;"
                           " look again then")])  # fmt: skip


def _nothing(subject: Subject, server: Instance, fleet: Fleet) -> Finding:
    held = [id for id in subject.held_by if id]
    holder = f"; its migration {held[0]} holds {held_words(subject.held_by[held[0]], fleet)}" if held else ""
    cause = "a move died after it had given the allocation to its migration record, or somebody deleted it"
    commands = [*map(repairs.release, held), *repairs.heal(server.uuid, *subject.held_by.values())]
    return finding("no_allocation", subject, fleet,
                   f"is on {server.host} and holds nothing in Placement{holder}", cause, commands)  # fmt: skip


def _several(subject: Subject, server: Instance, fleet: Fleet, node: Node, roots: Sequence[Node]) -> Iterator[Finding]:
    """Judge a server that holds several hosts. After an evacuation it does so until the source has come back."""
    waiting = {each.source_node for each in subject.evacuations}
    if all(root == node or root.name in waiting for root in roots):
        return
    yield finding("doubled_allocation", subject, fleet,
                  f"is on {server.host} and holds {held_words(subject.held, fleet)}",
                  "a move or an evacuation ended without releasing the other host",
                  [*(repairs.ask_host(root.host, server.uuid) for root in roots if root != node),
                   repairs.release(server.uuid), *repairs.heal(server.uuid, subject.held)])  # fmt: skip


def _amounts(subject: Subject, server: Instance, fleet: Fleet) -> Iterator[Finding]:
    if holds_its_flavor(subject, server):
        return
    yield finding("wrong_amounts", subject, fleet,
                  f"has a flavor of {server.vcpus} VCPU and {server.memory_mb} MEMORY_MB and holds"
                  f" {held_words(subject.held, fleet)}",
                  "a resize failed or was reset after its new allocation was made",
                  [repairs.release(server.uuid), *repairs.heal(server.uuid, subject.held)])  # fmt: skip


def holds_its_flavor(subject: Subject, server: Instance) -> bool:
    """Compare amounts. Those of flavors with other rules are taken to be right."""
    specs = subject.resources_of_flavor
    held = cpus_and_memory(subject.held)
    return held == (server.vcpus, server.memory_mb) or specs is None or _has_other_rules(specs)


def cpus_and_memory(held: Allocations | None) -> tuple[int, int]:
    rows = held.rows if held else ()
    cpus = sum(row.used for row in rows if row.resource_class in CPU_CLASSES)
    return cpus, sum(row.used for row in rows if row.resource_class == "MEMORY_MB")


def _asks_for_nothing(subject: Subject) -> bool:
    return subject.resources_of_flavor is None or _has_other_rules(subject.resources_of_flavor)


def _has_other_rules(specs: object) -> bool:
    return isinstance(specs, dict) and any(str(name).startswith(OTHER_RULES) for name in specs)


def of_other(subject: Subject, context: CheckContext) -> Iterator[Finding | InFlight]:
    """Judge a consumer that is no live server and is not being created."""
    fleet = context.fleet
    held = held_words(subject.held, fleet)
    if subject.migration:
        of = None if subject.of and subject.of.is_hidden else subject.of  # a copy is no server
        if of and any(each.is_open and each.cell == of.cell for each in subject.migration):
            return  # judged with its server; the row beside a copy in another cell never ends
        if of and of.is_worked_on:
            return  # so is what a revert holds until it has ended, though its migration is reverted
        row = next((each for each in subject.migration if of and each.cell == of.cell), subject.migration[0])
        gone = of is None
        left = row.type == "live-migration" and row.status == "error" and of is not None
        may_run_on = row.target if left and of and row.target != of.host else None
        in_error = of if left and of and not may_run_on and of.vm_state == "error" else None
        yield Finding(
            kind="allocation_of_gone_server" if gone else "allocation_of_migration",
            subject=subject.id,
            since=subject.touched,
            text=f"{row.type} {subject.id} of server {row.server}{', which is gone,' * gone} is {row.status} and holds"
            f" {held}",
            cause="the process that ended the move died, or could not reach Placement, before it released this"
            + (GUEST_MAY_BE_ON_TARGET if may_run_on else TARGET_DID_NOT_ANSWER) * left,
            evidence=evidence_of(subject, fleet),
            commands=[
                *([repairs.ask_host(may_run_on, row.server)] if may_run_on else []),
                repairs.release(subject.id),
                *([repairs.reset(in_error.uuid, only=f"if its guest runs on {in_error.host}")] if in_error else []),
            ],
        )
    elif subject.deleted and context.awaits_message(subject) and _is_freed(subject, context):
        text = "deleted, and nova-compute frees what it holds"
        yield InFlight(subject=subject.id, name=subject.deleted[0].name, text=text, since=subject.touched)
    elif subject.deleted or subject.mappings:
        yield Finding(
            kind="allocation_of_gone_server",
            subject=subject.id,
            since=subject.touched,
            text=f"server {subject.id} is deleted and holds {held}",
            cause="the delete ended before the allocation was released, or a move claimed it again meanwhile",
            evidence=evidence_of(subject, fleet),
            commands=[repairs.release(subject.id)],
        )
    elif fleet.roots(subject.held):  # otherwise of another user of Placement
        yield Finding(
            kind="allocation_of_nobody",
            subject=subject.id,
            since=subject.touched,
            text=f"consumer {subject.id} holds {held}, and no cell has a server or a migration of that id",
            cause="the record was purged while this was still held, or another program holds it",
            evidence=evidence_of(subject, fleet),
            commands=[Command("nova-manage placement audit --verbose"), repairs.release(subject.id)],
        )


def _is_freed(subject: Subject, context: CheckContext) -> bool:
    """Check whether a nova-compute that lives releases what a deleted server holds: a move may claim after the delete.

    Source: ResourceTracker._remove_deleted_instances_allocations, each minute, on the compute nodes of its own.
    """
    roots = context.fleet.roots(subject.held)
    return bool(roots) and not any(context.is_down(each.cell, each.host) for each in roots)
