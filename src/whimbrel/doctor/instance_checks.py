"""Where a server is recorded: instance mappings, cells, hidden copies, and its request spec."""

from collections.abc import Iterator

from whimbrel.doctor import repairs
from whimbrel.doctor.check_context import CheckContext
from whimbrel.doctor.doctor_finding import Command, Finding, InFlight
from whimbrel.doctor.nova_records import Fleet, Instance, Subject
from whimbrel.doctor.server_findings import finding, in_flight

DELETED_OR_FAILED = ("soft-delete", "deleted", "building", "error")
"""States of servers whose mapping may say that they are being deleted: a delete that fails leaves one in error."""
LOOK_AGAIN = "look again then: what follows moves it, and needs its guest"
"""A resize that failed on the target leaves the server in error, with a record there and the guest on the source."""
RENAMED = "run it only if the hypervisor was renamed and has the guest, and look again; Ironic deletes nodes instead"
NO_HOST = (
    "nothing works on the server until a nova-compute of that name is there: start it with `[DEFAULT] host = {}` on the"
    " machine that has its guest, or evacuate the server if that is lost; and look again"
)
MOVES = ", and an open move between them: what stands still is named when one of the two is hidden"


def rows(subject: Subject, context: CheckContext) -> Iterator[Finding]:
    """Judge in which cells there are rows of a server, unless a move between cells goes on or waits for its verdict."""
    moves = any(each.is_open and each.crosses_cells for each in subject.migrations)
    if subject.waits_between_cells or (moves and context.awaits_message(subject)):
        return
    seen = subject.visible
    if len(seen) > 1:
        cells = " and ".join(sorted(each.cell for each in seen))
        others = [each for each in seen if not _is_mapped(subject, each)]
        yield finding(
            "server_in_two_cells", subject, context.fleet, f"has a visible record in {cells}" + MOVES * moves,
            "a move between cells was interrupted, or a database was restored",
            [repairs.hide_copy(each) for each in others] if moves and len(others) == 1 else [])  # fmt: skip
    for each in subject.instances:
        if each.is_hidden:
            mapped = _is_mapped(subject, each)
            text = f"has a hidden copy in {each.cell} and no move between cells that goes on"
            yield finding(
                "hidden_copy", subject, context.fleet, text + ", and its mapping names that cell" * mapped,
                "a move between cells, its confirmation or its revert died before the copy was deleted"
                + ", and the server was deleted in its own cell" * bool(subject.deleted),
                list(repairs.delete_copy(each)) if (seen or subject.deleted) and not mapped else [])  # fmt: skip


def _is_mapped(subject: Subject, row: Instance) -> bool:
    return any(mapping.cell == row.cell for mapping in subject.mappings)


def mappings(subject: Subject, server: Instance, fleet: Fleet) -> Iterator[Finding]:
    if not subject.mappings:
        uuid = fleet.cells[server.cell]
        yield finding("no_mapping", subject, fleet, f"is in {server.cell} and has no instance mapping",
                      "the mapping was deleted, or the create died before it was written",
                      [Command(f"nova-manage cell_v2 map_instances --cell_uuid {uuid} --reset")])  # fmt: skip
    elif all(each.cell != server.cell for each in subject.mappings):
        named = subject.mappings[0].cell
        yield finding("mapping_to_wrong_cell", subject, fleet,
                      f"is in {server.cell}, and its mapping names {named or 'no cell'}",
                      "the conductor died before it had written the cell, or a move between cells was interrupted",
                      [repairs.map_to_cell(server, subject.mappings)])  # fmt: skip
    elif server.task_state is None and server.vm_state not in DELETED_OR_FAILED:
        yield from _queued(subject, server, fleet)


def compute_node(subject: Subject, server: Instance, fleet: Fleet) -> Iterator[Finding]:
    """Judge a server whose compute node its host does not have. Ironic moves nodes between hosts: those are fine."""
    if server.host is None or server.vm_state == "shelved_offloaded":
        return
    owners = fleet.hosts_of_node(server.cell, server.node)
    if server.host in owners or any(is_ironic for is_ironic in owners.values()):
        return
    there = [node for node in fleet.nodes if (node.cell, node.host) == (server.cell, server.host)]
    renamed = there[0].name if len(there) == 1 else None
    where = f"{repairs.as_seen(server)} AND {repairs.equals('node', server.node)}"
    line = f"UPDATE instances SET node = '{renamed}' WHERE {where};"
    names = ", ".join(node.name for node in there) or "none"
    yield finding("no_compute_node", subject, fleet,
                  f"is on {server.host} and node {server.node}, which {' and '.join(owners) or 'no host'} has;"
                  f" {server.host} has {names}",
                  "the compute node or its service was deleted, or the host or its hypervisor was renamed",
                  [repairs.sql(server.cell, line)] if renamed else [],
                  RENAMED if renamed else NO_HOST.format(server.host))  # fmt: skip


def _queued(subject: Subject, server: Instance, fleet: Fleet) -> Iterator[Finding]:
    """Judge a server that is in use, and whose mapping says that it is being deleted."""
    if any(each.is_queued_for_delete for each in subject.mappings):
        yield finding("mapping_queued_for_delete", subject, fleet,
                      f"is {server.vm_state}, and its mapping says that it is being deleted: quotas do not count it,"
                      " and it is not found while its cell is down",
                      "a restore or a delete of it was interrupted, or its state was reset after a delete",
                      [repairs.keep_mapping(server.uuid)])  # fmt: skip


def build_request(subject: Subject, server: Instance, context: CheckContext) -> Iterator[Finding]:
    """Judge a build request that is still there though a cell has the server, and nothing works on it."""
    if subject.build_request is None or context.awaits_message(subject):
        return
    yield finding("stuck_create", subject, context.fleet,
                  f"is {server.vm_state} in {server.cell}, with its build request: lists show it as being built",
                  "the conductor died before it deleted the request",
                  [repairs.delete_request(server.uuid)])  # fmt: skip


def request_of_gone(subject: Subject, context: CheckContext) -> Iterator[Finding]:
    """Judge a build request of a deleted server. Lists have that server, and Nova does not find it to delete it."""
    is_gone = bool(subject.deleted) or any(each.is_queued_for_delete for each in subject.mappings)
    if subject.build_request is None or not is_gone or context.awaits_message(subject):
        return
    yield finding("stuck_create", subject, context.fleet,
                  "is deleted, with its build request: lists show it as being built, and it cannot be deleted",
                  "the conductor died before it deleted the request, and the server was deleted in its cell",
                  [repairs.delete_request(subject.id)])  # fmt: skip


def still_counted(subject: Subject, context: CheckContext) -> Iterator[Finding]:
    """Judge the mapping of a deleted server. Nova writes that it is being deleted after it has asked the host for it.

    Source: API._do_delete; InstanceMappingList.get_counts, by which quotas count servers.
    """
    if not subject.deleted or context.awaits_message(subject):
        return
    if any(each.is_queued_for_delete is False for each in subject.mappings):
        yield finding("mapping_of_deleted_server", subject, context.fleet,
                      "is deleted, and its mapping does not say so: quotas that are counted by mappings have it still",
                      "the API died, or gave up, after it had asked for the delete, and nova-compute carried it out",
                      [repairs.count_no_more(subject.id)])  # fmt: skip


def nowhere(subject: Subject, context: CheckContext) -> Iterator[Finding | InFlight]:
    """Judge a mapping whose server no cell has."""
    if not subject.mappings or subject.deleted or subject.mappings[0].is_queued_for_delete:
        return
    if context.awaits_message(subject):
        yield in_flight(subject, "being created or deleted")
    elif subject.build_request is not None:
        yield finding("stuck_create", subject, context.fleet, "has a build request and is in no cell",
                      "the conductor died before it wrote the record, or the message to it was lost",
                      [repairs.delete(subject.id)])  # fmt: skip
    else:
        cell = subject.mappings[0].cell
        where = f"instance_uuid = '{subject.id}' AND {repairs.names_cell(subject.mappings)}"
        line = f"DELETE FROM instance_mappings WHERE {where};"
        yield finding("mapping_of_nothing", subject, context.fleet,
                      f"has a mapping to {cell or 'no cell'}, and no cell has a record of it",
                      "its create or its purge was interrupted",
                      [repairs.sql(repairs.API, line)])  # fmt: skip


def spec(subject: Subject, server: Instance, fleet: Fleet) -> Iterator[Finding]:
    if server.host is None:
        return
    found = subject.spec
    if found is None:
        yield finding("spec_missing", subject, fleet, "has no request spec: it cannot be moved",
                      "its row was deleted, or the server is from before Newton", [])  # fmt: skip
        return
    if None not in (found.flavor_id, server.flavor_id) and found.flavor_id != server.flavor_id:
        resize = f"openstack server resize --wait --flavor {found.flavor or 'FLAVOR'} {server.uuid}  # turns it off"
        revert = f"openstack server resize revert {server.uuid}  # or confirm, to keep that flavor"
        yield finding("spec_flavor", subject, fleet,
                      f"has flavor {server.flavor_id}, and its request spec has {found.flavor_id} (numbers of rows):"
                      " the next move places it by the wrong flavor",
                      "a resize failed after the conductor had saved the new flavor, or a revert after the old one",
                      [repairs.reset(server.uuid), repairs.hard_reboot(server.uuid, only=LOOK_AGAIN)]
                      if server.vm_state == "error" else [Command(resize), Command(revert)])  # fmt: skip
    zone = fleet.zones.get(server.host, fleet.default_zone)
    if found.zone is not None and found.zone != zone:
        yield finding("spec_zone", subject, fleet,
                      f"is on {server.host} in zone {zone}, and its request spec names zone {found.zone}",
                      "its host was put into another zone, it was moved with a forced host, or an unshelve to a zone"
                      " failed",
                      [Command(f"openstack server migrate {server.uuid}  # turns it off, and waits to be confirmed;"
                           " --live-migration does not")])  # fmt: skip
