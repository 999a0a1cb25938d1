"""Metrics of `whimbrel doctor --watch`: what its last look found.

Invariant: after a look that failed, the values of the one before are not shown.
"""

from collections import Counter as Tally
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector

from whimbrel.doctor.diagnosis import Diagnosis
from whimbrel.doctor.doctor_finding import TITLES


class DoctorFigures:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._findings = Gauge(
            "whimbrel_doctor_findings", "What the last look found, by kind.", ("kind",), registry=registry
        )
        self._counts = {
            name: Gauge(f"whimbrel_doctor_{name}", text, registry=registry)
            for name, text in (
                ("servers", "Servers that the last look saw."),
                ("in_flight", "Operations in flight in the last look."),
                ("not_confirmed", "Suspicions of the last look that did not last."),
            )
        }
        self._took = Gauge("whimbrel_doctor_look_duration_seconds", "How long the last look took.", registry=registry)
        self._at = Gauge(
            "whimbrel_doctor_last_look_timestamp_seconds", "When the last complete look ended.", registry=registry
        )
        self._looks = Counter(
            "whimbrel_doctor_looks", "Looks, by outcome: complete or failed.", ("outcome",), registry=registry
        )
        for outcome in ("complete", "failed"):
            self._looks.labels(outcome)

    def looked(self, found: Diagnosis, at: float, took_s: float) -> None:
        tally = Tally(each.kind for each in found.findings)
        for kind in TITLES:
            self._findings.labels(kind).set(tally[kind])
        for name, value in _counts(found):
            self._counts[name].set(value)
        self._took.set(took_s)
        self._at.set(at)
        self._looks.labels("complete").inc()

    def failed(self) -> None:
        self._findings.clear()
        for each in self._counts.values():
            each.set(float("nan"))
        self._looks.labels("failed").inc()


def _counts(found: Diagnosis) -> Iterable[tuple[str, int]]:
    return ("servers", found.servers), ("in_flight", len(found.in_flight)), ("not_confirmed", found.passed)
