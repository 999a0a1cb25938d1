"""What is done about what is held for a server, or for nobody: claims, ports, volumes, devices, images. Pure.

Law: nothing is let go that a guest uses, or may use on a host that does not answer.
"""

from whimbrel.domain.ids import HostName, Slot
from whimbrel.ports.services.volumes import Attachment
from whimbrel.proof.evidence import CloudSnapshot, Seen, ServerEvidence
from whimbrel.proof.violation import Violation
from whimbrel.repair import guards as doubts
from whimbrel.repair import owners
from whimbrel.repair.actions import Mend, Said
from whimbrel.repair.guests import adoptable


def claim_due(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    if words := owners.disputed(seen):
        return words
    record = seen.record
    adopted = adoptable(seen, snapshot) if record and record.host else None
    kept = adopted.host if adopted else record.host if record else None
    if words := None if adopted else doubts.forgotten_ports(seen) or doubts.claim_in_use(seen, snapshot, kept):
        return words
    if kept is None:
        return [_release(seen)]
    if adopted:
        return [Mend(kind="claim_due", sentence=f"have server {seen.id} hold what it needs on {kept}")]
    if words := doubts.unserved_port(seen, snapshot):
        return words
    due = "; ".join(violation.evidence.get("due", ()))
    return [Mend(kind="claim_due", sentence=f"have server {seen.id} hold {due}, and nothing else")]


def recount(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    return [Mend(kind="recount", sentence=f"have what is said to be used of provider {violation.evidence['provider']}"
                 " be what is held of it")]  # fmt: skip


def tell_zone(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    sentence = f"tell Placement that host {violation.host} is in zone {violation.evidence['name']}"
    return [Mend(kind="tell_zone", host=violation.host, sentence=sentence)]


def release_claim(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    if not seen.is_ended and (seen.records or seen.guests):  # guests of a deleted one are destroyed before
        return doubts.FIRST
    return doubts.for_others(seen) or doubts.claim_in_use(seen, snapshot) or [_release(seen)]


def _release(seen: ServerEvidence) -> Mend:
    return Mend(kind="release_claim", sentence=f"have {seen.id} hold nothing in Placement")


def bind_port(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    port = next(port for port in seen.ports if port.id == violation.about)
    if seen.home is None:
        return "its server lives nowhere"
    if seen.guest(seen.home.host, seen.key) is None:
        silent = doubts.unseen(snapshot, [seen.home.host])
        return [] if adoptable(seen, snapshot) else silent or "its guest is not where its record says"
    if port.requests or port.vnic_type != "normal":
        return "what serves it has to change too: move the server, or detach the port and attach it again"
    sentence = f"bind port {port.id} to {seen.home.host}"
    return [Mend(kind="bind_port", thing=port.id, host=seen.home.host, sentence=sentence)]


def let_go_binding(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    port_id, _, host = violation.about.partition("/")
    return [Mend(kind="let_go_binding", thing=port_id, host=HostName(host),
                 sentence=f"delete the binding of port {port_id} to {host}")]  # fmt: skip


def let_go_port(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    port = next(port for port in seen.ports if port.id == violation.about)
    if by := doubts.user(port.id, seen, snapshot):
        return f"{by}: have the port say that it is of that server, and the server's record name it"
    bound = [port.host, *(binding.host for binding in seen.bindings.get(port.id, ()))]
    if words := doubts.in_use(seen, snapshot) or doubts.unseen(snapshot, bound):
        return words
    sentence = f"let go port {violation.about}: delete it if it was made for the server, else make it nobody's"
    return [Mend(kind="let_go_port", thing=violation.about, sentence=sentence)]


def detach(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    stray = next(one for one in seen.attachments if one.id == violation.about)
    named = _named_besides(stray, seen)
    served = _served_from_home(seen, named) if named and not _same_host(stray, named, seen) else None
    by = None if named and stray.status == "reserved" else doubts.user(stray.volume_id, seen, snapshot, served)
    if by and named:
        return f"{by}, by this one or by the one of the record: detach the volume from the server and attach it again"
    if by:
        return f"{by}: have the cell's row back from a backup, or reboot the server hard, which takes it from the guest"
    if words := doubts.in_use(seen, snapshot):
        return words
    return [Mend(kind="detach", thing=violation.about, sentence=f"delete attachment {violation.about}")]


def _named_besides(stray: Attachment, seen: ServerEvidence) -> str | None:
    """Return the attachment by which the record says that the server has the volume, if that one is there.

    A stray beside it was left by a move, or made by a user in the volume service.
    """
    there = {one.id for one in seen.attachments}
    devices = seen.record.volumes if seen.record else ()
    named = [one.attachment_id for one in devices if one.volume_id == stray.volume_id and one.attachment_id in there]
    return named[0] if named else None


def _same_host(stray: Attachment, named: str, seen: ServerEvidence) -> bool:
    use = seen.uses.get(stray.volume_id)
    return use is None or use.hosts.get(stray.id) == use.hosts.get(named)


def _served_from_home(seen: ServerEvidence, named: str) -> Seen | None:
    """Return the guest that the record says, if the volume is attached where it is by this attachment."""
    home = seen.home
    connected = {one: host for use in seen.uses.values() for one, host in use.hosts.items()}
    if home is None or home.host is None or connected.get(named) != home.host:
        return None
    guest = seen.guest(home.host, seen.key)
    return (home.host, guest) if guest else None


def release_devices(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    name, _, slot = violation.about.partition("/")
    host = snapshot.hosts.get(HostName(name))
    if host is None:
        return f"{name} is no host any more: add it again, or have the row out of the cell's database"
    if (host.name, slot) in [(at, guest.key.slot) for at, guest in doubts.left(seen)]:
        return "the guest that has it is still there"
    if words := doubts.unseen(snapshot, [host.name]) or doubts.in_use(seen, snapshot):
        return words
    return [Mend(kind="release_devices", host=host.name, slot=Slot(slot), cell=host.cell,
                 sentence=f"have guest {slot} of server {seen.id} hold no device of {name}")]  # fmt: skip


def book(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    cpus, memory = violation.evidence["flavor"]
    return [Mend(kind="book", sentence=f"count server {seen.id} for {cpus} cpus and {memory} MiB")]


def delete_image(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    return [Mend(kind="delete_image", thing=violation.about, sentence=f"delete image {violation.about}")]
