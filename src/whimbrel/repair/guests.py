"""Guards and actions for guests and records that are missing, orphans, or elsewhere. Pure.

Invariant: nothing is destroyed without proof: the server's guest is as recorded, or the server is deleted. The
authoritative record is that of the cell of the guest's host.
"""

from collections.abc import Iterator

from whimbrel.domain.ids import CellName, HostName, RunId, Slot
from whimbrel.domain.server import Server
from whimbrel.proof.evidence import CloudSnapshot, Seen, ServerEvidence
from whimbrel.proof.invariants.guests import is_whole
from whimbrel.proof.invariants.guests import stands_as_recorded as is_as_recorded
from whimbrel.proof.violation import Violation
from whimbrel.repair import actions, advice, guards, owners
from whimbrel.repair.actions import RepairAction
from whimbrel.repair.guards import stands_as_recorded

# Guests


def destroy_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    if seen.is_alive:
        if stands_as_recorded(seen):
            return _newer_than_recorded(seen, violation)
        if adoptable(seen, snapshot):
            return None
        return "it is unknown which of its guests is the right one; nothing is destroyed"
    if seen.is_ended:
        return None
    return "its owner is unknown: the directory never had such a server; nothing is destroyed"


def _newer_than_recorded(seen: ServerEvidence, violation: Violation) -> str | None:
    """Return what to decide if the guest runs, and the recorded one does not: a lost move may have made it."""
    recorded = seen.guest(seen.record.host, seen.key) if seen.record else None
    live = {f"{host}/{guest.key.slot}" for host, guest in seen.guests if guest.is_live}
    is_newer = recorded is not None and not recorded.is_live and violation.about in live
    return guards.choice(seen) if is_newer else None


def destroy_guest(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    if seen.is_alive and not stands_as_recorded(seen):
        return []  # the guest is adopted
    record, host = seen.record, violation.host
    assert host
    why = f"its guest on {record.host} is as recorded" if record else "the server is deleted"
    sentence = f"destroy the guest of server {seen.id} on {host}: {why}"
    slot = Slot(violation.about.partition("/")[2])
    return [actions.DestroyGuest(sentence=sentence, cell=snapshot.hosts[host].cell, host=host, slot=slot)]


def adoptable(seen: ServerEvidence, snapshot: CloudSnapshot) -> actions.AdoptGuest | None:
    """Return the adoption of the only guest, if correcting the location in the record suffices."""
    home, only = seen.home, _only_elsewhere(seen)
    if home is None or only is None or guards.not_checked_of(seen, snapshot) or _hindrance(home, seen, only, snapshot):
        return None
    host, guest = only
    assert home.cell
    sentence = f"set the host of server {seen.id} in its record to {host}, where its only guest is"
    return actions.AdoptGuest(sentence=sentence, cell=home.cell, host=host, slot=guest.key.slot)


def _only_elsewhere(seen: ServerEvidence) -> Seen | None:
    """Return the only guest, if it is not where the record says."""
    orphans = list(seen.orphans())
    return orphans[0] if len(orphans) == 1 and orphans == list(seen.guests) else None


def _hindrance(home: Server, seen: ServerEvidence, only: Seen, snapshot: CloudSnapshot) -> str | None:
    """Return why correcting the location in the record does not suffice."""
    host, guest = only
    if home.volumes:
        return "its volumes are attached for another host"
    if seen.devices:
        return "its devices are of another host"
    for port in seen.named_ports:
        if port.requests or port.vnic_type != "normal":
            return f"port {port.id} is served by another host"
    if snapshot.hosts[host].cell != home.cell:
        return "that host is of another cell"
    size = home.flavor.vcpus, home.flavor.memory_mib
    is_recorded = is_as_recorded(guest, home) and (guest.vcpus, guest.memory_mib) == size
    if not is_recorded or home.vm_state in guards.UNSETTLED:
        return "it differs from the record"
    return None


def adopt_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    if words := owners.disputed(seen):
        return words
    if adoptable(seen, snapshot):
        return None
    return guards.not_checked_of(seen, snapshot) or _not_adopted(seen, snapshot)


def adopt_guest(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    adopted = adoptable(seen, snapshot)
    assert adopted, "the guard lets nothing else through"
    return [adopted, claim_at(adopted.host, seen), *_bound_at(seen, adopted.host)]


def claim_at(host: HostName, seen: ServerEvidence) -> actions.ClaimDue:
    return actions.ClaimDue(sentence=f"claim for server {seen.id} what it needs on {host}")


def _not_adopted(seen: ServerEvidence, snapshot: CloudSnapshot) -> str:
    home, only = seen.home, _only_elsewhere(seen)
    if home and only and (why := _hindrance(home, seen, only, snapshot)):
        return f"its only guest is on {only[0]}, and {why}: restore it, or its disk, on {home.host}"
    if list(seen.orphans()):
        return "it is unknown which of its guests is the right one: restore its disk on its host"
    words = "it has no guest: restore its disk on its host, or delete the server"
    if home is None or not home.has_local_root:
        return words
    return (
        f"{words}. If it was shelved after a backup that was restored, the image service has its disk as a file without"
        f" a record: make an image of that, and openstack server rebuild --image IMAGE {seen.id}"
    )


def _bound_at(seen: ServerEvidence, host: HostName) -> Iterator[actions.BindPort]:
    for port in seen.named_ports:
        if port.host != host:
            yield actions.BindPort(sentence=f"bind port {port.id} to {host}", port_id=port.id, host=host)


# Records


def enter_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    if len(seen.records) != 1:
        return "several cells have a record of it, and it is unknown which is right"
    [(cell, record)] = seen.records.items()
    if seen.is_ended:
        return "the journal has its deletion: restore the cell's row, or the journal's, from a backup"
    if not guards.is_of(record, cell, snapshot):
        return f"its record says cell {record.cell}, host {record.host}: it is unknown which cell is right"
    guest = next((g for host, g in seen.guests if (host, g.key.slot) == (record.host, record.slot)), None)
    if guest is None or not is_whole(guest):
        gone = "its guest is missing, so it may have been deleted: restore the directory's row from a backup"
        return guards.not_checked_of(seen, snapshot) or gone
    return None


def adopt_record(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    [(cell, record)] = seen.records.items()
    sentence = f"enter server {seen.id} of cell {cell} into the directory: its guest is on {record.host}"
    return [actions.AdoptRecord(sentence=sentence, cell=cell)]


def erase_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    if seen.is_alive and seen.record is None:
        return "the cell that the directory names has no record of it, so this may be the only one"
    copy = seen.records[CellName(violation.about)]
    if words := guards.not_checked(snapshot, [copy.host]):
        return words
    if not seen.is_alive:
        return None
    if not stands_as_recorded(seen):
        unclear = "its guest is not where the record of the directory's cell says: decide first which record is right"
        return guards.not_checked_of(seen, snapshot) or unclear
    if (copy.host, copy.slot) in [(host, guest.key.slot) for host, guest in guards.doomed(seen)]:
        return "each of the records has its guest: it is unknown which is right"
    return None


def erase_copy(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    cell = CellName(violation.about)
    return [actions.EraseCopy(sentence=f"erase the record of server {seen.id} in cell {cell}", cell=cell)]


def stand_alone(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    return [actions.StandAlone(sentence=f"mark the record of server {seen.id} as the only one")]


def columns_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    """Accept the record only if the directory and its guest agree with it."""
    if words := owners.disputed(seen):
        return words
    is_of_project = violation.about == "project" or _is_recorded_wrong(seen, violation)
    return None if is_of_project or stands_as_recorded(seen) else advice.left(violation)


def write_columns(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    if violation.about == "project":
        return owners.agree(seen)
    if _is_recorded_wrong(seen, violation):
        return []
    return [actions.WriteColumns(sentence=f"rewrite the columns by which lists find server {seen.id}")]


def _is_recorded_wrong(seen: ServerEvidence, violation: Violation) -> bool:
    """Check whether the column has the right project and the record does not."""
    return violation.about == "project_id" and violation.evidence["found"] == owners.project_of(seen)


def unlock(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    return [actions.Unlock(sentence=f"unlock server {seen.id} and clear its task state", run_id=RunId(violation.about))]
