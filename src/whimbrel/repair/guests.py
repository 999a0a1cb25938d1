"""What is done about guests and records of a server that are missing, too many, or elsewhere. Pure.

Law: nothing is destroyed without proof of whose it is: the server stands elsewhere as its record says, or is deleted.
The record that counts is that of the cell on whose host the guest is.
"""

from collections.abc import Iterator

import msgspec

from whimbrel.domain.ids import CellName, HostName, Slot
from whimbrel.domain.server import Server
from whimbrel.proof.evidence import CloudSnapshot, Seen, ServerEvidence
from whimbrel.proof.invariants import guests
from whimbrel.proof.invariants.guests import is_whole
from whimbrel.proof.violation import Violation
from whimbrel.repair import advice, owners
from whimbrel.repair import guards as doubts
from whimbrel.repair.actions import Mend, Said
from whimbrel.repair.guards import stands_as_recorded

# Guests


def stray_guest(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    slot = Slot(violation.about.partition("/")[2])
    destroy = Mend(
        kind="destroy_guest",
        host=violation.host,
        slot=slot,
        sentence=f"destroy the guest of server {seen.id} on {violation.host}",
        cell=snapshot.hosts[violation.host].cell if violation.host else None,
    )
    if seen.is_alive:
        if stands_as_recorded(seen):
            assert seen.record
            return [_because(destroy, f"it stands on {seen.record.host} as its record says")]
        adopted = adoptable(seen, snapshot)
        return [] if adopted else "which of its guests is the right one nobody can say; nothing is destroyed"
    if seen.is_ended:
        return [_because(destroy, "the server is deleted")]
    return "nobody knows whose it is: the directory has never had such a server; nothing is destroyed"


def _because(mend: Mend, why: str) -> Mend:
    return msgspec.structs.replace(mend, sentence=f"{mend.sentence}: {why}")


def adoptable(seen: ServerEvidence, snapshot: CloudSnapshot) -> Mend | None:
    """Give the one guest that there is, where the record says that it is elsewhere; None: it is not so simple."""
    home, only = seen.home, _only_elsewhere(seen)
    if home is None or only is None or doubts.unseen_of(seen, snapshot) or _hindrance(home, seen, only, snapshot):
        return None
    host, guest = only
    sentence = f"have the record of server {seen.id} say {host}, where its only guest is"
    return Mend(kind="adopt_guest", host=host, slot=guest.key.slot, cell=home.cell, sentence=sentence)


def _only_elsewhere(seen: ServerEvidence) -> Seen | None:
    """Give the only guest that there is, if it is not where the record says."""
    strays = list(seen.strays())
    return strays[0] if len(strays) == 1 and strays == list(seen.guests) else None


def _hindrance(home: Server, seen: ServerEvidence, only: Seen, snapshot: CloudSnapshot) -> str | None:
    """Say why its record cannot just say where its only guest is."""
    host, guest = only
    if home.volumes:
        return "its volumes are attached for another host"
    if seen.devices:
        return "its devices are of another host"
    for port in seen.named_ports:
        if port.requests or port.vnic_type != "normal":
            return f"what serves port {port.id} is of another host"
    if snapshot.hosts[host].cell != home.cell:
        return "that host is of another cell"
    size = home.flavor.vcpus, home.flavor.memory_mib
    is_recorded = guests.stands_as_recorded(guest, home) and (guest.vcpus, guest.memory_mib) == size
    if not is_recorded or home.vm_state == doubts.VERDICT:
        return "it is not what the record says"
    return None


def missing_guest(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    if words := owners.disputed(seen):
        return words
    adopted = adoptable(seen, snapshot)
    if adopted is None:
        return doubts.unseen_of(seen, snapshot) or _not_adopted(seen, snapshot)
    claim = Mend(kind="claim_due", sentence=f"have server {seen.id} hold what it needs on {adopted.host}")
    return [adopted, claim, *_bound_at(seen, adopted.host)]


def _not_adopted(seen: ServerEvidence, snapshot: CloudSnapshot) -> str:
    home, only = seen.home, _only_elsewhere(seen)
    if home and only and (why := _hindrance(home, seen, only, snapshot)):
        return f"its only guest is on {only[0]}, and {why}: have it back on {home.host}, or its disk"
    if list(seen.strays()):
        return "which of its guests is the right one nobody can say: have its disk back on its host"
    return "its guest is nowhere: have its disk back on its host, or delete the server"


def _bound_at(seen: ServerEvidence, host: HostName | None) -> Iterator[Mend]:
    for port in seen.named_ports:
        if port.host != host:
            yield Mend(kind="bind_port", thing=port.id, host=host, sentence=f"bind port {port.id} to {host}")


# Records


def no_entry(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    if len(seen.records) != 1:
        return "several cells have a record of it: which is the right one nobody can say"
    [(cell, record)] = seen.records.items()
    if seen.is_ended:
        return "the journal knows that it was deleted: have the cell's row, or the journal's, back from a backup"
    if not doubts.is_of(record, cell, snapshot):
        return f"its record says that it is of cell {record.cell}, on {record.host}: which cell is right nobody can say"
    guest = next((g for host, g in seen.guests if (host, g.key.slot) == (record.host, record.slot)), None)
    if guest is None or not is_whole(guest):
        gone = "its guest is not there, so that it may have been deleted: have the directory's row back from a backup"
        return doubts.unseen_of(seen, snapshot) or gone
    return [Mend(kind="adopt_record", cell=cell, sentence=f"enter server {seen.id} of cell {cell} into the directory"
                 f": its guest is on {record.host}")]  # fmt: skip


def stray_record(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    if seen.is_alive and seen.record is None:
        return "the cell that the directory names has no record of it, so this may be the only one"
    cell = CellName(violation.about)
    copy = seen.records[cell]
    if words := doubts.unseen(snapshot, [copy.host]):
        return words
    if seen.is_alive:
        assert seen.record
        if not stands_as_recorded(seen):
            return (
                doubts.unseen_of(seen, snapshot)
                or "its guest is not seen where the record says that counts: which"
                " of them is right has to be decided first"
            )
        if (copy.host, copy.slot) in [(host, guest.key.slot) for host, guest in doubts.doomed(seen)]:
            return "a guest is there as each of the records says: which is right nobody can say"
    return [Mend(kind="erase_copy", cell=cell, sentence=f"erase the record of server {seen.id} in cell {cell}")]


def stand_alone(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    return [Mend(kind="stand_alone", sentence=f"have the record of server {seen.id} stand as the only one")]


def write_columns(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    """Believe the record where its guest and the directory agree with it."""
    if violation.about == "project":
        return owners.agree(seen, snapshot, violation)
    if words := owners.disputed(seen):
        return words
    if violation.about == "project_id" and violation.evidence["found"] == owners.project_of(seen):
        return []  # the record is wrong
    if not stands_as_recorded(seen):
        return advice.left(violation)
    sentence = f"have lists find server {seen.id} by what its record says"
    return [Mend(kind="write_columns", sentence=sentence)]


def unlock(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    return [Mend(kind="unlock", thing=violation.about, sentence=f"unlock server {seen.id}, and show no task of it")]
