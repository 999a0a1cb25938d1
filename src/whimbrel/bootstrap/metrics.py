"""Metrics of a process: requests, work, the state of its cloud, and an endpoint for Prometheus."""

from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from whimbrel.adapters.prometheus.app import Counted, metrics_app
from whimbrel.adapters.prometheus.cloud_metrics import Readings
from whimbrel.adapters.prometheus.process_metrics import CHOICE, Figures
from whimbrel.ports.cloud import Cloud
from whimbrel.saga.engine import Engine

METRICS = "metrics"
"""The path of the endpoint."""


class Watch:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._figures = Figures()
        self._readings: Readings | None = None

    def work(self, cloud: Cloud, engine: Engine) -> None:
        """Measure the work of a process for a cloud, and the cloud's state."""
        cloud.meter.listen(self._figures)
        self._figures.await_choices(
            saga.name for saga in engine.registry if CHOICE in (step.name for step in saga.steps)
        )
        self._readings = Readings(cloud)

    def endpoint(self, secret: str | None) -> ASGIApp:
        """Return the application at /metrics. secret: the bearer token of clients; None: public."""
        return metrics_app(self._figures, self._readings, secret)

    def count(self, app: ASGIApp, services: Mapping[str, ASGIApp]) -> ASGIApp:
        """Count the requests to these services; the application has a path for each."""
        return Counted(app, self._figures, frozenset(services))

    def count_one(self, app: ASGIApp, service: str) -> ASGIApp:
        """Count the requests to the application of one service."""
        return Counted(app, self._figures, frozenset(), alone=service)

    def beside(self, app: ASGIApp, secret: str | None) -> ASGIApp:
        """Mount the endpoint beside an application that has all other paths, including the root."""
        endpoint = self.endpoint(secret)

        async def either(scope: Scope, receive: Receive, send: Send) -> None:
            await (endpoint if scope.get("path") == f"/{METRICS}" else app)(scope, receive, send)

        return either
