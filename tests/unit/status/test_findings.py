"""Findings: which processes, runs and certificates are named, and how severe that is."""

import pytest
from msgspec.structs import replace

from tests.contracts.runs import a_run
from tests.unit.scheduling.capacity import host
from whimbrel.domain.release import Knowledge
from whimbrel.ports.stores.journal import LastProof, Tally
from whimbrel.ports.stores.processes import ProcessRecord
from whimbrel.saga.engine import DEBTS
from whimbrel.status import findings
from whimbrel.status.findings import Certificate

NOW = 1_000_000.0
LIVE = ProcessRecord(
    id="1",
    role="conductor",
    name="c1",
    host="m1",
    pid=7,
    directory="",
    lock="",
    release="0.2.0",
    seen_at=NOW - 5,
    lease_until=NOW + 20,
)
DEAD = replace(LIVE, id="2", name="c2", lease_until=NOW - 1)


def test_a_process_that_died_is_named_unless_another_has_its_place() -> None:
    [found] = findings.of_processes([LIVE, DEAD], NOW)
    assert (found.severity, found.subject, found.since) == ("warning", "c2", NOW - 5)
    restarted = replace(DEAD, id="3", lease_until=NOW + 20)
    assert list(findings.of_processes([LIVE, DEAD, restarted], NOW)) == []


def test_a_cloud_without_a_live_conductor_is_an_error() -> None:
    api = replace(LIVE, role="api")
    found = list(findings.of_processes([api, replace(DEAD, role="conductor")], NOW))
    assert [(each.severity, each.subject) for each in found] == [("error", "conductor"), ("warning", "c2")]
    assert list(findings.of_processes([replace(LIVE, role="up")], NOW)) == []
    [found] = findings.of_processes([replace(LIVE, role="up", knows=Knowledge(conducts=False))], NOW)
    assert found.subject == "conductor"


def test_several_releases_beside_each_other_are_a_warning() -> None:
    [found] = findings.of_processes([LIVE, replace(LIVE, id="4", name="c3", release="0.3.0")], NOW)
    assert "0.2.0 and 0.3.0" in found.text


def test_a_host_without_a_heartbeat_is_an_error_and_a_disabled_one_is_none() -> None:
    up = host("n1", seen_at=NOW, enabled=False)
    down, forced = replace(up, name="n2", seen_at=NOW - 100), replace(up, name="n3", forced_down=True)
    found = [(each.severity, each.subject, each.since) for each in findings.of_hosts([forced, up, down], NOW)]
    assert found == [("error", "n2", NOW - 100), ("warning", "n3", None)]


def test_a_run_says_where_it_stands_why_and_what_it_owes() -> None:
    failing = replace(a_run("a"), at="bind_target", tries=3, message="no answer", way="back", debts=("prepare",))
    [found] = findings.of_runs([failing])
    assert found.severity == "warning"
    assert "stands at bind_target on its way back: no answer; it still has to undo prepare" in found.text
    [owing] = findings.of_runs([replace(failing, at=DEBTS, message="undo of prepare: no answer")])
    assert "waits to be undone: undo of prepare: no answer" in owing.text
    trace = "Traceback (most recent call last):\n  File ..., line 3, in bind\nKeyError: 'x'\n"
    [bug] = findings.of_runs([replace(failing, problem=trace)])
    assert bug.severity == "error"
    assert "stopped by a bug: KeyError: 'x'; it still has to undo prepare" in bug.text
    assert "\n" not in bug.text


def test_the_last_proof_counts_in_the_singular_and_in_the_plural() -> None:
    def said(violations: int, unseen: int) -> list[str]:
        proof = LastProof(at=NOW, violations=violations, unseen=unseen)
        tally = Tally(open=[], debts={}, debts_since=None, ended={}, takeovers=0, proof=proof)
        return [each.text for each in findings.of_proof(tally, NOW, NOW)]

    assert said(1, 1) == [
        "the last proof found 1 violation",
        "the last proof did not see everything: 1 of its hosts and cells did not answer",
    ]
    assert said(2, 3) == [
        "the last proof found 2 violations",
        "the last proof did not see everything: 3 of its hosts and cells did not answer",
    ]


def test_a_step_that_lasts_as_long_as_a_guest_needs_is_named_only_if_it_fails() -> None:
    copying = replace(a_run("a"), at="transfer", tries=0, problem=None)
    assert list(findings.of_runs([copying])) == []
    assert len(list(findings.of_runs([replace(copying, tries=1)]))) == 1


@pytest.mark.parametrize(("days", "severities"), [(40, []), (29, ["warning"]), (-1, ["error"])])
def test_certificates_are_named_before_they_expire(days: int, severities: list[str]) -> None:
    certificate = Certificate(file="api.crt", name="CN=api", expires_at=NOW + days * 86400)
    assert [found.severity for found in findings.of_certificates([certificate], NOW)] == severities
