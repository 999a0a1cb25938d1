"""I7: a volume is attached for the server with the record that names it, its guest has it, and no other is held."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from whimbrel.domain.ids import ServerId
from whimbrel.ports.services.volumes import Attachment, Volume
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Kind, Violation


def count(seen: ServerEvidence) -> int:
    volumes = seen.record.volumes if seen.record else ()
    return len({*(one.id for one in seen.attachments), *(device.attachment_id for device in volumes)})


def attached_once(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    if seen.is_unknown and seen.is_known:
        for one in seen.attachments:
            yield _violation(seen, Kind.ATTACHMENT_OF_NOBODY, one, f"attachment {one.id} keeps volume {one.volume_id}"
                             f" for server {seen.id}, which does not exist any more")  # fmt: skip
    if seen.record is None or not seen.is_still:
        return
    recorded = {device.attachment_id for device in seen.record.volumes}
    for one in seen.attachments:
        if one.id in seen.swaps:
            yield _violation(seen, Kind.UNENDED_SWAP, one, f"volume {seen.swaps[one.id].volume_id} of server {seen.id}"
                             f" is migrated to volume {one.volume_id}, and no run swaps them")  # fmt: skip
        elif one.id not in recorded:
            yield _violation(seen, Kind.ORPHAN_ATTACHMENT, one, f"attachment {one.id} keeps volume {one.volume_id} for"
                             f" server {seen.id}, whose record does not name it")  # fmt: skip
    for snapshot_id, taken in seen.file_snapshots.items():
        yield Violation(invariant="I7", kind=Kind.UNREPORTED_SNAPSHOT, subject=seen.id, about=snapshot_id,
                        sentence=f"the guest of server {seen.id} uses the file of snapshot {snapshot_id} of volume"
                        f" {taken.volume_id}, and the volume service does not know",
                        evidence={"volume": taken.volume_id, "is_awaited": taken.is_awaited})  # fmt: skip
    for snapshot_id, volume_id in seen.lost_merges.items():
        yield Violation(invariant="I7", kind=Kind.LOST_MERGE, subject=seen.id, about=snapshot_id,
                        sentence=f"snapshot {snapshot_id} of volume {volume_id} is being deleted, and no run merges its"
                        f" files for server {seen.id}", evidence={"volume": volume_id})  # fmt: skip
    yield from used_as_recorded(seen, snapshot)
    yield from _used_from_home(seen)


def used_as_recorded(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    """Check the recorded volumes of a server that is still: holds at every instant, despite stale requests."""
    if seen.record is None or not seen.is_still:
        return
    there = {one.id: one.volume_id for one in seen.attachments}
    kept = {one.id for one in seen.attachments if one.status == "reserved"} if seen.home else set()
    for device in seen.record.volumes:
        is_recorded = seen.record.vm_state == "error" and not device.host  # of a root volume in error after a rebuild
        if device.attachment_id in kept and not is_recorded:
            sentence = f"the attachment {device.attachment_id} by which server {seen.id} uses volume"
            yield Violation(invariant="I7", kind=Kind.LOOSE_ATTACHMENT, subject=seen.id, about=device.volume_id,
                            sentence=f"{sentence} {device.volume_id} only reserves it, and is connected to no host",
                            evidence={"status": "reserved"})  # fmt: skip
        if there.get(device.attachment_id) != device.volume_id and device.volume_id not in seen.swapped:
            sentence = f"the attachment {device.attachment_id} by which server {seen.id} uses volume"
            yield Violation(invariant="I7", kind=Kind.LOST_ATTACHMENT, subject=seen.id, about=device.volume_id,
                            sentence=f"{sentence} {device.volume_id} is not there",
                            evidence={"attachments": sorted(there)})  # fmt: skip
    yield from _of_guest(seen)


def _used_from_home(seen: ServerEvidence) -> Iterator[Violation]:
    """Check that each volume is in use through the recorded attachment, on the host of its server."""
    home = seen.home
    attached = {one.id for one in seen.attachments if one.status == "attached"}
    for device in home.volumes if home else ():
        use = seen.uses.get(device.volume_id)
        host = use.hosts.get(device.attachment_id) if use else None
        if use is None:
            yield _differs(seen, device.volume_id, Kind.NO_VOLUME, "which is not there", {})
        elif host and home and host != home.host:
            yield _differs(seen, device.volume_id, Kind.ATTACHED_ELSEWHERE, f"which is attached on {host}", use.hosts)
        elif use.status == "available" and device.attachment_id in attached:
            yield _differs(seen, device.volume_id, Kind.SAID_TO_BE_FREE, "which is said to be available", use.hosts)


def _differs(seen: ServerEvidence, volume_id: str, kind: Kind, what: str, hosts: Mapping[str, str | None]) -> Violation:
    assert seen.home
    return Violation(invariant="I7", kind=kind, subject=seen.id, about=volume_id, host=seen.home.host,
                     sentence=f"server {seen.id} on {seen.home.host} has volume {volume_id}, {what}",
                     evidence={"hosts": dict(hosts)})  # fmt: skip


def shared_by(volume_id: str, servers: Collection[ServerId], volume: Volume | None) -> Iterator[Violation]:
    """Check that one server holds a volume, unless it is multiattach. volume: None: it does not exist."""
    if len(servers) > 1 and not (volume and volume.is_multiattach):
        evidence = {"servers": sorted(servers), "status": volume.status if volume else None}
        yield Violation(invariant="I7", kind=Kind.ATTACHED_TWICE, subject=volume_id, evidence=evidence,
                        sentence=f"volume {volume_id} is attached for the servers {' and '.join(sorted(servers))}, and"
                        " may be for one only")  # fmt: skip


def _of_guest(seen: ServerEvidence) -> Iterator[Violation]:
    """Check that the guest has exactly the volumes that its record names."""
    home = seen.home
    guest = seen.guest(home.host, seen.key) if home else None
    if home is None or guest is None or guest.power == "reserved":
        return
    has, due = set(guest.volumes), {device.volume_id for device in home.volumes}
    if has != due:
        sentence = f"the guest of server {seen.id} has the volumes {_list(has)}, and its record says {_list(due)}"
        yield Violation(invariant="I7", kind=Kind.VOLUMES_OF_GUEST, subject=seen.id, host=home.host, sentence=sentence,
                        evidence={"guest": sorted(has), "record": sorted(due)})  # fmt: skip


def _list(ids: set[str]) -> str:
    return ", ".join(sorted(ids)) or "none"


def _violation(seen: ServerEvidence, kind: Kind, one: Attachment, sentence: str) -> Violation:
    evidence: dict[str, Any] = {"attachment": one.id, "volume": one.volume_id, "status": one.status}
    return Violation(invariant="I7", kind=kind, subject=seen.id, about=one.id, sentence=sentence, evidence=evidence)
