"""Who holds something has a name: SQL with foreign keys sees to it, and a hand without them is seen."""

from whimbrel.domain.ids import ProjectId, ServerId, UserId
from whimbrel.ports.placement.placement import Owner
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.invariants.allocations import has_an_owner, names_its_owner

SNAPSHOT = CloudSnapshot(hosts={}, roots={"p": "p"}, names={"p": "h1"})


def kinds(seen: ServerEvidence) -> list[str]:
    return [one.kind for invariant in (names_its_owner, has_an_owner) for one in invariant(seen, SNAPSHOT)]


def test_a_claim_without_a_consumer_is_named_once() -> None:
    held = ServerEvidence(id=ServerId("x"), own=[("p", {"VCPU": 1})], is_consumer=False)
    assert kinds(held) == ["no_consumer"]


def test_a_claim_of_a_consumer_that_is_nobody_is_a_leak() -> None:
    owner = Owner(ProjectId("a"), UserId("b"))
    assert kinds(ServerEvidence(id=ServerId("x"), own=[("p", {"VCPU": 1})], owner=owner)) == ["leaked_claim"]


def test_who_holds_nothing_needs_no_name() -> None:
    assert not kinds(ServerEvidence(id=ServerId("x"), is_consumer=False))
