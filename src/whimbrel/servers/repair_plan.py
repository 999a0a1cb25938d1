"""What is done about what does not hold of a server, in words and as mends; and what is left, and why. Pure.

Law: what cannot be decided is left, with a sentence that says what a person can do.
"""

from collections.abc import Mapping, Sequence

import msgspec

from whimbrel.proof.stake import Ground, Stake
from whimbrel.proof.violation import Violation
from whimbrel.servers import repair_advice as advice
from whimbrel.servers import repair_doubts, repair_guests, repair_held, repair_locks, repair_owners
from whimbrel.servers.mend import Decide, Mend, Said


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """left: what nothing is done about, in sentences that say why, and what a person can do."""

    mends: tuple[Mend, ...] = ()
    left: tuple[str, ...] = ()


def plan(stake: Stake, ground: Ground, violations: Sequence[Violation], no_claim: str | None = None) -> Plan:
    """Say what is to be done about these violations of one stake. no_claim: why what is due cannot be claimed."""
    if stake.runs:
        return _plan(stake, ground, violations, _BESIDE_MOVES, _later)
    if words := repair_doubts.undecided(stake, ground):
        return Plan(left=tuple(f"{each.sentence}: {words}" for each in violations))
    return _plan(stake, ground, violations, _OF_KIND, _nothing, no_claim)


def _plan(
    stake: Stake,
    ground: Ground,
    violations: Sequence[Violation],
    of_kind: Mapping[str, Decide],
    otherwise: Decide,
    no_claim: str | None = None,
) -> Plan:
    mends: list[Mend] = []
    left: list[str] = []
    for violation in violations:
        said = of_kind.get(violation.kind, otherwise)(stake, ground, violation)
        if no_claim and any(mend.kind == "claim_due" for mend in said if isinstance(mend, Mend)):
            said = no_claim
        if isinstance(said, str):
            left.append(f"{violation.sentence}: {said}")
        else:
            mends += [mend for mend in said if mend not in mends]
    return Plan(mends=tuple(mends), left=tuple(left))


def _later(stake: Stake, ground: Ground, violation: Violation) -> Said:
    """Say what to do about what may be the business of something that is under way."""
    run = stake.runs[0]
    if [each.state for each in stake.runs] == ["parked"]:
        return advice.before_verdict(run, violation)
    return f"{run.saga} {run.id} is under way: when it is over, look again"


# What is left


def _nothing(stake: Stake, ground: Ground, violation: Violation) -> Said:
    return advice.left(violation)


def _by_other_mends(stake: Stake, ground: Ground, violation: Violation) -> Said:
    """It is wrong for as long as there is a guest too many, and that is said by itself."""
    return []


_BESIDE_MOVES: Mapping[str, Decide] = {"lost_lock": repair_locks.give_lock}
"""What is done while a move waits for its verdict."""

_OF_KIND: Mapping[str, Decide] = {
    "runs_twice": _by_other_mends,
    "stray_guest": repair_guests.stray_guest,
    "missing_guest": repair_guests.missing_guest,
    "no_entry": repair_guests.no_entry,
    "stray_record": repair_guests.stray_record,
    "missing_claim": repair_held.claim_due,
    "wrong_claim": repair_held.claim_due,
    "miscounted": repair_held.recount,
    "wrong_owner": repair_owners.name_owner,
    "no_consumer": repair_owners.name_owner,
    "zone_mistold": repair_held.tell_zone,
    "leaked_claim": repair_held.release_claim,
    "unbound_port": repair_held.bind_port,
    "port_elsewhere": repair_held.bind_port,
    "stray_binding": repair_held.let_go_binding,
    "stray_port": repair_held.let_go_port,
    "port_of_nobody": repair_held.let_go_port,
    "stray_attachment": repair_held.detach,
    "attachment_of_nobody": repair_held.detach,
    "leaked_device": repair_held.release_devices,
    "wrong_booking": repair_held.book,
    "leaked_image": repair_held.delete_image,
    "leaked_lock": repair_guests.unlock,
    "columns_differ": repair_guests.write_columns,
    "stray_standing": repair_guests.stand_alone,
}
