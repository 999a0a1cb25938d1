"""What a person can do about what a repair leaves as it is.

Invariant: while a move waits for its verdict only its lock is repaired; the advice says which verdict is safe.
"""

from collections.abc import Mapping

from whimbrel.domain.run import Run
from whimbrel.proof.violation import Kind, Violation

NOTHING = "nothing is known that could be done about it"

_LEFT: Mapping[Kind, str] = {
    Kind.GUEST_DIFFERS: "start or stop the server; where its size differs, move it",
    Kind.NO_RECORD: "have the cell's row back from a backup; if another cell has its record, and its guest, have the"
    " directory's row name that cell",
    Kind.NO_HOST: "have the host back, or delete the server",
    Kind.COLUMNS_DIFFER: "have that column say what the record says",
    Kind.LOST_PORT: "if it is there and not another's by now, have it say that it is of this server; else detach it",
    Kind.LOST_ATTACHMENT: "detach the volume from the server and attach it again",
    Kind.LOOSE_ATTACHMENT: "detach the volume from the server and attach it again",
    Kind.NO_VOLUME: "stop the server; have the volume back in the volume service, or detach it",
    Kind.ATTACHED_ELSEWHERE: "see that no guest on that host has it, then detach the volume and attach it again",
    Kind.SAID_TO_BE_FREE: "set the volume's status to in-use in the volume service, before another server takes it",
    Kind.VOLUMES_OF_GUEST: "reboot the server hard, or detach the volume and attach it again",
    Kind.ATTACHED_TWICE: "have one of the servers give it up at once: two that write to it destroy what is on it",
    Kind.DEVICES_DIFFER: "move the server: it gets its devices anew where it arrives",
    Kind.NO_MOVE: "have the journal's row of its move back from a backup",
    Kind.NO_CONSUMER: "have its row among Placement's consumers back from a backup",
    Kind.WRONG_OWNER: "have its row among Placement's consumers say the project of the record",
    Kind.OVER_CAPACITY: "move servers away, or have Placement know that there is more",
    Kind.NOT_OFFERED: "have Placement know again how much there is: openstack resource provider inventory class set",
    Kind.STANDS_STILL: "mend what it says, then: whimbrel move retry",
    Kind.NEVER_DUE: "if nobody is at it, have it tried now: whimbrel move retry",
    Kind.ZONE_DIFFERS: "put the host back into that zone, or move the server there",
    Kind.BROKEN_RULE: "move a server of the group",
    Kind.PLACES_DIFFER: "delete who is no member from Placement's table group_places; move who is one",
    Kind.JOURNAL_BEHIND: "a database was restored: whimbrel restore",
    Kind.FALLEN_EPOCH: "have the journal back from a later backup; until then let no conductor run",
    Kind.NO_REASON: "look into the log of the process that carried it: the journal cannot tell any more",
}

_WAITING: Mapping[Kind, str] = {
    Kind.MISSING_GUEST: "revert it, if the guest of the source is there: it is the one that is left",
    Kind.NO_WAY_BACK: "do not revert it before that guest is there again, switched off; confirm it, if a guest is where"
    " the record says",
    Kind.STRAY_GUEST: "that guest is of neither place: when the verdict is carried out, repair takes it away",
    Kind.LOST_LOCK: "have the older of the cell's database and the journal back from a later backup, before any"
    " verdict",
    Kind.NOT_AT_TARGET: "have the cell's row back from a backup, before any verdict",
    Kind.NO_COPY: "confirm it, or have that cell's row back from a backup",
    Kind.PORT_ELSEWHERE: "activate the port's binding on the server's host, in the network service",
    Kind.UNBOUND_PORT: "activate the port's binding on the server's host, in the network service",
    Kind.WRONG_CLAIM_OF_MOVE: "confirm it, and repair what is claimed then",
    Kind.UNCLAIMED_GUEST: "confirm it, and repair what is claimed then",
}


def left(violation: Violation) -> str:
    return _LEFT.get(violation.kind, NOTHING)


def before_verdict(move: Run, violation: Violation) -> str:
    """Return what to do before the verdict, or by it."""
    words = _WAITING.get(violation.kind, "give the verdict, then look again")
    return f"{move.saga} {move.id} waits for a verdict: {words}"


OF_OTHERS = frozenset((
    Kind.OVER_CAPACITY, Kind.NOT_OFFERED, Kind.BROKEN_RULE, Kind.PLACES_DIFFER, Kind.FALLEN_EPOCH, Kind.STANDS_STILL,
    Kind.NEVER_DUE, Kind.NO_REASON, Kind.ATTACHED_TWICE, Kind.JOURNAL_BEHIND,
))  # fmt: skip
"""Kinds of violations that are about providers, groups, runs and volumes."""


def of_others(violation: Violation) -> str:
    """Return what a person can do about a violation that is not about a server."""
    return f"{violation.sentence}: {left(violation)}"
