"""`whimbrel up`: start a whole cloud in one process, print when it is ready, end it in order.

Invariant: the directory is locked and the port is bound before anything is changed; the kernel releases both.
"""

import asyncio
import os
from collections.abc import Callable
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
from whimbrel.cli.service_command import run_until_stopped, say
from whimbrel.cli.serving import Ports, listen, metadata_port, metrics_port, metrics_secret, serve, watch_of
from whimbrel.cli.terminal import counted
from whimbrel.settings import CloudConfig
from whimbrel.settings.cell_sections import SimulatedTimes
from whimbrel.settings.datadir import ADMIN_CLOUD, DEMO_CLOUD, DataDir, Running, default_path

if TYPE_CHECKING:
    from whimbrel.bootstrap.process import Process
    from whimbrel.bootstrap.process_base import Start

IMAGE_NAME = "tick"
MAIN = "main"  # the conductor of the process that has the API


@dataclass(frozen=True)
class Up:
    """Parameters of the process."""

    home: DataDir
    running: Running
    ports: Ports
    lock: str
    policy: Path | None
    conducts: bool

    @property
    def config(self) -> CloudConfig:
        return self.ports.config

    def start(self) -> "Start":
        """Return the role and its parameters. Services that the settings have elsewhere are not in this process."""
        from whimbrel.bootstrap.process_base import Start
        from whimbrel.bootstrap.registration import this_process
        from whimbrel.bootstrap.roles import UP

        services, external = self.config.services, self.config.external
        role = replace(
            UP,
            has_conductor=self.conducts,
            has_images=services.image is None and "image" not in external,
            has_volumes=services.volume is None and "volume" not in external,
        )
        record = this_process("up", MAIN, str(self.home.path), self.lock)
        record = replace(record, knows=replace(record.knows, conducts=self.conducts))
        return Start(role, self.config, self.running.database_url, record, self.home, self.running.url)


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
    instant: bool = False,
    verbose: bool = False,
) -> None:
    """Start the cloud: API, services, agents and a conductor in one process, behind one port.

    It continues where it ended, whatever ended it. SIGTERM or Ctrl-C ends it in order.

    Parameters
    ----------
    data_dir
        Directory of all persistent data. Default: a directory of the user, by the conventions of the platform.
    port
        Port to listen at, 0: a free one. Default: 8774.
    host
        Address to listen at. Default: 127.0.0.1, this machine only.
    settings_file
        Cells, hosts, rules, and where services are. Default: whimbrel.toml of the data directory, else
        /etc/whimbrel/whimbrel.toml, else six simulated hosts in two zones.
    database
        postgresql://USER@HOST/NAME, or sqlite:///DIRECTORY. Default: that of the environment variable
        WHIMBREL_DATABASE or of the settings, else SQLite in the data directory.
    database_file
        A file with that URL: a password in it is not shown to other users, as one on the command line is.
    policy
        A policy file in oslo.policy's format that overrides the defaults.
    public_url
        URL at which clients reach this cloud, if it is not the address that it listens at.
    no_conductor
        Do not drive moves: leave that to `whimbrel conductor` processes.
    instant
        For tests: simulated hosts take no time for their work, and fail as files in DATA_DIR/faults say.
    verbose
        Log more than warnings.
    """
    log_setup.configure(verbose)
    home = DataDir(data_dir or default_path())
    file = settings.find(settings_file, home.path)
    config = settings.load(file)
    if instant:
        config = replace(config, simulated=SimulatedTimes(faults=str(home.path / "faults")))
    warn_of_passwords()
    database = chosen_database(database, database_file)
    home.make(config.guests_dirs(home.path))
    with home.used_as("up") as lock, home.used_as(f"conductor-{MAIN}"):
        place, metrics = config.listen, config.metrics
        endpoint = listen(host or place.host, place.port if port is None else port, config)
        running = Running(
            url=public_url or config.services.url or http_server.url_of(endpoint, config.tls),
            pid=os.getpid(),
            database_url=absolute(database or config.database.url or home.database_url),
            cloud_file=str(file.absolute()) if file else None,
        )
        own = metrics_port(metrics.host, metrics.port if metrics.enabled else None, "port of [metrics]")
        metadata = metadata_port(config)
        with endpoint, own or nullcontext(), metadata or nullcontext():
            start = Up(home, running, Ports(config, endpoint, own, metadata), lock, policy, conducts=not no_conductor)
            run_until_stopped(lambda stop: _serve(start, stop), loop_for(config))


def loop_for(config: CloudConfig) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the event loop for a process with hosts.

    uvloop leaves a copy of a pipe open in the child: the end of a tool that goes into the background, such as qemu-nbd,
    would never be seen.
    """
    real = any(isinstance(host, settings.LibvirtHost) for _, host in config.hosts())
    return asyncio.new_event_loop if real else uvloop.new_event_loop


async def _serve(up: Up, stop: asyncio.Event) -> None:
    from whimbrel.bootstrap import apps, process_factory

    process = await process_factory.open_process(up.start())
    try:
        await _fill_if_new(process, up.home)
        services = apps.endpoints(process, up.home, up.policy)
        watch = watch_of(process) if up.config.metrics.enabled else None
        secret = metrics_secret(up.config, up.home) if watch else None
        metadata = apps.metadata_service(process)
        await serve(process, services, up.ports, watch, secret, stop, lambda: _ready(up), metadata)
    finally:
        await process.close()


async def _fill_if_new(process: "Process", home: DataDir) -> None:
    """Create the initial contents of a cloud that has no accounts yet; an image only if this process has them."""
    if process.own_accounts is None or not await process.own_accounts.is_empty():
        return
    from whimbrel.bootstrap.initial_contents import create_first_accounts, create_first_image

    if process.image_service:
        await create_first_image(process)
    await create_first_accounts(process, home.write_passwords)


def _ready(up: Up) -> None:
    """Write the files that clients need, and print the next commands."""
    home, hosts = up.home, [host for _, host in up.config.hosts()]
    home.announce(up.running, up.config.services.ca_file)
    size = f"{counted(len(hosts), 'host')} in {counted(len({host.zone for host in hosts}), 'zone')}"
    lines = (
        f"[bold green]Whimbrel is up[/] at {up.running.url}: {size}",
        f"Data: {home.path}   To end it: Ctrl-C or kill {os.getpid()}",
    )
    if up.config.keystone is not None:
        say(*lines, f"Log in with a clouds.yaml of the OpenStack at {up.config.keystone.auth_url}")
        return
    if not home.clouds.exists():
        own = f"The passwords of this database were not generated in {home.path}: use your own clouds.yaml"
        say(*lines, f"[yellow]{own}[/]")
        return
    commands = (
        f"export OS_CLIENT_CONFIG_FILE={home.clouds} OS_CLOUD={DEMO_CLOUD}",
        f"openstack server create --flavor m1.small --image {IMAGE_NAME} --wait one",
        "openstack server resize --flavor m1.medium --wait one",
        "openstack server resize confirm one",
        f"openstack --os-cloud {ADMIN_CLOUD} server migrate --wait one",
        "openstack console url show --novnc one -f value -c url",
        "whimbrel move list",
    )
    browser = f"In a browser: log in as admin with the password in {home.clouds}"
    say(*lines, browser, "\nIn another terminal:\n", *(f"  [bold]{command}[/]" for command in commands))
