"""What is done about what does not hold of a server, in words and as mends; and what is left, and why. Pure.

Law: what cannot be decided is left, with a sentence that says what a person can do.
"""

from collections.abc import Mapping, Sequence

import msgspec

from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Violation
from whimbrel.repair import advice, allocations, guards, guests, locks, owners
from whimbrel.repair.actions import Decide, Mend, Said


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """left: what nothing is done about, in sentences that say why, and what a person can do."""

    mends: tuple[Mend, ...] = ()
    left: tuple[str, ...] = ()


def plan(
    seen: ServerEvidence, snapshot: CloudSnapshot, violations: Sequence[Violation], no_claim: str | None = None
) -> Plan:
    """Say what is to be done about these violations of one stake. no_claim: why what is due cannot be claimed."""
    if seen.runs:
        return _plan(seen, snapshot, violations, _BESIDE_MOVES, _later)
    if words := guards.undecided(seen, snapshot):
        return Plan(left=tuple(f"{each.sentence}: {words}" for each in violations))
    return _plan(seen, snapshot, violations, _OF_KIND, _nothing, no_claim)


def _plan(
    seen: ServerEvidence,
    snapshot: CloudSnapshot,
    violations: Sequence[Violation],
    of_kind: Mapping[str, Decide],
    otherwise: Decide,
    no_claim: str | None = None,
) -> Plan:
    mends: list[Mend] = []
    left: list[str] = []
    for violation in violations:
        said = of_kind.get(violation.kind, otherwise)(seen, snapshot, violation)
        if no_claim and any(mend.kind == "claim_due" for mend in said if isinstance(mend, Mend)):
            said = no_claim
        if isinstance(said, str):
            left.append(f"{violation.sentence}: {said}")
        else:
            mends += [mend for mend in said if mend not in mends]
    return Plan(mends=tuple(mends), left=tuple(left))


def _later(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    """Say what to do about what may be the business of something that is under way."""
    run = seen.runs[0]
    if [each.state for each in seen.runs] == ["parked"]:
        return advice.before_verdict(run, violation)
    return f"{run.saga} {run.id} is under way: when it is over, look again"


# What is left


def _nothing(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    return advice.left(violation)


def _by_other_mends(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    """It is wrong for as long as there is a guest too many, and that is said by itself."""
    return []


_BESIDE_MOVES: Mapping[str, Decide] = {"lost_lock": locks.give_lock}
"""What is done while a move waits for its verdict."""

_OF_KIND: Mapping[str, Decide] = {
    "runs_twice": _by_other_mends,
    "stray_guest": guests.stray_guest,
    "missing_guest": guests.missing_guest,
    "no_entry": guests.no_entry,
    "stray_record": guests.stray_record,
    "missing_claim": allocations.claim_due,
    "wrong_claim": allocations.claim_due,
    "miscounted": allocations.recount,
    "wrong_owner": owners.name_owner,
    "no_consumer": owners.name_owner,
    "zone_mistold": allocations.tell_zone,
    "leaked_claim": allocations.release_claim,
    "unbound_port": allocations.bind_port,
    "port_elsewhere": allocations.bind_port,
    "stray_binding": allocations.let_go_binding,
    "stray_port": allocations.let_go_port,
    "port_of_nobody": allocations.let_go_port,
    "stray_attachment": allocations.detach,
    "attachment_of_nobody": allocations.detach,
    "leaked_device": allocations.release_devices,
    "wrong_booking": allocations.book,
    "leaked_image": allocations.delete_image,
    "leaked_lock": guests.unlock,
    "columns_differ": guests.write_columns,
    "stray_standing": guests.stand_alone,
}
