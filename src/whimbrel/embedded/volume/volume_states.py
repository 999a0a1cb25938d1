"""The states of a volume as a table: what may be done in which, and what a volume's claims make of it.

Law: as long as nothing else is done to a volume, its status says what its attachments are.
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
    "attach more": ("available", "in-use", "reserved", "attaching"),
    "unreserve": ("reserved", "attaching"),
    "begin detaching": ("in-use",),
    "roll detaching": ("detaching",),
    "retype": ("available", "in-use"),
    "make read-only": ("available",),
}
"""What is done -> the states in which it may be done."""

CLAIMED = ("reserved", "attaching", "in-use", "detaching", "available")
"""States that say what a volume's claims are."""

RESET_TO = ("available", "error", "in-use", "reserved", "attaching", "detaching", "error_deleting", "maintenance")
"""What an administrator may say that a volume is; not what would begin a work, for a status orders it here."""

_BY_CLAIM = (("attached", "in-use"), ("attaching", "attaching"), ("reserved", "reserved"))


def check(volume: VolumeRecord, what: str) -> None:
    """Raises: WrongState."""
    allowed = ALLOWED[what]
    if volume.status not in allowed:
        raise WrongState(
            f"Invalid volume: volume {volume.id} is {volume.status}; to {what} it must be {' or '.join(allowed)}."
        )


def by_claims(claims: Sequence[AttachmentRecord]) -> str:
    """Give the status of a volume to which nothing else is done."""
    held: Collection[str] = {claim.status for claim in claims}
    return next((status for claim, status in _BY_CLAIM if claim in held), AVAILABLE)
