"""I4, images: an image that waits for a snapshot or carries a disk belongs to an open run or to a shelved server.

I1: a shelved server has all the images that it is restored from.
"""

from collections.abc import Iterator

from whimbrel.moves.steps.disk import TRANSFER_IMAGE
from whimbrel.moves.steps.shelved_images import SHELVED_BY
from whimbrel.ports.services.images import Image
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Kind, Violation

SHELVED = ("shelved", "shelved_offloaded")


def count(seen: ServerEvidence) -> int:
    return len({*(image.id for image in seen.images), *seen.kept})


def awaited(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    named = set(seen.record.shelved_images.values()) if seen.record else set()
    for image in seen.images if not seen.runs else ():
        if image.id in named:
            continue
        if SHELVED_BY in image.properties and image.status == "active":
            sentence = f"image {image.id} has a disk of server {seen.id}, which is not shelved any more"
            yield _violation(seen, Kind.LEFT_IMAGE, image, sentence)
            continue
        what = "carries the disk of" if TRANSFER_IMAGE in image.properties else "waits for a snapshot of"
        sentence = f"image {image.id} {what} server {seen.id}, and nothing is under way"
        yield _violation(seen, Kind.LEAKED_IMAGE, image, sentence)


def kept(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    for image_id, status in seen.kept.items() if not seen.runs else ():
        if status != "active":
            sentence = f"image {image_id}, from which shelved server {seen.id} is restored, is {status or 'not there'}"
            yield Violation(invariant="I1", kind=Kind.LOST_IMAGE, subject=seen.id, about=image_id, sentence=sentence,
                            evidence={"status": status})  # fmt: skip


def _violation(seen: ServerEvidence, kind: Kind, image: Image, sentence: str) -> Violation:
    return Violation(invariant="I4", kind=kind, subject=seen.id, about=image.id, sentence=sentence,
                     evidence={"name": image.name, "status": image.status, "owner": image.owner})  # fmt: skip
