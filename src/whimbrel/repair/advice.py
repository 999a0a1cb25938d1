"""Advice: what a person can do about violations that a repair leaves.

Invariant: while a move waits for its verdict only its lock is repaired; the advice says which verdict is safe.
"""

from collections.abc import Mapping

from whimbrel.domain.run import Run
from whimbrel.proof.violation import Kind, Violation

NOTHING = "there is no known repair"

_LEFT: Mapping[Kind, str] = {
    Kind.GUEST_DIFFERS: "reboot the server hard if its record says active, start it if that says stopped; if its size"
    " differs, move it",
    Kind.NO_RECORD: "restore the cell's row from a backup; if another cell has its record and its guest, set the cell"
    " in the directory's row to that one",
    Kind.NO_HOST: "restore the host, or delete the server",
    Kind.COLUMNS_DIFFER: "set the column to what the record says",
    Kind.LOST_IMAGE: "restore the image in the image service under this id; a server that is still on its host can be"
    " unshelved without it",
    Kind.LEFT_IMAGE: "if the server's guest is missing, this is its disk: keep it; else delete the image",
    Kind.LOST_PORT: "if it still exists and has no other owner, set its device_id to this server; else detach it",
    Kind.LOST_ATTACHMENT: "detach the volume from the server and attach it again",
    Kind.LOOSE_ATTACHMENT: "migrate the server, which connects it, or evacuate it if its host is dead; or detach the"
    " volume and attach it again",
    Kind.NO_VOLUME: "stop the server; restore the volume in the volume service, or detach it",
    Kind.ATTACHED_ELSEWHERE: "check that no guest on that host uses it, then detach the volume and attach it again",
    Kind.SAID_TO_BE_FREE: "set the volume's status to in-use in the volume service, before another server attaches it",
    Kind.VOLUMES_OF_GUEST: "reboot the server hard, or detach the volume and attach it again",
    Kind.ATTACHED_TWICE: "detach it from one of the servers at once: two that write to it destroy its data",
    Kind.DEVICES_DIFFER: "move the server: it gets new devices on the target host",
    Kind.NO_MOVE: "restore the journal's row of its move from a backup",
    Kind.NO_CONSUMER: "restore its row of Placement's consumers from a backup",
    Kind.WRONG_OWNER: "set the project in its row of Placement's consumers to that of the record",
    Kind.OVER_CAPACITY: "move servers away, or raise the inventory in Placement",
    Kind.NOT_OFFERED: "restore the inventory in Placement: openstack resource provider inventory class set",
    Kind.STANDS_STILL: "fix the cause, then: whimbrel move retry",
    Kind.NEVER_DUE: "if no conductor works on it: whimbrel move retry",
    Kind.ZONE_DIFFERS: "move the host back into that zone, or the server to a host there",
    Kind.BROKEN_RULE: "move a server of the group",
    Kind.PLACES_DIFFER: "delete servers that are no members from Placement's table group_places; move those that are",
    Kind.JOURNAL_BEHIND: "a database was restored: whimbrel restore",
    Kind.FALLEN_EPOCH: "restore the journal from a later backup; until then run no conductor",
    Kind.NO_REASON: "see the log of the process that ran it: the journal does not have the reason",
}

_WAITING: Mapping[Kind, str] = {
    Kind.MISSING_GUEST: "revert it, if the guest on the source host exists: it is the only one",
    Kind.NO_WAY_BACK: "do not revert it before that guest exists again, stopped; confirm it, if the guest exists where"
    " the record says",
    Kind.ORPHAN_GUEST: "that guest is on neither host of the move: give the verdict, then repair destroys it",
    Kind.LOST_LOCK: "restore the older of the cell's database and the journal from a later backup, before any verdict",
    Kind.NOT_AT_TARGET: "restore the cell's row from a backup, before any verdict",
    Kind.NO_COPY: "confirm it, or restore that cell's row from a backup",
    Kind.PORT_ELSEWHERE: "activate the port's binding on the server's host, in the network service",
    Kind.UNBOUND_PORT: "activate the port's binding on the server's host, in the network service",
    Kind.UNENDED_SWAP: "confirm it, then repair: a revert starts the guest with the old volume, which may lack what it"
    " has written since",
    Kind.UNREPORTED_SNAPSHOT: "confirm it, then repair: a revert starts the guest with the file below, which lacks what"
    " it has written since",
    Kind.WRONG_CLAIM_OF_MOVE: "confirm it, then repair the claim",
    Kind.UNCLAIMED_GUEST: "confirm it, then repair the claim",
}


def left(violation: Violation) -> str:
    return _LEFT.get(violation.kind, NOTHING)


def before_verdict(move: Run, violation: Violation) -> str:
    """Return what to do before the verdict, or by it."""
    words = _WAITING.get(violation.kind, "give the verdict, then prove again")
    return f"{move.saga} {move.id} waits for a verdict: {words}"


OF_OTHERS = frozenset((
    Kind.OVER_CAPACITY, Kind.NOT_OFFERED, Kind.BROKEN_RULE, Kind.PLACES_DIFFER, Kind.FALLEN_EPOCH, Kind.STANDS_STILL,
    Kind.NEVER_DUE, Kind.NO_REASON, Kind.ATTACHED_TWICE, Kind.JOURNAL_BEHIND,
))  # fmt: skip
"""Kinds of violations of providers, groups, runs and volumes."""


def of_others(violation: Violation) -> str:
    """Return what a person can do about a violation that is not about a server."""
    return f"{violation.sentence}: {left(violation)}"
