"""I4, of images: one that waits for a snapshot, or carries a disk, is of something that is under way."""

from collections.abc import Iterator

from whimbrel.moves.steps.disk import PARCEL
from whimbrel.proof.evidence import Ground, Stake
from whimbrel.proof.violation import Violation


def count(stake: Stake) -> int:
    return len(stake.images)


def awaited(stake: Stake, ground: Ground) -> Iterator[Violation]:
    for image in stake.images if not stake.runs else ():
        what = "carries the disk of" if PARCEL in image.properties else "waits for a snapshot of"
        sentence = f"image {image.id} {what} server {stake.id}, and nothing is under way"
        yield Violation(law="I4", kind="leaked_image", subject=stake.id, about=image.id, sentence=sentence,
                        evidence={"name": image.name, "status": image.status, "owner": image.owner})  # fmt: skip
