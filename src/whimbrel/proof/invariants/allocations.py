"""I3: servers and moves hold exactly the claims that they own. I4: there are no other claims."""

from collections.abc import Iterator
from typing import Any

from whimbrel.domain.ids import HostName
from whimbrel.moves.facts import MoveFacts
from whimbrel.proof.due_allocations import NOTHING, Claims, Due, Roots, due
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence, shown
from whimbrel.proof.violation import Kind, Violation

CHANGE_CLAIMS = ("delete", "attach_interface", "detach_interface", "heal_ports", "repair", "shelve", "shelve_offload")
"""Operations that change the claims of their server: these may be as before or as after."""


def count(seen: ServerEvidence) -> int:
    return len(seen.own) + sum(len(held) for held in seen.of_runs.values()) + seen.is_alive


def as_owned(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    if seen.runs:  # without runs, the invariants of guests and of claims report each its part
        yield from guests_are_claimed(seen, snapshot)
    yield from owned(seen, snapshot)


def owned(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    if seen.is_alive and not has_due_claims(seen, snapshot):
        yield _wrong(seen, snapshot)


def has_an_owner(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    if seen.is_unknown and seen.own and seen.is_consumer:
        held = snapshot.in_words(seen.own)
        yield Violation(invariant="I4", kind=Kind.LEAKED_CLAIM, subject=seen.id, evidence={"held": held},
                        sentence=f"{seen.id} holds {'; '.join(held)}, and is neither a server nor an open"
                        " move")  # fmt: skip


def names_its_owner(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    """Check that Placement has the consumer and its project: without a consumer row, no move can restore the claim."""
    held, record = snapshot.in_words(seen.own), seen.record
    if not seen.is_consumer and seen.own:
        sentence = f"{seen.id} holds {'; '.join(held)}, and Placement has no consumer of this id"
        yield Violation(
            invariant="I3", kind=Kind.NO_CONSUMER, subject=seen.id, evidence={"held": held}, sentence=sentence
        )
    elif seen.owner and seen.own and record and seen.is_still and seen.owner.project != record.project_id:
        project = seen.owner.project
        sentence = f"the claims of server {seen.id} are of project {project}, and its record says {record.project_id}"
        yield Violation(
            invariant="I3", kind=Kind.WRONG_OWNER, subject=seen.id, evidence={"project": project}, sentence=sentence
        )


def has_due_claims(seen: ServerEvidence, snapshot: CloudSnapshot) -> bool:
    """Check whether an existing server and its open runs hold claims that are valid now."""
    move, record = seen.move, seen.record
    moves = [part for held in seen.of_runs.values() for part in held]
    if move is None:
        if any(run.saga in CHANGE_CLAIMS for run in seen.runs) or record is None:
            return True
        if moves:
            return False
        if record.host is None:
            return not seen.own
        return record.host not in snapshot.hosts or due_of(seen, snapshot).is_held(seen.own, snapshot.roots)
    facts = move.facts
    if facts.source and facts.target is None:  # it has not read the ports yet
        if record is None or any(run.saga in CHANGE_CLAIMS for run in seen.runs):
            return True
        return due_of(seen, snapshot).is_held(seen.own, snapshot.roots) and not moves
    if any(run.saga in CHANGE_CLAIMS for run in seen.runs):
        return True
    if seen.waiting and not (seen.own and moves):
        return False
    return is_legal(facts, seen.own, moves, snapshot.roots)


def is_legal(facts: MoveFacts, own: Claims, moves: Claims, roots: Roots) -> bool:
    """Check whether the claims of a server and of its move, which has chosen a target, are valid at some step of it."""
    source = NOTHING
    if facts.source and facts.old_flavor:
        flavor, properties, root = facts.old_flavor, facts.image_properties, facts.source.provider
        source = due(flavor, properties, root, facts.ports, roots, has_local_root=facts.has_local_root)
    target: Claims = sorted(facts.target.parts.items()) if facts.target else []
    if sorted(own) == target and (not moves or source.is_held(moves, roots)):
        return True
    return source.is_held(moves or own, roots) and not (own and moves)


def due_of(seen: ServerEvidence, snapshot: CloudSnapshot, host: HostName | None = None) -> Due:
    """Return the due claims of a server, with its ports. host: where it is, if not where its record says."""
    record = seen.record
    assert record, "only servers with a record have due claims"
    flavor, properties, root = record.flavor, record.image_properties, snapshot.root(host or record.host)
    return due(flavor, properties, root, seen.named_ports, snapshot.roots, has_local_root=record.has_local_root)


def guests_are_claimed(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    """Report guests on hosts where neither the server nor its move has a claim."""
    held = [*seen.own, *(part for claims in seen.of_runs.values() for part in claims)]
    trees = {snapshot.roots.get(provider) for provider, _ in held}
    for host, guest in seen.guests:
        if snapshot.root(host) not in trees and not seen.is_left_behind(host, guest):
            sentence = f"a guest of server {seen.id} is on {host}, where nothing is claimed for it"
            yield Violation(invariant="I3", kind=Kind.UNCLAIMED_GUEST, subject=seen.id,
                            about=f"{host}/{guest.key.slot}",
                            host=host, sentence=sentence,
                            evidence={"guest": shown((host, guest)), "held": snapshot.in_words(held)})  # fmt: skip


def _wrong(seen: ServerEvidence, snapshot: CloudSnapshot) -> Violation:
    evidence: dict[str, Any] = {"held": snapshot.in_words(seen.own)}
    if seen.of_runs:
        evidence["held_by_runs"] = {run: snapshot.in_words(held) for run, held in seen.of_runs.items()}
    if seen.move is None:
        return _settled(seen, snapshot, evidence)
    held = "; ".join(evidence["held"]) or "nothing"
    moves = "; ".join(part for parts in evidence.get("held_by_runs", {}).values() for part in parts) or "nothing"
    sentence = f"server {seen.id} holds {held}, and its open move {moves}, which fits no step of the move"
    evidence["run"] = {"id": seen.move.id, "saga": seen.move.saga, "at": seen.move.at, "way": seen.move.way}
    return Violation(
        invariant="I3", kind=Kind.WRONG_CLAIM_OF_MOVE, subject=seen.id, sentence=sentence, evidence=evidence
    )


def _settled(seen: ServerEvidence, snapshot: CloudSnapshot, evidence: dict[str, Any]) -> Violation:
    record = seen.record
    assert record
    wanted = due_of(seen, snapshot).either[0] if record.host else []
    evidence["due"] = snapshot.in_words(wanted)
    held, due_words = "; ".join(evidence["held"]) or "nothing", "; ".join(evidence["due"]) or "nothing"
    kind = Kind.MISSING_CLAIM if not seen.own else Kind.WRONG_CLAIM
    return Violation(invariant="I3", kind=kind, subject=seen.id, host=record.host, evidence=evidence,
                     sentence=f"server {seen.id} holds {held}, and should hold {due_words}")  # fmt: skip
