"""I7: a volume is attached for the server whose record says so, and its guest has it; nobody else's is held."""

from collections.abc import Iterator
from typing import Any

from whimbrel.ports.volumes import Attachment
from whimbrel.proof.stake import Ground, Stake
from whimbrel.proof.violation import Violation


def count(stake: Stake) -> int:
    volumes = stake.record.volumes if stake.record else ()
    return len({*(one.id for one in stake.attachments), *(device.attachment_id for device in volumes)})


def attached_once(stake: Stake, ground: Ground) -> Iterator[Violation]:
    if stake.is_nobody and stake.is_known:
        for one in stake.attachments:
            yield _violation(stake, "attachment_of_nobody", one, f"attachment {one.id} keeps volume {one.volume_id} for"
                             f" server {stake.id}, which is no more")  # fmt: skip
    if stake.record is None or not stake.is_settled:
        return
    there = {one.id: one for one in stake.attachments}
    recorded = {device.attachment_id: device for device in stake.record.volumes}
    for attachment_id in there.keys() - recorded.keys():
        one = there[attachment_id]
        yield _violation(stake, "stray_attachment", one, f"attachment {one.id} keeps volume {one.volume_id} for server"
                         f" {stake.id}, whose record does not name it")  # fmt: skip
    for attachment_id, device in recorded.items():
        found = there.get(attachment_id)
        if found is None or found.volume_id != device.volume_id:
            sentence = f"the attachment {attachment_id} by which server {stake.id} uses volume {device.volume_id} is"
            yield Violation(law="I7", kind="lost_attachment", subject=stake.id, about=device.volume_id,
                            sentence=f"{sentence} not there",
                            evidence={"attachments": sorted(there)})  # fmt: skip
    yield from _of_guest(stake)


def _of_guest(stake: Stake) -> Iterator[Violation]:
    """See that the guest has the volumes that its record names, and no other."""
    home = stake.home
    guest = stake.guest(home.host, stake.key) if home else None
    if home is None or guest is None or guest.power == "reserved":
        return
    has, due = set(guest.volumes), {device.volume_id for device in home.volumes}
    if has != due:
        sentence = f"the guest of server {stake.id} has the volumes {_list(has)}, and its record says {_list(due)}"
        yield Violation(law="I7", kind="volumes_of_guest", subject=stake.id, host=home.host, sentence=sentence,
                        evidence={"guest": sorted(has), "record": sorted(due)})  # fmt: skip


def _list(ids: set[str]) -> str:
    return ", ".join(sorted(ids)) or "none"


def _violation(stake: Stake, kind: str, one: Attachment, sentence: str) -> Violation:
    evidence: dict[str, Any] = {"attachment": one.id, "volume": one.volume_id, "status": one.status}
    return Violation(law="I7", kind=kind, subject=stake.id, about=one.id, sentence=sentence, evidence=evidence)
