"""`whimbrel watchdog`: stops the guests of this machine's host when its agent has lost the cloud."""

import asyncio
from pathlib import Path

from whimbrel import settings
from whimbrel.cli import log_setup
from whimbrel.cli.role_options import SettingsFile
from whimbrel.cli.service_command import cancel_when_set, run_until_stopped, say
from whimbrel.domain.self_fencing import bound
from whimbrel.settings.agentdir import DEFAULT, AgentDir


def watchdog(*, dir: Path = DEFAULT, settings_file: SettingsFile = None, verbose: bool = False) -> None:
    """Stop the guests of this host when its agent could not renew its lease, until SIGTERM or Ctrl-C.

    It does nothing unless 'self_fence_s' in [host] of the settings says after how many seconds. An agent that hangs, or
    that was killed, is fenced as well. An agent that is stopped by SIGTERM takes its promise back, and is not.

    Parameters
    ----------
    dir
        Directory of the agent.
    settings_file
        Settings file with the table [host]. Default: DIR/whimbrel.toml, else /etc/whimbrel/whimbrel.toml.
    verbose
        Log more than warnings.
    """
    from whimbrel.bootstrap.agent_process import AgentStart
    from whimbrel.bootstrap.watchdog_process import run_watchdog

    log_setup.configure(verbose)
    directory = AgentDir(dir)
    file = settings.find(settings_file, directory.path)
    config = settings.load(file, needs_cells=False) if file else settings.CloudConfig()
    start = AgentStart(directory, config, str(file or "the settings"))
    host, self_fence_s = directory.membership().host, start.host().self_fence_s

    def ready() -> None:
        off = "It does not fence itself: set 'self_fence_s' in [host] of the settings, and start its agent again."
        say(f"The watchdog of host {host} runs. {bound(self_fence_s) if self_fence_s else off}")

    run_until_stopped(lambda stop: cancel_when_set(stop, run_watchdog(start, ready)), asyncio.new_event_loop)
