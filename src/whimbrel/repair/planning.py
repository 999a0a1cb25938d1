"""The actions for each kind of violation, in one table, and the plan made with it.

Invariant: what cannot be decided is left, with a sentence that says what a person can do.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from whimbrel.ports.stores.restores import RESTORING_SAGAS
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Kind, Violation
from whimbrel.repair import (
    actions,
    advice,
    directory_entry,
    guards,
    guests,
    locks,
    lost_merges,
    owners,
    record_steps,
    steps,
    unended_swaps,
    unreported_snapshots,
)
from whimbrel.repair import allocations as held
from whimbrel.repair.actions import RepairAction
from whimbrel.repair.facts import changes_cell, does
from whimbrel.saga.step import Do, Step
from whimbrel.servers.allocations.allocation_repair import changes_claim, claim_due

Guard = Callable[[ServerEvidence, CloudSnapshot, Violation], str | None]
Propose = Callable[[ServerEvidence, CloudSnapshot, Violation], Sequence[RepairAction]]


class Row(NamedTuple):
    """guard: returns why the action is refused, or None. propose: returns the actions; () if others suffice."""

    action: type[RepairAction]
    do: Do | Step | None = None
    guard: Guard | None = None
    propose: Propose | None = None
    violations: tuple[Kind, ...] = ()

    @property
    def step(self) -> Step | None:
        return Step(self.do, only_if=does(self.action)) if callable(self.do) else self.do


def _ends_with_others(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Sequence[RepairAction]:
    """Propose nothing: each orphan guest is a violation by itself."""
    return ()


TABLE = (  # action, step, guard, proposal, violations
    # Locking and unlocking the server do these.
    Row(actions.Unlock, None, None, guests.unlock, (Kind.LEAKED_LOCK,)),
    Row(actions.GiveLock, None, locks.lock_refusal, locks.give_lock, (Kind.LOST_LOCK,)),
    Row(actions.WriteColumns, None, guests.columns_refusal, guests.write_columns, (Kind.COLUMNS_DIFFER,)),
    # For a record or entry that is older than the hosts: see decision. Later steps read the record.
    Row(actions.EraseEntry, directory_entry.erase_entry),
    Row(actions.SettleRecord, record_steps.settle_record),
    Row(actions.SettleRecord, record_steps.enter_cell),
    Row(actions.SettleRecord, Step(record_steps.erase_left, only_if=changes_cell)),
    # Each is correct by itself: a refusal leaves the rest unchanged. Claims need a known owner.
    Row(actions.RecordProject, steps.record_project),  # proposed by write_columns, as is EnterProject
    Row(actions.NameOwner, steps.name_owner, owners.owner_refusal, owners.name_owner,
        (Kind.WRONG_OWNER, Kind.NO_CONSUMER)),
    Row(actions.ClaimDue, Step(claim_due, undo=steps.claim_back, only_if=changes_claim),
        held.claim_refusal, held.claim_due, (Kind.MISSING_CLAIM, Kind.WRONG_CLAIM)),
    Row(actions.AdoptRecord, steps.adopt_record, guests.enter_refusal, guests.adopt_record, (Kind.NO_ENTRY,)),
    Row(actions.EraseCopy, steps.erase_copies, guests.erase_refusal, guests.erase_copy, (Kind.ORPHAN_RECORD,)),
    Row(actions.StandAlone, steps.stand_alone, None, guests.stand_alone, (Kind.ORPHAN_COPY,)),
    Row(actions.AdoptGuest, steps.adopt_guest, guests.adopt_refusal, guests.adopt_guest, (Kind.MISSING_GUEST,)),
    Row(actions.DestroyGuest, steps.destroy_guests, guests.destroy_refusal, guests.destroy_guest, (Kind.ORPHAN_GUEST,)),
    Row(actions.DestroyGuest, None, None, _ends_with_others, (Kind.RUNS_TWICE,)),
    Row(actions.BindPort, steps.bind_ports, held.bind_refusal, held.bind_port,
        (Kind.UNBOUND_PORT, Kind.PORT_ELSEWHERE)),
    Row(actions.DeleteBinding, steps.let_go_bindings, None, held.delete_binding, (Kind.ORPHAN_BINDING,)),
    Row(actions.ReleasePort, steps.let_go_ports, held.port_refusal, held.release_port,
        (Kind.ORPHAN_PORT, Kind.PORT_OF_NOBODY)),
    Row(actions.EndSwap, unended_swaps.end_swaps, unended_swaps.refusal, unended_swaps.end_swap, (Kind.UNENDED_SWAP,)),
    Row(actions.ReportSnapshot, unreported_snapshots.report_snapshots, unreported_snapshots.refusal,
        unreported_snapshots.report_snapshot, (Kind.UNREPORTED_SNAPSHOT,)),
    Row(actions.EndMerge, lost_merges.end_merges, None, lost_merges.end_merge, (Kind.LOST_MERGE,)),
    Row(actions.DetachVolume, steps.detach_volumes, held.detach_refusal, held.detach_volume,
        (Kind.ORPHAN_ATTACHMENT, Kind.ATTACHMENT_OF_NOBODY)),
    Row(actions.ReleaseDevices, steps.release_devices, held.devices_refusal, held.release_devices,
        (Kind.LEAKED_DEVICE,)),
    Row(actions.ReleaseClaim, steps.release_claim, held.release_refusal, held.release_claim, (Kind.LEAKED_CLAIM,)),
    Row(actions.Recount, steps.recount, None, held.recount, (Kind.MISCOUNTED,)),
    Row(actions.TellZone, steps.tell_zone, None, held.tell_zone, (Kind.ZONE_MISTOLD,)),
    Row(actions.EnterProject, steps.enter_project),
    Row(actions.CorrectQuota, steps.book, None, held.book, (Kind.WRONG_USAGE,)),
    Row(actions.DeleteImage, steps.delete_images, None, held.delete_image, (Kind.LEAKED_IMAGE,)),
)  # fmt: skip
"""Rows with a step are the steps of the saga, in this order: a new one needs a new version of it."""

_OF_GUESTS = (Kind.GUEST_DIFFERS, Kind.MISSING_GUEST, Kind.ORPHAN_GUEST)
"""Violations that a person resolves who chooses between two whole guests."""

_ROW_OF = {kind: row for row in TABLE for kind in row.violations}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """left: violations without an action, in sentences with the reason and what a person can do."""

    actions: tuple[RepairAction, ...] = ()
    left: tuple[str, ...] = ()


def plan(
    seen: ServerEvidence, snapshot: CloudSnapshot, violations: Sequence[Violation], no_claim: str | None = None
) -> Plan:
    """Plan the repair of these violations of one subject. no_claim: why the due claim cannot be made."""
    planned: list[RepairAction] = []
    left: list[str] = []
    for violation in violations:
        refusal = _refusal(seen, snapshot, violation)
        proposed = () if refusal else _proposed(seen, snapshot, violation)
        if no_claim and any(isinstance(action, actions.ClaimDue) for action in proposed):
            refusal, proposed = no_claim, ()
        if refusal:
            left.append(f"{violation.sentence}: {refusal}")
        planned += [action for action in proposed if action not in planned]
    return Plan(actions=tuple(planned), left=tuple(left))


def _refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    """Return why a violation has no action. While a move waits for its verdict only its lock is repaired."""
    row = _ROW_OF.get(violation.kind)
    if seen.runs and violation.kind is not Kind.LOST_LOCK:
        return _later(seen, snapshot, violation)
    if not seen.runs and (words := guards.undecided(seen, snapshot)):
        return words
    if violation.kind in _OF_GUESTS and not guards.stands_as_recorded(seen) and (words := guards.choice(seen)):
        return words
    if row is None:
        return advice.left(violation)
    return row.guard(seen, snapshot, violation) if row.guard else None


def _proposed(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Sequence[RepairAction]:
    propose = _ROW_OF[violation.kind].propose
    assert propose, "each violation of the table has a proposal"
    return propose(seen, snapshot, violation)


def _later(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str:
    """Return what to do about a violation that may be an effect of an open run."""
    run = seen.runs[0]
    held = [each for each in seen.runs if snapshot.is_held and each.saga not in RESTORING_SAGAS]
    if held:
        return (
            f"{held[0].saga} {held[0].id} of it is held. If whimbrel restore show says that every run agrees, and"
            " nothing else is left: whimbrel restore end --force, and whimbrel repair when it has ended"
        )
    if [each.state for each in seen.runs] == ["parked"]:
        return advice.before_verdict(run, violation)
    return f"{run.saga} {run.id} is in progress: prove again when it has ended"
