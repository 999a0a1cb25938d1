"""A violation: one invariant that does not hold for one subject, with the evidence."""

from enum import StrEnum, auto
from typing import Any

import msgspec

from whimbrel.domain.ids import HostName


class Kind(StrEnum):
    """What exactly is wrong, as a constant for programs, grouped by invariant."""

    # I1: guests
    RUNS_TWICE = auto()
    ORPHAN_GUEST = "stray_guest"
    MISSING_GUEST = auto()
    GUEST_DIFFERS = auto()
    NO_WAY_BACK = auto()
    # I2: directory, records and hosts
    NO_RECORD = auto()
    NO_ENTRY = auto()
    NO_HOST = auto()
    NO_COPY = auto()
    NOT_AT_TARGET = auto()
    ORPHAN_RECORD = "stray_record"
    ORPHAN_COPY = "stray_standing"
    WRONG_CELL = auto()
    COLUMNS_DIFFER = auto()
    # I3, I4: claims and images
    MISSING_CLAIM = auto()
    WRONG_CLAIM = auto()
    WRONG_CLAIM_OF_MOVE = auto()
    UNCLAIMED_GUEST = auto()
    WRONG_OWNER = auto()
    NO_CONSUMER = auto()
    LEAKED_CLAIM = auto()
    LEAKED_IMAGE = auto()
    LOST_IMAGE = auto()
    LEFT_IMAGE = auto()
    # I5: providers
    OVER_CAPACITY = auto()
    NOT_OFFERED = auto()
    MISCOUNTED = auto()
    # I6: ports
    UNBOUND_PORT = auto()
    PORT_ELSEWHERE = auto()
    ORPHAN_BINDING = "stray_binding"
    ORPHAN_PORT = "stray_port"
    LOST_PORT = auto()
    PORT_OF_NOBODY = auto()
    # I7: volumes
    ORPHAN_ATTACHMENT = "stray_attachment"
    ATTACHMENT_OF_NOBODY = auto()
    LOOSE_ATTACHMENT = auto()
    LOST_ATTACHMENT = auto()
    NO_VOLUME = auto()
    ATTACHED_ELSEWHERE = auto()
    ATTACHED_TWICE = auto()
    SAID_TO_BE_FREE = auto()
    VOLUMES_OF_GUEST = auto()
    UNENDED_SWAP = auto()
    UNREPORTED_SNAPSHOT = auto()
    LOST_MERGE = auto()
    # I8: devices
    LEAKED_DEVICE = auto()
    DEVICES_DIFFER = auto()
    # I9: zones and groups
    ZONE_DIFFERS = auto()
    ZONE_MISTOLD = auto()
    PLACES_DIFFER = auto()
    BROKEN_RULE = auto()
    # I10: quota
    WRONG_USAGE = "wrong_booking"
    # I11, I12, I14: runs and locks
    FALLEN_EPOCH = auto()
    JOURNAL_BEHIND = auto()
    STANDS_STILL = auto()
    NEVER_DUE = auto()
    LEAKED_LOCK = auto()
    LOST_LOCK = auto()
    NO_MOVE = auto()
    NO_REASON = auto()


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """invariant: its number in invariants/table.py. subject: an id. about: the part of the subject that is wrong.

    The subject is a server, or an id that is no server and under which something is held; for other invariants a
    provider,
    a group, a run or a volume.
    """

    invariant: str
    kind: Kind
    subject: str
    sentence: str
    about: str = ""
    host: HostName | None = None
    evidence: dict[str, Any] = {}

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return an identity that is stable while the same thing is wrong."""
        return self.invariant, self.kind, self.subject, self.about

    @property
    def order(self) -> tuple[int, tuple[str, str, str, str]]:
        """Return the sort key for lists: by number of the invariant."""
        return int(self.invariant.removeprefix("I")), self.key
