"""How a command serves a process until it is stopped: its applications, its health, and its metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from whimbrel.bootstrap import http_server
from whimbrel.bootstrap.http_server.certificates import Certificates
from whimbrel.cli.service_command import keep_what_is_loaded, say
from whimbrel.domain.errors import WorldError
from whimbrel.settings import CloudConfig
from whimbrel.settings.datadir import DataDir
from whimbrel.settings.named_files import read_text
from whimbrel.settings.transport import check_listener

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

    from whimbrel.bootstrap.health import HealthAnswer
    from whimbrel.bootstrap.metrics import Watch
    from whimbrel.bootstrap.process import Process


class Served(Protocol):
    """A process with background work."""

    @property
    def health(self) -> "HealthAnswer": ...

    async def run(self) -> None: ...


@dataclass(frozen=True)
class Ports:
    """The ports of a process; they are bound before anything is opened."""

    config: CloudConfig
    main: "socket.socket"
    metrics: "socket.socket | None"  # None: metrics are at a path of the main port
    metadata: "socket.socket | None" = None  # of the metadata service; None: it is off

    @property
    def url(self) -> str:
        return http_server.url_of(self.main, self.config.tls)


def listen(host: str, port: int, config: CloudConfig, option: str = "--port") -> "socket.socket":
    """Bind the port of HTTP applications. option: that sets it, for errors.

    Raises: Refused; Invalid: secrets would arrive there without TLS.
    """
    check_listener(host, config.tls)
    if config.tls.is_on:
        Certificates(config.tls)  # refused now rather than when everything is open
    return http_server.listen(host, port, option)


def metrics_port(host: str, port: int | None, option: str) -> "socket.socket | None":
    """Bind the port for Prometheus, if one is configured. Raises: Refused."""
    return None if port is None else http_server.listen(host, port, option)


def metrics_secret(config: CloudConfig, home: DataDir | None) -> str | None:
    """Return the token that Prometheus sends; None: none is needed; "": all requests are refused. Raises: Invalid."""
    if config.metrics.open:
        return None
    if config.metrics.secret_file is None:
        return home.metrics_secret() if home else ""
    return read_text(Path(config.metrics.secret_file), "[metrics]: 'secret_file'").strip()


def metadata_port(config: CloudConfig) -> "socket.socket | None":
    """Bind the port of the metadata service, if it is on. Raises: Refused; Invalid."""
    table = config.metadata
    return listen(table.host, table.port, config, "port of [metadata]") if table.secret_file else None


async def serve(
    process: Served,
    services: "Mapping[str, ASGIApp]",
    ports: Ports,
    watch: "Watch | None",
    secret: str | None,
    stop: asyncio.Event,
    ready: Callable[[], None],
    metadata: "ASGIApp | None" = None,
) -> None:
    """Serve the applications by their paths until `stop`. watch: None: without metrics. secret: of Prometheus.

    metadata: the metadata service, at a port of its own.
    """
    from whimbrel.bootstrap.apps import CONSOLE
    from whimbrel.bootstrap.health import HEALTH
    from whimbrel.bootstrap.metrics import METRICS

    if stop.is_set():  # asked for while the process was opened: it is not said to be up
        return
    apps = {**services, HEALTH: process.health.app}
    if watch and ports.metrics is None:
        apps[METRICS] = watch.endpoint(secret)
    app: ASGIApp = http_server.front(apps)
    if watch:
        app = watch.count(app, apps)

    async def answer() -> None:
        async with asyncio.TaskGroup() as group:
            if watch and ports.metrics is not None:
                group.create_task(show_metrics(process, watch, ports.metrics, stop, ports.config))
            if metadata and ports.metadata is not None:
                group.create_task(_serve_metadata(metadata, ports.metadata, stop, ports.config))
            websockets_at = CONSOLE if CONSOLE in services else None
            config = ports.config
            group.create_task(http_server.serve(app, ports.main, stop, ready, config.http, config.tls, websockets_at))

    await beside(process, answer())


async def _serve_metadata(app: "ASGIApp", endpoint: "socket.socket", stop: asyncio.Event, config: CloudConfig) -> None:
    at = f"Neutron's metadata agents ask at {http_server.url_of(endpoint, config.tls)}"
    await http_server.serve(app, endpoint, stop, lambda: say(at), config.http, config.tls)


async def show_metrics(
    process: Served, watch: "Watch", endpoint: "socket.socket", stop: asyncio.Event, config: CloudConfig
) -> None:
    """Serve metrics and health at a port of their own, without TLS: nothing there is secret."""
    from whimbrel.bootstrap.health import HEALTH
    from whimbrel.bootstrap.metrics import METRICS

    at = f"Prometheus asks at {http_server.url_of(endpoint)}/{METRICS}"
    app = http_server.front({METRICS: watch.endpoint(secret=None), HEALTH: process.health.app})
    await http_server.serve(app, endpoint, stop, lambda: say(at), config.http)


def watch_of(process: "Process") -> "Watch":
    """Return the metrics of a process that drives runs or has the API."""
    from whimbrel.bootstrap.metrics import Watch

    watch = Watch()
    watch.work(process.cloud, process.engine)
    return watch


async def beside(process: Served, work: Awaitable[object]) -> None:
    """Run the process until the other work is done; a bug in either ends both.

    Raises: errors of either.
    """
    keep_what_is_loaded()
    try:
        async with asyncio.TaskGroup() as group:
            background = group.create_task(_run(process))
            await work
            background.cancel()
    except ExceptionGroup as several:
        troubles, bugs = several.split(WorldError)
        if troubles is None or bugs is not None:
            raise
        raise _first(troubles) from several


async def _run(process: Served) -> None:
    await process.run()


def _first(troubles: ExceptionGroup[WorldError]) -> WorldError:
    """Return one of them: they have one cause, and one message is enough."""
    first = troubles.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
