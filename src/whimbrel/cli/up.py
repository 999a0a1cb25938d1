"""`whimbrel up` and `whimbrel conductor`: start a process of a cloud, say when it is ready, end it in order.

Law: the directory and the port are taken before anything is changed, and given back by the kernel however we end.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from msgspec.structs import replace

from whimbrel import settings
from whimbrel.adapters.sql.engine.urls import absolute
from whimbrel.bootstrap import http_server
from whimbrel.cli import log_setup
from whimbrel.cli.database_option import chosen_database, warn_of_passwords
from whimbrel.cli.role_options import SettingsFile
from whimbrel.cli.service_command import keep_what_is_loaded, run_until_stopped, say
from whimbrel.cli.terminal import counted
from whimbrel.domain.errors import WorldError
from whimbrel.settings import CloudConfig, HttpTable
from whimbrel.settings.datadir import ADMIN_CLOUD, DEMO_CLOUD, DataDir, Running, default_path

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

    from whimbrel.bootstrap.metrics import Watch
    from whimbrel.bootstrap.process import Process
    from whimbrel.bootstrap.process_base import Start as ProcessStart
    from whimbrel.bootstrap.roles import Role
    from whimbrel.ports.stores.processes import ProcessRecord

IMAGE_NAME = "tick"
DEMO_PROJECT = "demo"
MAIN = "main"  # the conductor of the process that has the API


@dataclass(frozen=True)
class Start:
    """Parameters of a process."""

    config: CloudConfig
    home: DataDir
    running: Running
    record: "ProcessRecord"
    policy: Path | None = None
    conducts: bool = True
    metrics_endpoint: "socket.socket | None" = None  # None: the cloud's own port serves it


def up(
    *,
    data_dir: Path | None = None,
    port: int | None = None,
    host: str | None = None,
    settings_file: SettingsFile = None,
    database: str | None = None,
    database_file: Path | None = None,
    policy: Path | None = None,
    public_url: str | None = None,
    no_conductor: bool = False,
    verbose: bool = False,
) -> None:
    """Start the cloud: API, services, agents and a conductor in one process, behind one port.

    It goes on where it stood, whatever ended it before. SIGTERM or Ctrl-C ends it in order.

    Parameters
    ----------
    data_dir
        All that the cloud remembers. Default: a directory of yours, as the platform has it.
    port
        Port to listen at, 0: a free one. Default: 8774.
    host
        Address to listen at. Default: 127.0.0.1, this machine only.
    settings_file
        Cells, hosts, rules, and where services are. Default: whimbrel.toml of the data directory, else
        /etc/whimbrel/whimbrel.toml, else six simulated hosts in two zones.
    database
        postgresql://USER@HOST/NAME, or sqlite:///DIRECTORY. Default: what is in the environment variable
        WHIMBREL_DATABASE or in the settings, else SQLite in the data directory.
    database_file
        A file with that URL: a password in it is not shown to other users, as one on the command line is.
    policy
        A policy file in oslo.policy's format that overrides the defaults.
    public_url
        URL at which clients reach this cloud, where it is not the address that it listens at.
    no_conductor
        Drive no moves: leave that to `whimbrel conductor` processes.
    verbose
        Log more than warnings.
    """
    log_setup.configure(verbose)
    home = DataDir(data_dir or default_path())
    file = settings.find(settings_file, home.path)
    config = settings.load(file)
    warn_of_passwords()
    database = chosen_database(database, database_file)
    home.make(config.guests_dirs(home.path))
    place = config.listen
    endpoint = http_server.listen(host or place.host, place.port if port is None else port)
    running = Running(
        url=public_url or http_server.url_of(endpoint),
        pid=os.getpid(),
        database_url=absolute(database or config.database.url or home.database_url),
        cloud_file=str(file.absolute()) if file else None,
    )
    metrics = config.metrics
    own = _metrics_endpoint(metrics.host, metrics.port if metrics.enabled else None, "port of [metrics]")
    with endpoint, own or nullcontext(), home.used_as("up") as lock, home.used_as(f"conductor-{MAIN}"):
        record = _record("up", MAIN, home, lock)
        start = Start(config, home, running, record, policy, conducts=not no_conductor, metrics_endpoint=own)
        run_until_stopped(lambda stop: _serve(start, endpoint, stop), _loop_for(config))


def conductor(
    *, name: str, data_dir: Path | None = None, metrics_port: int | None = None, verbose: bool = False
) -> None:
    """Start a further conductor for a cloud that is up on this machine; its moves are taken over when one dies.

    Parameters
    ----------
    name
        What it is called: a conductor that is started again under its name resumes its own moves at once.
    data_dir
        Directory of the cloud.
    metrics_port
        Have Prometheus ask this conductor at /metrics of this port, 0: a free one. Default: nobody can ask it.
    verbose
        Log more than warnings.
    """
    log_setup.configure(verbose)
    home = DataDir(data_dir or default_path())
    running = home.running()
    config = settings.load(Path(running.cloud_file) if running.cloud_file else None)
    own = _metrics_endpoint(config.metrics.host, metrics_port, "--metrics-port")
    with own or nullcontext(), home.used_as(f"conductor-{name}", "--name") as lock:
        start = Start(config, home, running, _record("conductor", name, home, lock), metrics_endpoint=own)
        run_until_stopped(lambda stop: _conduct(start, stop))


def _record(role: str, name: str, home: DataDir, lock: str) -> "ProcessRecord":
    from whimbrel.bootstrap.registration import this_process

    return this_process(role, name, str(home.path), lock)


def _metrics_endpoint(host: str, port: int | None, option: str) -> "socket.socket | None":
    """Open the port for Prometheus, if one is configured. Raises: Refused."""
    return None if port is None else http_server.listen(host, port, option)


def _loop_for(config: CloudConfig) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the event loop for a process with hosts.

    uvloop leaves a copy of a pipe open in the child: the end of a tool that goes into the background, such as qemu-nbd,
    would never be seen.
    """
    real = any(isinstance(host, settings.LibvirtHost) for _, host in config.hosts())
    return asyncio.new_event_loop if real else uvloop.new_event_loop


async def _serve(start: Start, endpoint: "socket.socket", stop: asyncio.Event) -> None:
    from whimbrel.bootstrap import apps
    from whimbrel.bootstrap import process_factory as wiring
    from whimbrel.bootstrap.roles import UP

    role = UP if start.conducts else replace(UP, has_conductor=False)
    process = await wiring.open_process(_base(start, role))
    try:
        await _furnish(process, start.home)
        endpoints = apps.endpoints(process, start.home, start.policy)
        if start.config.metrics.enabled:
            await _beside(process, _watched(start, process, endpoints, endpoint, stop))
        else:
            await _beside(
                process,
                http_server.serve(
                    http_server.front(endpoints), endpoint, stop, lambda: _ready(start), start.config.http
                ),
            )
    finally:
        await process.close()


def _base(start: Start, role: "Role") -> "ProcessStart":
    from whimbrel.bootstrap.process_base import Start as ProcessStart

    running = start.running
    return ProcessStart(role, start.config, running.database_url, start.record, start.home, running.url)


async def _conduct(start: Start, stop: asyncio.Event) -> None:
    from whimbrel.bootstrap import process_factory as wiring
    from whimbrel.bootstrap.roles import CONDUCTOR

    process = await wiring.open_process(_base(start, CONDUCTOR))
    try:
        say(f"conductor {start.record.name} is ready (process {os.getpid()})")
        if start.metrics_endpoint is None:
            await _beside(process, stop.wait())
        else:
            await _beside(process, _shown(_watch(process), start.metrics_endpoint, stop, start.config.http))
    finally:
        await process.close()


async def _watched(
    start: Start, process: "Process", endpoints: "dict[str, ASGIApp]", endpoint: "socket.socket", stop: asyncio.Event
) -> None:
    """Serve and count requests; serve metrics at their own port, or at a path of the cloud's."""
    from whimbrel.bootstrap.metrics import METRICS

    watch = _watch(process)
    if start.metrics_endpoint is None:
        secret = None if start.config.metrics.open else start.home.metrics_secret()
        endpoints = {**endpoints, METRICS: watch.endpoint(secret)}
    app = watch.count(http_server.front(endpoints), endpoints)
    async with asyncio.TaskGroup() as group:
        if start.metrics_endpoint is not None:
            group.create_task(_shown(watch, start.metrics_endpoint, stop, start.config.http))
        group.create_task(http_server.serve(app, endpoint, stop, lambda: _ready(start), start.config.http))


async def _shown(watch: "Watch", endpoint: "socket.socket", stop: asyncio.Event, limits: HttpTable) -> None:
    """Serve metrics at a port of their own."""
    from whimbrel.bootstrap.metrics import METRICS

    at = f"Prometheus asks at {http_server.url_of(endpoint)}/{METRICS}"
    await http_server.serve(
        http_server.front({METRICS: watch.endpoint(secret=None)}), endpoint, stop, lambda: say(at), limits
    )


def _watch(process: "Process") -> "Watch":
    from whimbrel.bootstrap.metrics import Watch

    watch = Watch()
    watch.work(process.cloud, process.engine)
    return watch


async def _beside(process: "Process", work: Awaitable[object]) -> None:
    """Run the process until the other work is done; a bug in either ends both.

    Raises: errors of either.
    """
    keep_what_is_loaded()
    try:
        async with asyncio.TaskGroup() as group:
            background = group.create_task(process.run())
            await work
            background.cancel()
    except ExceptionGroup as several:
        troubles, bugs = several.split(WorldError)
        if troubles is None or bugs is not None:
            raise
        raise _first(troubles) from several


def _first(troubles: ExceptionGroup[WorldError]) -> WorldError:
    """Return one of them: they have one cause, and one message is enough."""
    first = troubles.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


async def _furnish(process: "Process", home: DataDir) -> None:
    """Create users, an image and a network in a new cloud, so that its first server can be booted at once."""
    if not await process.identity.is_empty():
        return
    from whimbrel.embedded import tick_guest
    from whimbrel.embedded.identity.initial_accounts import bootstrap
    from whimbrel.embedded.image.in_process import seed_id, seed_image
    from whimbrel.ports.services.identity import Population
    from whimbrel.ports.services.images import Image

    image = Image(
        id=seed_id(IMAGE_NAME),
        name=IMAGE_NAME,
        status="queued",
        disk_format="raw",
        size_bytes=0,
        checksum=None,
        visibility="public",
    )
    await seed_image(process.cloud.images, image, tick_guest.image())

    async def seed_network(population: Population) -> None:
        [demo] = [project.id for project in population.projects if project.name == DEMO_PROJECT]
        await process.network_service.seed(demo)

    # Last, because it marks the cloud as no longer new.
    await bootstrap(process.identity, process.cloud.ids, write_down=home.write_passwords, prepare=seed_network)


def _ready(start: Start) -> None:
    """Write the files that clients need, and print the next commands."""
    home, hosts = start.home, [host for _, host in start.config.hosts()]
    home.announce(start.running)
    size = f"{counted(len(hosts), 'host')} in {counted(len({host.zone for host in hosts}), 'zone')}"
    up = (
        f"[bold green]Whimbrel is up[/] at {start.running.url}: {size}",
        f"Data: {home.path}   To end it: Ctrl-C or kill {os.getpid()}",
    )
    if not home.clouds.exists():
        own = f"The passwords of this database were not generated in {home.path}: use your own clouds.yaml"
        say(*up, f"[yellow]{own}[/]")
        return
    commands = (
        f"export OS_CLIENT_CONFIG_FILE={home.clouds} OS_CLOUD={DEMO_CLOUD}",
        f"openstack server create --flavor m1.small --image {IMAGE_NAME} --wait one",
        "openstack server resize --flavor m1.medium --wait one",
        "openstack server resize confirm one",
        f"openstack --os-cloud {ADMIN_CLOUD} server migrate --wait one",
        "whimbrel move list",
    )
    say(*up, "\nIn another terminal:\n", *(f"  [bold]{command}[/]" for command in commands))
