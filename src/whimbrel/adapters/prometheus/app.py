"""The application that Prometheus scrapes, and the request counter of a process."""

import hmac
from time import perf_counter

from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whimbrel.adapters.prometheus.cloud_metrics import Readings
from whimbrel.adapters.prometheus.doctor_metrics import DoctorFigures
from whimbrel.adapters.prometheus.process_metrics import Figures
from whimbrel.ports.meter import ROUTE

UNKNOWN = "none"
"""The label of a request without a known service or route: paths chosen by clients are not used as labels."""
UNAUTHORIZED = (
    "Metrics need the bearer token in metrics.secret of the cloud's data directory (a file of --metrics-secret for"
    " whimbrel placement): give it to Prometheus as authorization: {credentials_file: FILE}.\n"
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def metrics_app(figures: Figures | DoctorFigures, readings: Readings | None, secret: str | None) -> ASGIApp:
    """Return the application that Prometheus scrapes.

    readings: only in the process that reads the state of the cloud. secret: the bearer token; "" matches nothing; None:
    no token is required.
    """
    expected = None if secret is None else f"Bearer {secret}".encode()
    if readings:
        figures.registry.register(readings)

    async def show(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if not _may_ask(request, expected):
            response: Response = PlainTextResponse(UNAUTHORIZED, 401, {"WWW-Authenticate": "Bearer"})
        elif request.method not in ("GET", "HEAD"):
            response = PlainTextResponse("Method Not Allowed", 405, {"Allow": "GET, HEAD"})
        else:
            if readings:
                await readings.refresh()
            encode, content_type = choose_encoder(request.headers.get("accept", ""))
            response = Response(encode(figures.registry), headers={"content-type": content_type})
        await response(scope, receive, send)

    return show


def _may_ask(request: Request, expected: bytes | None) -> bool:
    given = request.headers.get("authorization", "").encode()
    return expected is None or (len(expected) > len(b"Bearer ") and hmac.compare_digest(given, expected))


class Counted:
    """An application that counts and times its requests."""

    def __init__(self, app: ASGIApp, figures: Figures, services: frozenset[str], alone: str | None = None) -> None:
        """services: first path segments. alone: the only service of a process, whose paths have no such segment."""
        self._app = app
        self._figures = figures
        self._services = services
        self._alone = alone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        noted: dict[str, str] = {}
        code = 500  # if the application fails

        async def note(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        began = perf_counter()
        try:
            await self._app({**scope, ROUTE: noted}, receive, note)
        finally:
            method = scope["method"] if scope["method"] in METHODS else UNKNOWN
            took_s = perf_counter() - began
            self._figures.answered(self._service(scope["path"]), method, noted.get("route", UNKNOWN), code, took_s)
        return None

    def _service(self, path: str) -> str:
        if self._alone:
            return self._alone
        first = path.split("/", 2)[1] if path.startswith("/") else ""
        return first if first in self._services else UNKNOWN
