"""I3: what Placement holds for servers and moves is what they own. I4: nobody else holds anything."""

from collections.abc import Iterator
from typing import Any

from whimbrel.domain.ids import HostName
from whimbrel.moves.facts import MoveFacts
from whimbrel.proof.due_allocations import NOTHING, Claims, Due, Roots, due
from whimbrel.proof.evidence import Ground, Stake, shown
from whimbrel.proof.violation import Violation

CHANGE_CLAIMS = ("delete", "attach_interface", "detach_interface", "heal_ports", "repair")
"""Errands that change what their server holds: it may be as before or as after."""


def count(stake: Stake) -> int:
    return len(stake.own) + sum(len(held) for held in stake.of_runs.values()) + stake.is_alive


def as_owned(stake: Stake, ground: Ground) -> Iterator[Violation]:
    if stake.runs:  # where nothing is done the laws of guests and of claims say it, each for its part
        yield from guests_are_claimed(stake, ground)
    yield from owned(stake, ground)


def owned(stake: Stake, ground: Ground) -> Iterator[Violation]:
    if stake.is_alive and not owns_what_it_should(stake, ground):
        yield _wrong(stake, ground)


def of_somebody(stake: Stake, ground: Ground) -> Iterator[Violation]:
    if stake.is_nobody and stake.own and stake.is_consumer:
        held = ground.in_words(stake.own)
        yield Violation(law="I4", kind="leaked_claim", subject=stake.id, evidence={"held": held},
                        sentence=f"{stake.id} holds {'; '.join(held)}, and is neither a server nor a move that is"
                        " under way")  # fmt: skip


def under_its_name(stake: Stake, ground: Ground) -> Iterator[Violation]:
    """See that Placement knows who holds it, and for which project: without that no move gets it back."""
    held, record = ground.in_words(stake.own), stake.record
    if not stake.is_consumer and stake.own:
        sentence = f"{stake.id} holds {'; '.join(held)}, and Placement does not know who it is"
        yield Violation(law="I3", kind="no_consumer", subject=stake.id, evidence={"held": held}, sentence=sentence)
    elif stake.owner and stake.own and record and stake.is_still and stake.owner.project != record.project_id:
        project = stake.owner.project
        sentence = f"what server {stake.id} holds is of project {project}, and its record says {record.project_id}"
        yield Violation(
            law="I3", kind="wrong_owner", subject=stake.id, evidence={"project": project}, sentence=sentence
        )


def owns_what_it_should(stake: Stake, ground: Ground) -> bool:
    """Tell whether a server that is there and what is under way with it hold what they may hold now."""
    move, record = stake.move, stake.record
    moves = [part for held in stake.of_runs.values() for part in held]
    if move is None:
        if any(run.saga in CHANGE_CLAIMS for run in stake.runs) or record is None:
            return True
        if moves:
            return False
        if record.host is None:
            return not stake.own
        return record.host not in ground.hosts or due_of(stake, ground).is_held(stake.own, ground.roots)
    facts = move.facts
    if facts.source and facts.target is None:  # it has not looked at the ports yet
        if record is None or any(run.saga in CHANGE_CLAIMS for run in stake.runs):
            return True
        return due_of(stake, ground).is_held(stake.own, ground.roots) and not moves
    if any(run.saga in CHANGE_CLAIMS for run in stake.runs):
        return True
    if stake.waiting and not (stake.own and moves):
        return False
    return is_legal(facts, stake.own, moves, ground.roots)


def is_legal(facts: MoveFacts, own: Claims, moves: Claims, roots: Roots) -> bool:
    """Tell whether a move that has chosen, and its server, hold what they may at some step of it."""
    source = NOTHING
    if facts.source and facts.old_flavor:
        flavor, properties, root = facts.old_flavor, facts.image_properties, facts.source.provider
        source = due(flavor, properties, root, facts.ports, roots, has_local_root=facts.has_local_root)
    target: Claims = sorted(facts.target.parts.items()) if facts.target else []
    if sorted(own) == target and (not moves or source.is_held(moves, roots)):
        return True
    return source.is_held(moves or own, roots) and not (own and moves)


def due_of(stake: Stake, ground: Ground, host: HostName | None = None) -> Due:
    """Give what a server is to hold, with its ports. host: where it is, if not where its record says."""
    record = stake.record
    assert record, "it is asked of servers that have a record"
    flavor, properties, root = record.flavor, record.image_properties, ground.root(host or record.host)
    return due(flavor, properties, root, stake.named_ports, ground.roots, has_local_root=record.has_local_root)


def guests_are_claimed(stake: Stake, ground: Ground) -> Iterator[Violation]:
    """Say where there is anything of a guest, and neither its server nor its move has a claim."""
    held = [*stake.own, *(part for claims in stake.of_runs.values() for part in claims)]
    trees = {ground.roots.get(provider) for provider, _ in held}
    for host, guest in stake.guests:
        if ground.root(host) not in trees:
            sentence = f"a guest of server {stake.id} is on {host}, where nothing is claimed for it"
            yield Violation(law="I3", kind="unclaimed_guest", subject=stake.id, about=f"{host}/{guest.key.slot}",
                            host=host, sentence=sentence,
                            evidence={"guest": shown((host, guest)), "held": ground.in_words(held)})  # fmt: skip


def _wrong(stake: Stake, ground: Ground) -> Violation:
    evidence: dict[str, Any] = {"held": ground.in_words(stake.own)}
    if stake.of_runs:
        evidence["held_by_runs"] = {run: ground.in_words(held) for run, held in stake.of_runs.items()}
    if stake.move is None:
        return _settled(stake, ground, evidence)
    held = "; ".join(evidence["held"]) or "nothing"
    moves = "; ".join(part for parts in evidence.get("held_by_runs", {}).values() for part in parts) or "nothing"
    sentence = f"server {stake.id} holds {held}, and what is under way with it {moves}, which fits no step of it"
    evidence["run"] = {"id": stake.move.id, "saga": stake.move.saga, "at": stake.move.at, "way": stake.move.way}
    return Violation(law="I3", kind="wrong_claim_of_move", subject=stake.id, sentence=sentence, evidence=evidence)


def _settled(stake: Stake, ground: Ground, evidence: dict[str, Any]) -> Violation:
    record = stake.record
    assert record
    wanted = due_of(stake, ground).either[0] if record.host else []
    evidence["due"] = ground.in_words(wanted)
    held, due_words = "; ".join(evidence["held"]) or "nothing", "; ".join(evidence["due"]) or "nothing"
    kind = "missing_claim" if not stake.own else "wrong_claim"
    return Violation(law="I3", kind=kind, subject=stake.id, host=record.host, evidence=evidence,
                     sentence=f"server {stake.id} holds {held}, and should hold {due_words}")  # fmt: skip
