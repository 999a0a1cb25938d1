"""Guards and actions for the resources of a server or of an orphan id: claims, ports, volumes, devices, images.
Pure.

Invariant: nothing is released that a guest uses, or may use on an unreachable host.
"""

from whimbrel.domain.ids import HostName, Slot
from whimbrel.ports.services.network import Port
from whimbrel.ports.services.volumes import Attachment
from whimbrel.proof.evidence import CloudSnapshot, Seen, ServerEvidence
from whimbrel.proof.violation import Violation
from whimbrel.repair import actions, guards, owners
from whimbrel.repair.actions import RepairAction
from whimbrel.repair.guests import adoptable, claim_at

# Claims


def claim_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    if words := owners.disputed(seen):
        return words
    if adoptable(seen, snapshot):
        return None
    host = seen.record.host if seen.record else None
    guest = seen.guest(host, seen.key)
    if guest and (words := guards.forgotten_port(seen, guest, seen.nics)):
        return words
    if words := guards.claim_in_use(seen, snapshot, host):
        return words
    return guards.unserved_port(seen, snapshot) if host else None


def claim_due(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    if adopted := adoptable(seen, snapshot):
        return [claim_at(adopted.host, seen)]
    if seen.record is None or seen.record.host is None:
        return release_claim(seen, snapshot, violation)
    due = "; ".join(violation.evidence.get("due", ()))
    return [actions.ClaimDue(sentence=f"set the claim of server {seen.id} to {due}")]


def release_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    if not seen.is_ended and (seen.records or seen.guests):  # guests of a deleted server are destroyed before
        return guards.FIRST
    return guards.for_others(seen) or guards.claim_in_use(seen, snapshot)


def release_claim(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    return [actions.ReleaseClaim(sentence=f"release the claim of {seen.id}")]


def recount(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    provider = violation.evidence["provider"]
    return [actions.Recount(sentence=f"recompute the usage of provider {provider} from what is held")]


def tell_zone(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    assert violation.host
    sentence = f"set the zone of host {violation.host} in Placement to {violation.evidence['name']}"
    return [actions.TellZone(sentence=sentence, host=violation.host)]


def book(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    cpus, memory = violation.evidence["flavor"]
    return [actions.CorrectQuota(sentence=f"count server {seen.id} for {cpus} cpus and {memory} MiB")]


# Ports


def bind_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    if seen.home is None:
        return "its server has no host"
    if seen.guest(seen.home.host, seen.key) is None:
        unreachable = guards.not_checked(snapshot, [seen.home.host])
        return None if adoptable(seen, snapshot) else unreachable or "its guest is not where its record says"
    port = _port(seen, violation)
    if port.requests or port.vnic_type != "normal":
        return "its provider has to change too: move the server, or detach the port and attach it again"
    return None


def bind_port(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    assert seen.home
    assert seen.home.host
    if seen.guest(seen.home.host, seen.key) is None:
        return []  # adopting the guest binds it
    sentence = f"bind port {violation.about} to {seen.home.host}"
    return [actions.BindPort(sentence=sentence, port_id=violation.about, host=seen.home.host)]


def delete_binding(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    port_id, _, host = violation.about.partition("/")
    sentence = f"delete the binding of port {port_id} to {host}"
    return [actions.DeleteBinding(sentence=sentence, port_id=port_id, host=HostName(host))]


def port_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    port = _port(seen, violation)
    if by := guards.user(port.id, seen, snapshot):
        if all(port.id not in guest.ports for _, guest in guards.left(seen)):
            return f"{by}: set the port's device_id to that server"
        return (
            f"{by}: attach it to the server again, its guest keeps it meanwhile: openstack port unset --device"
            f" {port.id}; openstack server add port {seen.id} {port.id}"
        )
    bound = [port.host, *(binding.host for binding in seen.bindings.get(port.id, ()))]
    return guards.in_use(seen, snapshot) or guards.not_checked(snapshot, bound)


def release_port(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    sentence = f"release port {violation.about}: delete it if it was made for the server, else clear its device_id"
    return [actions.ReleasePort(sentence=sentence, port_id=violation.about)]


def _port(seen: ServerEvidence, violation: Violation) -> Port:
    return next(port for port in seen.ports if port.id == violation.about)


# Volumes


def detach_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    orphan = next(one for one in seen.attachments if one.id == violation.about)
    named = _named_besides(orphan, seen)
    served = _served_from_home(seen, named) if named and not _same_host(orphan, named, seen) else None
    by = None if named and orphan.status == "reserved" else guards.user(orphan.volume_id, seen, snapshot, served)
    if by and named:
        return f"{by}, by this one or by the one of the record: detach the volume from the server and attach it again"
    if by:
        return f"{by}: restore the cell's row from a backup, or reboot the server hard, which removes it from the guest"
    return guards.in_use(seen, snapshot)


def detach_volume(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    return [actions.DetachVolume(sentence=f"delete attachment {violation.about}", attachment_id=violation.about)]


def _named_besides(orphan: Attachment, seen: ServerEvidence) -> str | None:
    """Return the attachment that the record names for the same volume, if it exists. An orphan beside it was left by
    a move, or created by a user in the volume service.
    """
    there = {one.id for one in seen.attachments}
    devices = seen.record.volumes if seen.record else ()
    named = [one.attachment_id for one in devices if one.volume_id == orphan.volume_id and one.attachment_id in there]
    return named[0] if named else None


def _same_host(orphan: Attachment, named: str, seen: ServerEvidence) -> bool:
    use = seen.uses.get(orphan.volume_id)
    return use is None or use.hosts.get(orphan.id) == use.hosts.get(named)


def _served_from_home(seen: ServerEvidence, named: str) -> Seen | None:
    """Return the recorded guest, if this attachment connects the volume on its host."""
    home = seen.home
    connected = {one: host for use in seen.uses.values() for one, host in use.hosts.items()}
    if home is None or home.host is None or connected.get(named) != home.host:
        return None
    guest = seen.guest(home.host, seen.key)
    return (home.host, guest) if guest else None


# Devices and images


def devices_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    host, slot = _holder(violation)
    if host not in snapshot.hosts:
        return f"{host} is not a host: add it again, or delete the row from the cell's database"
    if (host, slot) in [(at, guest.key.slot) for at, guest in guards.left(seen)]:
        return "the guest that has it still exists"
    return guards.not_checked(snapshot, [host]) or guards.in_use(seen, snapshot)


def release_devices(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    host, slot = _holder(violation)
    sentence = f"release the devices of guest {slot} of server {seen.id} on {host}"
    return [actions.ReleaseDevices(sentence=sentence, cell=snapshot.hosts[host].cell, host=host, slot=slot)]


def _holder(violation: Violation) -> tuple[HostName, Slot]:
    host, _, slot = violation.about.partition("/")
    return HostName(host), Slot(slot)


def delete_image(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    return [actions.DeleteImage(sentence=f"delete image {violation.about}", image_id=violation.about)]
