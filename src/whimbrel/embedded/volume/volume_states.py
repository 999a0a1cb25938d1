"""The states of a volume as a table: permitted operations, and the states that follow from claims.

Invariant: while no other operation is in progress on a volume, its status is derived from its attachments.
"""

from collections.abc import Collection, Sequence

from whimbrel.domain.errors import WrongState
from whimbrel.ports.embedded.volume_store import AttachmentRecord, VolumeRecord

AVAILABLE = "available"

ALLOWED: dict[str, tuple[str, ...]] = {
    "delete": ("available", "error", "error_extending", "error_deleting"),
    "extend": ("available",),
    "extend in use": ("available", "in-use"),
    "snapshot": ("available",),
    "snapshot in use": ("available", "in-use"),
    "copy": ("available", "in-use"),
    "upload": ("available",),
    "upload in use": ("available", "in-use"),
    "reserve": ("available",),
    "attach once": ("available",),
    "attach more": ("available", "in-use"),
    "unreserve": ("reserved", "attaching"),
    "begin detaching": ("in-use",),
    "roll detaching": ("detaching",),
    "retype": ("available", "in-use"),
    "make read-only": ("available",),
    "reimage": ("available", "error"),
    "reimage reserved": ("available", "error", "reserved"),
}
"""Operation -> the states in which it is permitted."""

CLAIMED = ("reserved", "attaching", "in-use", "detaching", "available")
"""States that are derived from a volume's claims."""

ATTACHED_AGAIN = ("in-use", "reserved")
"""States in which a server that has an attachment of a volume gets another one, for a move."""

RESET_TO = ("available", "error", "in-use", "reserved", "attaching", "detaching", "error_deleting", "maintenance")
"""States that an administrator may set; not those that start a job."""

_BY_CLAIM = (("attached", "in-use"), ("attaching", "attaching"), ("reserved", "reserved"))


def check(volume: VolumeRecord, what: str) -> None:
    """Raises: WrongState."""
    allowed = ALLOWED[what]
    if volume.status not in allowed:
        raise WrongState(
            f"Invalid volume: volume {volume.id} is {volume.status}; to {what} it must be {' or '.join(allowed)}."
        )


def is_written_anew(volume: VolumeRecord) -> bool:
    """Check whether the content of an existing volume is being replaced by an image."""
    return volume.status == "downloading" and volume.upload_image_id is not None


def by_claims(claims: Sequence[AttachmentRecord]) -> str:
    """Return the status of a volume without an operation in progress."""
    held: Collection[str] = {claim.status for claim in claims}
    return next((status for claim, status in _BY_CLAIM if claim in held), AVAILABLE)
