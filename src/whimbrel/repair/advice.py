"""What a person can do about what a repair leaves as it is. Words only.

Law: nothing is repaired under a move that waits for a verdict; but whoever gives it has to know which one is safe.
"""

from collections.abc import Mapping

from whimbrel.domain.run import Run
from whimbrel.proof.violation import Violation

NOTHING = "nothing is known that could be done about it"

_LEFT: Mapping[str, str] = {
    "guest_differs": "start or stop the server; where its size differs, move it",
    "no_record": "have the cell's row back from a backup; if another cell has its record, and its guest, have the"
    " directory's row name that cell",
    "no_host": "have the host back, or delete the server",
    "columns_differ": "have that column say what the record says",
    "lost_port": "if it is there and not another's by now, have it say that it is of this server; else detach it",
    "lost_attachment": "detach the volume from the server and attach it again",
    "loose_attachment": "detach the volume from the server and attach it again",
    "no_volume": "stop the server; have the volume back in the volume service, or detach it",
    "attached_elsewhere": "see that no guest on that host has it, then detach the volume and attach it again",
    "said_to_be_free": "set the volume's status to in-use in the volume service, before another server takes it",
    "volumes_of_guest": "reboot the server hard, or detach the volume and attach it again",
    "attached_twice": "have one of the servers give it up at once: two that write to it destroy what is on it",
    "devices_differ": "move the server: it gets its devices anew where it arrives",
    "no_move": "have the journal's row of its move back from a backup",
    "no_consumer": "have its row among Placement's consumers back from a backup",
    "wrong_owner": "have its row among Placement's consumers say the project of the record",
    "over_capacity": "move servers away, or have Placement know that there is more",
    "not_offered": "have Placement know again how much there is: openstack resource provider inventory class set",
    "stands_still": "mend what it says, then: whimbrel move retry",
    "never_due": "if nobody is at it, have it tried now: whimbrel move retry",
    "zone_differs": "put the host back into that zone, or move the server there",
    "broken_rule": "move a server of the group",
    "places_differ": "delete who is no member from Placement's table group_places; move who is one",
    "journal_behind": "a database was restored: whimbrel restore",
    "fallen_epoch": "have the journal back from a later backup; until then let no conductor run",
    "no_reason": "look into the log of the process that carried it: the journal cannot tell any more",
}

_WAITING: Mapping[str, str] = {
    "missing_guest": "revert it, if the guest of the source is there: it is the one that is left",
    "no_way_back": "do not revert it before that guest is there again, switched off; confirm it, if a guest is where"
    " the record says",
    "stray_guest": "that guest is of neither place: when the verdict is carried out, repair takes it away",
    "lost_lock": "have the older of the cell's database and the journal back from a later backup, before any verdict",
    "not_at_target": "have the cell's row back from a backup, before any verdict",
    "no_copy": "confirm it, or have that cell's row back from a backup",
    "port_elsewhere": "activate the port's binding on the server's host, in the network service",
    "unbound_port": "activate the port's binding on the server's host, in the network service",
    "wrong_claim_of_move": "confirm it, and repair what is claimed then",
    "unclaimed_guest": "confirm it, and repair what is claimed then",
}


def left(violation: Violation) -> str:
    return _LEFT.get(violation.kind, NOTHING)


def before_verdict(move: Run, violation: Violation) -> str:
    """Say what to do before the verdict, or by it."""
    words = _WAITING.get(violation.kind, "give the verdict, then look again")
    return f"{move.saga} {move.id} waits for a verdict: {words}"


OF_OTHERS = frozenset(
    {
        *("over_capacity", "not_offered", "broken_rule", "places_differ", "fallen_epoch", "stands_still"),
        *("never_due", "no_reason", "attached_twice", "journal_behind"),
    }
)
"""What does not hold of providers, groups, runs and volumes, and not of a server."""


def of_others(violation: Violation) -> str:
    """Say what a person can do about what is of no server."""
    return f"{violation.sentence}: {left(violation)}"
