"""Metrics that a process measures itself: requests, scheduling decisions, steps, and calls of placement."""

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from whimbrel.domain.run import LogEntry, Run

disable_created_metrics()  # type: ignore[no-untyped-call]  # else each counter adds a second series: its creation time

QUICK_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets of interactive operations."""
STEP_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)
"""Buckets of steps: most take a few milliseconds, some copy disks."""

PAUSE_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)
"""Buckets of the pauses of guests."""

CHOICE = "choose_target"
"""The step that selects a host."""


class Figures:
    """Implements ports.meter.Listener. One object, with a registry of its own, per process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        Info("whimbrel_build", "The version of Whimbrel.", registry=registry).info({"version": version("whimbrel")})

        def seconds(name: str, text: str, *labels: str, buckets: Sequence[float] = QUICK_S) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=registry)

        self._requests = Counter(
            "whimbrel_http_requests", "Requests answered.", ("service", "method", "route", "code"), registry=registry
        )
        self._request_s = seconds(
            "whimbrel_http_request_duration_seconds", "How long requests took.", "service", "method", "route"
        )
        self._decision_s = seconds(
            "whimbrel_scheduler_decision_duration_seconds",
            "How long choices among hosts took, of plans too; outcome: found or none.",
            "outcome",
        )
        self._placement_s = seconds(
            "whimbrel_placement_call_duration_seconds",
            "How long this process's own calls of placement took; those over HTTP are requests.",
            "call",
        )
        self._steps = Counter(
            "whimbrel_steps", "Steps taken or undone, by how it went.", ("kind", "step", "way", "outcome"),
            registry=registry,
        )  # fmt: skip
        self._step_s = seconds("whimbrel_step_duration_seconds", "How long steps took.", "step", "way", buckets=STEP_S)
        self._transfer_s = seconds(
            "whimbrel_live_transfer_duration_seconds",
            "How long the transfers of live migrations took, from their start to the arrival of the guest.",
            buckets=STEP_S,
        )
        self._pause_s = seconds(
            "whimbrel_live_transfer_pause_seconds",
            "For how long guests were paused at the switch-over, as their hypervisors measured it.",
            buckets=PAUSE_S,
        )
        self._consoles = Gauge(
            "whimbrel_console_sessions", "Connections to consoles through this process.", registry=registry
        )

        # `labels` costs as much as the rest of a count. The sets of labels are small, so what it returns is kept.
        self._requests_of = cache(self._requests.labels)
        self._request_s_of = cache(self._request_s.labels)
        self._placement_s_of = cache(self._placement_s.labels)
        self._steps_of = cache(self._steps.labels)
        self._step_s_of = cache(self._step_s.labels)

    def await_choices(self, kinds: Iterable[str]) -> None:
        """Initialize the counters of choices: Prometheus sees no increase in a series that starts at 1."""
        for kind in kinds:
            for outcome in ("done", "refused"):
                self._steps_of(kind, CHOICE, "do", outcome)

    def answered(self, service: str, method: str, route: str, code: int, took_s: float) -> None:
        self._requests_of(service, method, route, str(code)).inc()
        self._request_s_of(service, method, route).observe(took_s)

    def took_step(self, run: Run, entry: LogEntry) -> None:
        self._steps_of(run.saga, entry.step, entry.way, entry.outcome).inc()
        self._step_s_of(entry.step, entry.way).observe(max(entry.took_s, 0.0))

    def decided(self, took_s: float, found: bool) -> None:
        self._decision_s.labels("found" if found else "none").observe(max(took_s, 0.0))

    def asked_placement(self, call: str, took_s: float) -> None:
        self._placement_s_of(call).observe(took_s)

    def transferred(self, took_s: float, pause_s: float) -> None:
        self._transfer_s.observe(max(took_s, 0.0))
        self._pause_s.observe(max(pause_s, 0.0))

    def console_sessions(self, change: int) -> None:
        self._consoles.inc(change)
