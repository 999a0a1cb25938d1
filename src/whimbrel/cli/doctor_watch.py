"""`whimbrel doctor --watch`: look again and again, and export what was found to Prometheus."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

import structlog

from whimbrel.cli import SAYS_NO
from whimbrel.doctor.diagnosis import Diagnosis
from whimbrel.domain.errors import Refused, Unavailable

if TYPE_CHECKING:
    from whimbrel.adapters.prometheus.doctor_metrics import DoctorFigures

log = structlog.get_logger(__name__)

Looked = tuple[Diagnosis, Sequence[str]]


def watch(
    look: Callable[[], Looked],
    show: Callable[[Diagnosis, Sequence[str]], None],
    every_s: float,
    endpoint: tuple[str, int] | None,
    wait: Callable[[float], object],
    figures: "DoctorFigures",
) -> int:
    """Look, wait, and repeat until KeyboardInterrupt. Return the exit code of the last look that was complete.

    endpoint: address and port for Prometheus. A database that does not answer fails its look, not the program.
    """
    from whimbrel.adapters.clock import SystemClock

    now, result = SystemClock().now, 0
    try:
        with _exported(figures, endpoint):
            while True:
                began = now()
                try:
                    found, not_checked = look()
                except (Refused, Unavailable) as error:
                    log.error("the look failed", error=str(error))
                    figures.failed()
                else:
                    figures.looked(found, now(), now() - began)
                    show(found, not_checked)
                    result = SAYS_NO if found.findings else 0
                wait(every_s)
    except KeyboardInterrupt:
        return result


@contextmanager
def _exported(figures: "DoctorFigures", endpoint: tuple[str, int] | None) -> Iterator[None]:
    """Serve the figures at /metrics, in a thread. Raises: Refused; Invalid: the port."""
    if endpoint is None:
        yield
        return
    from whimbrel.adapters.prometheus.app import metrics_app
    from whimbrel.bootstrap import http_server

    app = http_server.front({"metrics": metrics_app(figures, None, None)})
    bound = http_server.listen(*endpoint, option="--metrics-port")
    loop, stop, ready = asyncio.new_event_loop(), asyncio.Event(), Event()
    serving = http_server.serve(app, bound, stop, ready.set)
    thread = Thread(target=loop.run_until_complete, args=(serving,), name="metrics", daemon=True)
    thread.start()
    ready.wait()
    log.info("metrics", at=f"{http_server.url_of(bound)}/metrics")
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
