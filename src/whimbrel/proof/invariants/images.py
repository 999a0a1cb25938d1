"""I4, images: an image that waits for a snapshot or carries a disk belongs to an open run."""

from collections.abc import Iterator

from whimbrel.moves.steps.disk import TRANSFER_IMAGE
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Kind, Violation


def count(seen: ServerEvidence) -> int:
    return len(seen.images)


def awaited(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    for image in seen.images if not seen.runs else ():
        what = "carries the disk of" if TRANSFER_IMAGE in image.properties else "waits for a snapshot of"
        sentence = f"image {image.id} {what} server {seen.id}, and nothing is under way"
        yield Violation(invariant="I4", kind=Kind.LEAKED_IMAGE, subject=seen.id, about=image.id, sentence=sentence,
                        evidence={"name": image.name, "status": image.status, "owner": image.owner})  # fmt: skip
