"""`whimbrel agent`: the agent of this machine's host, which carries out the orders of the cloud."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from cyclopts import App

from whimbrel import settings
from whimbrel.cli import log_setup
from whimbrel.cli.role_options import SettingsFile
from whimbrel.cli.service_command import cancel_when_set, keep_what_is_loaded, run_until_stopped, say
from whimbrel.settings.agentdir import DEFAULT, AgentDir

if TYPE_CHECKING:
    from whimbrel.bootstrap.agent_process import AgentStart
    from whimbrel.ports.hosts.control_plane import Welcome

app = App(name="agent", help="The agent of this machine: join a cloud, and serve it.")
app.command("whimbrel.cli.agent_join:join", help="Join a cloud with a token of whimbrel host invite.")


@app.default
def agent(
    *, dir: Path = DEFAULT, settings_file: SettingsFile = None, insecure: bool = False, verbose: bool = False
) -> None:
    """Serve as the agent of this machine's host, until SIGTERM or Ctrl-C.

    The host has joined before, with: whimbrel agent join TOKEN

    Parameters
    ----------
    dir
        Directory of the agent: its key, and what it has obeyed.
    settings_file
        Settings file with the table [host]. Default: DIR/whimbrel.toml, else /etc/whimbrel/whimbrel.toml, else a
        libvirt host with all that this machine has.
    insecure
        Connect to the bus without TLS, also to another machine.
    verbose
        Log more than warnings.
    """
    from whimbrel.bootstrap.agent_process import AgentStart

    log_setup.configure(verbose)
    directory = AgentDir(dir)
    file = settings.find(settings_file, directory.path)
    config = settings.load(file, needs_cells=False) if file else settings.CloudConfig()
    start = AgentStart(directory, config, str(file or "the settings"), insecure)
    is_real = isinstance(start.host(), settings.LibvirtHost)
    run_until_stopped(lambda stop: _serve(start, stop), asyncio.new_event_loop if is_real else uvloop.new_event_loop)


async def _serve(start: "AgentStart", stop: asyncio.Event) -> None:
    """Serve until the event. Raises: as `run_agent`."""
    from whimbrel.bootstrap.agent_process import run_agent

    host = start.directory.membership().host

    def ready(welcome: "Welcome") -> None:
        say(f"The agent of host {host} serves (session {welcome.session})")

    keep_what_is_loaded()
    await cancel_when_set(stop, run_agent(start, ready))
