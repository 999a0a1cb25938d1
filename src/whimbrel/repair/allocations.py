"""What is done about what is held for a server, or for nobody: claims, ports, volumes, devices, images. Pure.

Law: nothing is let go that a guest uses, or may use on a host that does not answer.
"""

from whimbrel.domain.ids import HostName, Slot
from whimbrel.ports.services.volumes import Attachment
from whimbrel.proof.evidence import Ground, Seen, Stake
from whimbrel.proof.violation import Violation
from whimbrel.repair import guards as doubts
from whimbrel.repair import owners
from whimbrel.repair.actions import Mend, Said
from whimbrel.repair.guests import adoptable


def claim_due(stake: Stake, ground: Ground, violation: Violation) -> Said:
    if words := owners.disputed(stake):
        return words
    record = stake.record
    adopted = adoptable(stake, ground) if record and record.host else None
    kept = adopted.host if adopted else record.host if record else None
    if words := None if adopted else doubts.forgotten_ports(stake) or doubts.claim_in_use(stake, ground, kept):
        return words
    if kept is None:
        return [_release(stake)]
    if adopted:
        return [Mend(kind="claim_due", sentence=f"have server {stake.id} hold what it needs on {kept}")]
    if words := doubts.unserved_port(stake, ground):
        return words
    due = "; ".join(violation.evidence.get("due", ()))
    return [Mend(kind="claim_due", sentence=f"have server {stake.id} hold {due}, and nothing else")]


def recount(stake: Stake, ground: Ground, violation: Violation) -> Said:
    return [Mend(kind="recount", sentence=f"have what is said to be used of provider {violation.evidence['provider']}"
                 " be what is held of it")]  # fmt: skip


def tell_zone(stake: Stake, ground: Ground, violation: Violation) -> Said:
    sentence = f"tell Placement that host {violation.host} is in zone {violation.evidence['name']}"
    return [Mend(kind="tell_zone", host=violation.host, sentence=sentence)]


def release_claim(stake: Stake, ground: Ground, violation: Violation) -> Said:
    if not stake.is_ended and (stake.records or stake.guests):  # guests of a deleted one are destroyed before
        return doubts.FIRST
    return doubts.for_others(stake) or doubts.claim_in_use(stake, ground) or [_release(stake)]


def _release(stake: Stake) -> Mend:
    return Mend(kind="release_claim", sentence=f"have {stake.id} hold nothing in Placement")


def bind_port(stake: Stake, ground: Ground, violation: Violation) -> Said:
    port = next(port for port in stake.ports if port.id == violation.about)
    if stake.home is None:
        return "its server lives nowhere"
    if stake.guest(stake.home.host, stake.key) is None:
        silent = doubts.unseen(ground, [stake.home.host])
        return [] if adoptable(stake, ground) else silent or "its guest is not where its record says"
    if port.requests or port.vnic_type != "normal":
        return "what serves it has to change too: move the server, or detach the port and attach it again"
    sentence = f"bind port {port.id} to {stake.home.host}"
    return [Mend(kind="bind_port", thing=port.id, host=stake.home.host, sentence=sentence)]


def let_go_binding(stake: Stake, ground: Ground, violation: Violation) -> Said:
    port_id, _, host = violation.about.partition("/")
    return [Mend(kind="let_go_binding", thing=port_id, host=HostName(host),
                 sentence=f"delete the binding of port {port_id} to {host}")]  # fmt: skip


def let_go_port(stake: Stake, ground: Ground, violation: Violation) -> Said:
    port = next(port for port in stake.ports if port.id == violation.about)
    if by := doubts.user(port.id, stake, ground):
        return f"{by}: have the port say that it is of that server, and the server's record name it"
    bound = [port.host, *(binding.host for binding in stake.bindings.get(port.id, ()))]
    if words := doubts.in_use(stake, ground) or doubts.unseen(ground, bound):
        return words
    sentence = f"let go port {violation.about}: delete it if it was made for the server, else make it nobody's"
    return [Mend(kind="let_go_port", thing=violation.about, sentence=sentence)]


def detach(stake: Stake, ground: Ground, violation: Violation) -> Said:
    stray = next(one for one in stake.attachments if one.id == violation.about)
    named = _named_besides(stray, stake)
    served = _served_from_home(stake, named) if named and not _same_host(stray, named, stake) else None
    by = None if named and stray.status == "reserved" else doubts.user(stray.volume_id, stake, ground, served)
    if by and named:
        return f"{by}, by this one or by the one of the record: detach the volume from the server and attach it again"
    if by:
        return f"{by}: have the cell's row back from a backup, or reboot the server hard, which takes it from the guest"
    if words := doubts.in_use(stake, ground):
        return words
    return [Mend(kind="detach", thing=violation.about, sentence=f"delete attachment {violation.about}")]


def _named_besides(stray: Attachment, stake: Stake) -> str | None:
    """Return the attachment by which the record says that the server has the volume, if that one is there.

    A stray beside it was left by a move, or made by a user in the volume service.
    """
    there = {one.id for one in stake.attachments}
    devices = stake.record.volumes if stake.record else ()
    named = [one.attachment_id for one in devices if one.volume_id == stray.volume_id and one.attachment_id in there]
    return named[0] if named else None


def _same_host(stray: Attachment, named: str, stake: Stake) -> bool:
    use = stake.uses.get(stray.volume_id)
    return use is None or use.hosts.get(stray.id) == use.hosts.get(named)


def _served_from_home(stake: Stake, named: str) -> Seen | None:
    """Return the guest that the record says, if the volume is attached where it is by this attachment."""
    home = stake.home
    connected = {one: host for use in stake.uses.values() for one, host in use.hosts.items()}
    if home is None or home.host is None or connected.get(named) != home.host:
        return None
    guest = stake.guest(home.host, stake.key)
    return (home.host, guest) if guest else None


def release_devices(stake: Stake, ground: Ground, violation: Violation) -> Said:
    name, _, slot = violation.about.partition("/")
    host = ground.hosts.get(HostName(name))
    if host is None:
        return f"{name} is no host any more: add it again, or have the row out of the cell's database"
    if (host.name, slot) in [(at, guest.key.slot) for at, guest in doubts.left(stake)]:
        return "the guest that has it is still there"
    if words := doubts.unseen(ground, [host.name]) or doubts.in_use(stake, ground):
        return words
    return [Mend(kind="release_devices", host=host.name, slot=Slot(slot), cell=host.cell,
                 sentence=f"have guest {slot} of server {stake.id} hold no device of {name}")]  # fmt: skip


def book(stake: Stake, ground: Ground, violation: Violation) -> Said:
    cpus, memory = violation.evidence["flavor"]
    return [Mend(kind="book", sentence=f"count server {stake.id} for {cpus} cpus and {memory} MiB")]


def delete_image(stake: Stake, ground: Ground, violation: Violation) -> Said:
    return [Mend(kind="delete_image", thing=violation.about, sentence=f"delete image {violation.about}")]
