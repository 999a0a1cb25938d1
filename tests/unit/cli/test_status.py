"""The status of a cloud on a terminal."""

from msgspec.structs import replace

from tests.unit.cli.test_heal import lines
from whimbrel.api.views.status import Certificate, Finding, HostCounts, LastProof, Status
from whimbrel.cli import status

FINE = Status(
    ok=True,
    at=1000.0,
    findings=[],
    processes={"api": 2, "conductor": 1},
    hosts={"one": HostCounts(up=3), "two": None},
    runs_open=1,
    runs_parked=2,
)


def test_a_cloud_that_is_fine_says_so() -> None:
    assert lines(status.shown(FINE)) == [
        "nothing is wrong",
        "processes     2 api, 1 conductor",
        "hosts of one  3 up",
        "hosts of two  unknown",
        "databases     global, 1 cell; no answer: two",
        "runs          1 open, 2 waiting for a verdict",
        "last proof    none yet: whimbrel prove",
    ]


def test_what_a_newer_cloud_says_of_services_bus_debts_and_certificates_has_lines() -> None:
    certificates = [Certificate(file="/c", name="api", expires_at=1000.0 + 20.5 * 86400)]
    services = {"placement": True, "volume": False}
    debts = {"carry_disk": 2, "lock": 1}
    said = lines(status.shown(replace(FINE, services=services, bus="", debts=debts, certificates=certificates)))
    assert "services      placement, volume (no answer)" in said
    assert "bus           connected" in said
    assert "runs          1 open, 2 waiting for a verdict, 3 undos outstanding" in said
    assert "certificates  1; api expires in 20 days" in said


def test_a_finding_says_for_how_long_and_what_to_do() -> None:
    down = Finding(severity="error", kind="host", subject="n1", text="host n1 is down", command="whimbrel x", since=0.0)
    later = Finding(severity="warning", kind="proof", subject="proof", text="never checked", command="whimbrel prove")
    proof = LastProof(at=0.0, violations=1, unseen=0)
    shown = lines(status.shown(replace(FINE, findings=[down, later], proof=proof)))
    assert shown[0] == "1 error, 1 warning"
    assert "last proof    1970-01-01 00:00:00, 1 violation" in shown
    assert shown[-5:] == [
        "ERROR    host n1 is down (for 16 minutes)",
        "         whimbrel x",
        "",
        "WARNING  never checked",
        "         whimbrel prove",
    ]
