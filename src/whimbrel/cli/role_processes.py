"""The roles of a cloud of many machines, each a process: `whimbrel api`, `conductor`, `dashboard`, `image`, `volume`.

They need no files of another process: the settings say where the databases, the bus and the services are.
"""

import asyncio
import os
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import uvloop
from cyclopts import Parameter
from msgspec.structs import replace as replace_fields

from whimbrel import settings
from whimbrel.cli import log_setup
from whimbrel.cli.role_options import ProcessOptions, ServiceOptions, SettingsFile, database_of, settings_of
from whimbrel.cli.service_command import run_until_stopped, say
from whimbrel.cli.serving import (
    Ports,
    beside,
    listen,
    metadata_port,
    metrics_port,
    metrics_secret,
    serve,
    show_metrics,
    watch_of,
)
from whimbrel.domain.errors import Invalid
from whimbrel.settings import CloudConfig
from whimbrel.settings.datadir import DataDir, default_path
from whimbrel.settings.sections import ServicesTable
from whimbrel.settings.transport import check_target

if TYPE_CHECKING:
    import socket

    from whimbrel.bootstrap.process_base import Start
    from whimbrel.bootstrap.roles import Role

CONSOLE_PORT = 6080
DASHBOARD_PORT = 8080
DASHBOARD_SETTINGS = settings.SYSTEM.with_name("dashboard.toml")
IMAGE_PORT = 9292
VOLUME_PORT = 8776


@dataclass(frozen=True)
class _Cloud:
    """Where a process finds its cloud. home: its own directory, or that of the `up` that has the hosts."""

    config: CloudConfig
    url: str  # of the databases
    front_url: str
    home: DataDir | None

    def start(self, role: "Role", name: str, front_url: str = "", lock: str = "") -> "Start":
        from whimbrel.bootstrap.process_base import Start
        from whimbrel.bootstrap.registration import this_process

        record = this_process(role.name, name, str(self.home.path) if self.home else "", lock)
        return Start(role, self.config, self.url, record, self.home, front_url or self.front_url)


def _found(process: ProcessOptions) -> _Cloud:
    """Find the cloud by the settings, or by the data directory of a `whimbrel up`. Raises: Invalid, NotFound."""
    settings_file, data_dir = process.settings_file, process.data_dir
    if settings_file is None and (data_dir is not None or not settings.SYSTEM.exists()):
        home = DataDir(data_dir or default_path())
        running = home.running()
        config = settings.load(Path(running.cloud_file) if running.cloud_file else None)
        return _Cloud(config, running.database_url, running.url, home)
    config = settings_of(settings_file, data_dir)
    home_of_up = DataDir(data_dir) if data_dir else None
    if home_of_up is None and not config.bus.urls:
        raise Invalid(
            "the settings have no [bus], over which this process reaches the agents of hosts: set its 'urls', or give"
            " --data-dir of the `whimbrel up` on this machine that has the hosts"
        )
    front_url = config.services.url or (home_of_up.running().url if home_of_up else "")
    return _Cloud(config, database_of(config, process.database_file, data_dir), front_url, home_of_up)


def conductor(
    *,
    name: str = "conductor",
    process: ProcessOptions = ProcessOptions(),
    metrics_port_number: Annotated[int | None, Parameter(name="--metrics-port")] = None,
) -> None:
    """Start a conductor, which drives moves and takes over those of conductors that die. There may be any number.

    Parameters
    ----------
    name
        Its name. On the machine of a `whimbrel up`, a conductor that is started again under its name resumes
        its own moves at once.
    metrics_port_number
        Answer /metrics and /healthz at this port, 0: a free one. Default: at none.
    """
    log_setup.configure(process.verbose)
    cloud = _found(process)
    if not cloud.front_url:
        raise Invalid("[services] of the settings has no 'url', at which this process reaches the API: set it")
    own = metrics_port(cloud.config.metrics.host, metrics_port_number, "--metrics-port")
    used = cloud.home.used_as(f"conductor-{name}", "--name") if cloud.home else nullcontext("")
    with own or nullcontext(), used as lock:
        run_until_stopped(lambda stop: _conduct(cloud, name, lock, own, stop))


async def _conduct(cloud: _Cloud, name: str, lock: str, metrics: "socket.socket | None", stop: asyncio.Event) -> None:
    from whimbrel.bootstrap.database_wait import opened_after_outage
    from whimbrel.bootstrap.process_factory import open_process
    from whimbrel.bootstrap.roles import CONDUCTOR

    process = await opened_after_outage(lambda: open_process(cloud.start(CONDUCTOR, name, lock=lock)), stop)
    if process is None:
        return
    try:
        say(f"conductor {name} is ready (process {os.getpid()})")
        if metrics is None:
            await beside(process, stop.wait())
        else:
            await beside(process, show_metrics(process, watch_of(process), metrics, stop, cloud.config))
    finally:
        await process.close()


def api(
    *,
    port: int | None = None,
    host: str | None = None,
    process: ProcessOptions = ProcessOptions(),
    policy: Path | None = None,
) -> None:
    """Start the HTTP front ends: identity, compute, network and Placement. There may be any number; none has files.

    Parameters
    ----------
    port
        Port to listen at, 0: a free one. Default: that of [listen], 8774.
    host
        Address to listen at. Default: that of [listen], 127.0.0.1.
    policy
        A policy file in oslo.policy's format that overrides the defaults.
    """
    log_setup.configure(process.verbose)
    cloud = _found(process)
    config = cloud.config
    with ExitStack() as held:
        ports = _ports(config, host, config.listen.port if port is None else port, held)
        if metadata := metadata_port(config):
            ports = replace(ports, metadata=held.enter_context(metadata))
        run_until_stopped(lambda stop: _serve_api(cloud, ports, policy, stop))


def console(*, port: int = CONSOLE_PORT, host: str | None = None, process: ProcessOptions = ProcessOptions()) -> None:
    """Start a proxy of consoles. There may be any number; [services] of the settings says at which URL they are.

    `whimbrel up` and `whimbrel api` have it too, at /console.

    Parameters
    ----------
    port
        Port to listen at, 0: a free one.
    host
        Address to listen at. Default: that of [listen], 127.0.0.1.
    """
    log_setup.configure(process.verbose)
    cloud = _found(process)
    with ExitStack() as held:
        ports = _ports(cloud.config, host, port, held)
        run_until_stopped(lambda stop: _serve_consoles(cloud, ports, stop))


async def _serve_consoles(cloud: _Cloud, ports: Ports, stop: asyncio.Event) -> None:
    from whimbrel.bootstrap.apps import console_endpoints
    from whimbrel.bootstrap.database_wait import opened_after_outage
    from whimbrel.bootstrap.process_factory import open_process
    from whimbrel.bootstrap.roles import CONSOLE

    process = await opened_after_outage(lambda: open_process(cloud.start(CONSOLE, "console")), stop)
    if process is None:
        return
    try:
        watch = watch_of(process) if cloud.config.metrics.enabled else None
        secret = metrics_secret(cloud.config, cloud.home) if watch else None
        services = console_endpoints(process)
        await serve(process, services, ports, watch, secret, stop, lambda: _is_up("The console proxy", ports))
    finally:
        await process.close()


def dashboard(
    *,
    api: str | None = None,
    identity: str | None = None,
    port: int = DASHBOARD_PORT,
    host: str | None = None,
    settings_file: SettingsFile = None,
    verbose: bool = False,
) -> None:
    """Start the dashboard by itself, beside any number of APIs. It has no database, no bus and no password.

    `whimbrel up` and `whimbrel api` have it too, at /.

    Parameters
    ----------
    api
        The URL of the API, or of the load balancer before several. Default: 'url' of [services], else what the catalog
        of the identity service has.
    identity
        The URL of the Keystone where users log in. Default: 'identity' of [services], else that of the API.
    port
        Port to listen at, 0: a free one.
    host
        Address to listen at. Default: that of [listen], 127.0.0.1.
    settings_file
        The settings. Default: /etc/whimbrel/dashboard.toml, if it exists. Of a cloud's it needs [services], [listen],
        [tls], [http] and [metrics].
    verbose
        Log more than warnings.
    """
    log_setup.configure(verbose)
    file = settings_file or (DASHBOARD_SETTINGS if DASHBOARD_SETTINGS.exists() else None)
    config = settings.load(file, needs_cells=False) if file else CloudConfig()
    if config.database.url or config.keystone:
        raise Invalid(
            f"{file}: the dashboard needs neither a database nor a login of its own: remove [database] and [keystone],"
            " and write the URL of a Keystone as 'identity' of [services]"
        )
    given = {name: url for name, url in {"url": api, "identity": identity}.items() if url}
    services = replace_fields(config.services, **given)
    for option, url in (("--api", api), ("--identity", identity)):
        check_target(url, option, services)
    with ExitStack() as held:
        ports = _ports(config, host, port, held)
        run_until_stopped(lambda stop: _serve_dashboard(services, ports, stop))


async def _serve_dashboard(services: ServicesTable, ports: Ports, stop: asyncio.Event) -> None:
    from whimbrel.bootstrap.metrics import Watch
    from whimbrel.bootstrap.separate_dashboard import open_dashboard

    async with open_dashboard(services) as process:
        watch = Watch() if ports.config.metrics.enabled else None
        secret = metrics_secret(ports.config, None) if watch else None
        await serve(process, process.services, ports, watch, secret, stop, lambda: _is_up("The dashboard", ports))


async def _serve_api(cloud: _Cloud, ports: Ports, policy: Path | None, stop: asyncio.Event) -> None:
    from whimbrel.bootstrap.apps import endpoints, metadata_service
    from whimbrel.bootstrap.database_wait import opened_after_outage
    from whimbrel.bootstrap.process_factory import open_process
    from whimbrel.bootstrap.roles import API

    process = await opened_after_outage(lambda: open_process(cloud.start(API, "api", ports.url)), stop)
    if process is None:
        return
    try:
        services = endpoints(process, cloud.home, policy)
        watch = watch_of(process) if cloud.config.metrics.enabled else None
        secret = metrics_secret(cloud.config, cloud.home) if watch else None
        metadata = metadata_service(process)
        await serve(process, services, ports, watch, secret, stop, lambda: _is_up("The API", ports), metadata)
    finally:
        await process.close()


def image(*, port: int = IMAGE_PORT, service: ServiceOptions = ServiceOptions()) -> None:
    """Start the image service as a process of its own. A cloud has one; [services] of the settings says where.

    Where others run the image service, it is a relay between that one and hosts, without files. There may be any
    number of them.

    Parameters
    ----------
    port
        Port to listen at, 0: a free one.
    """
    from whimbrel.bootstrap.roles import IMAGE, IMAGE_RELAY

    _service(IMAGE, port, service, beside_external=IMAGE_RELAY)


def volume(*, port: int = VOLUME_PORT, service: ServiceOptions = ServiceOptions()) -> None:
    """Start the volume service as a process of its own. A cloud has one; [services] of the settings says where.

    Parameters
    ----------
    port
        Port to listen at, 0: a free one.
    """
    from whimbrel.bootstrap.roles import VOLUME

    _service(VOLUME, port, service)


def _service(role: "Role", port: int, service: ServiceOptions, beside_external: "Role | None" = None) -> None:
    """Run a service. beside_external: the role if others run that service; None: there is nothing to do then."""
    log_setup.configure(service.verbose)
    config = settings_of(service.settings_file, service.data_dir)
    if role.name in config.external:
        if beside_external is None:
            raise Invalid(
                f"[keystone] of the settings has '{role.name}' among its 'services': others run that service, and this"
                " one is not needed"
            )
        role = beside_external
    home = DataDir(service.data_dir or default_path()) if role.sole_parts else None
    cloud = _Cloud(config, database_of(config, service.database_file, None), config.services.url or "", home)
    with ExitStack() as held:
        ports = _ports(config, service.host, port, held)
        lock = ""
        if home:
            home.make()
            lock = held.enter_context(home.used_as(role.name))
        # qemu-storage-daemon goes into the background: see cli.up.loop_for
        loop = asyncio.new_event_loop if role.has_volumes else uvloop.new_event_loop
        run_until_stopped(lambda stop: _serve_service(cloud, role, lock, ports, stop), loop)


async def _serve_service(cloud: _Cloud, role: "Role", lock: str, ports: Ports, stop: asyncio.Event) -> None:
    from whimbrel.bootstrap.database_wait import opened_after_outage
    from whimbrel.bootstrap.metrics import Watch
    from whimbrel.bootstrap.service_processes import open_service

    process = await opened_after_outage(lambda: open_service(cloud.start(role, role.name, lock=lock)), stop)
    if process is None:
        return
    try:
        watch = Watch() if cloud.config.metrics.enabled else None
        secret = metrics_secret(cloud.config, cloud.home) if watch else None
        ready = lambda: _is_up(f"The {role.name} service", ports)  # noqa: E731
        await serve(process, {process.name: process.app}, ports, watch, secret, stop, ready)
    finally:
        await process.close()


def _ports(config: CloudConfig, host: str | None, port: int, held: ExitStack) -> Ports:
    """Bind the ports of a process."""
    main = held.enter_context(listen(host or config.listen.host, port, config))
    metrics = config.metrics
    own = metrics_port(metrics.host, metrics.port if metrics.enabled else None, "port of [metrics]")
    if own:
        held.enter_context(own)
    return Ports(config, main, own)


def _is_up(what: str, ports: Ports) -> None:
    say(f"[bold green]{what} is up[/] at {ports.url} (process {os.getpid()})")
