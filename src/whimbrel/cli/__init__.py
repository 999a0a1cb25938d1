"""The command line: the table of commands, and the output of their errors.

Invariant: an error is one sentence on standard error. Exit code 2: the command or the settings file is wrong; 1: the
request was refused or failed; 0: success. Commands are imported when called: `whimbrel up` must start fast.
"""

import errno
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from types import FunctionType
from typing import Any

from cyclopts import App, CycloptsError, CycloptsPanel, Parameter, UnusedCliTokensError

from whimbrel.domain.errors import Invalid, WorldError

SAYS_NO = 1
IS_WRONG = 2
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _version() -> str:
    from importlib.metadata import version

    return f"whimbrel {version('whimbrel')}"


def _wrong_call(error: CycloptsError) -> object:
    """Return what is printed of an error in the arguments."""
    if isinstance(error, UnusedCliTokensError):
        command = " ".join(("whimbrel", *(error.command_chain or ())))
        left_over = " ".join(error.unused_tokens or ())
        error = CycloptsError(msg=f"Too many arguments: {left_over}. See: {command} --help")
    return CycloptsPanel(error)


app = App(
    name="whimbrel",
    help="A compute cloud that speaks the OpenStack API and moves servers without losing one.",
    version=_version,
    default_parameter=Parameter(negative=()),
    result_action="return_value",
    error_formatter=_wrong_call,
)
app.command("whimbrel.cli.up:up", help="Start the cloud: one process, one port.")
app.command("whimbrel.cli.role_processes:api", help="Start the HTTP front ends as a process of their own.")
app.command("whimbrel.cli.role_processes:conductor", help="Start a conductor, which drives moves.")
app.command("whimbrel.cli.role_processes:console", help="Start a proxy of consoles as a process of its own.")
app.command("whimbrel.cli.role_processes:dashboard", help="Start the dashboard as a process of its own.")
app.command("whimbrel.cli.role_processes:image", help="Start the image service as a process of its own.")
app.command("whimbrel.cli.role_processes:volume", help="Start the volume service as a process of its own.")
app.command("whimbrel.cli.bootstrap:bootstrap", help="Create the first accounts, network and image of a cloud.")
app.command("whimbrel.cli.status:status", help="Show what is wrong in the cloud now.")
app.command("whimbrel.cli.check:check", help="Check databases, bus, services and rights before a start.")
app.command("whimbrel.cli.doctor:doctor", help="Check the records of a Nova that exists; nothing is written.")
app.command("whimbrel.cli.processes:processes", help="List the processes of a cloud.")
app.command("whimbrel.cli.db:app", name="db", help="Databases: migrate them, show their versions.")
app.command("whimbrel.cli.bus:app", name="bus", help="The bus: configure its servers, see what is connected.")
app.command("whimbrel.cli.agent:app", name="agent", help="The agent of this machine: join a cloud, and serve it.")
app.command("whimbrel.cli.watchdog:watchdog", help="Stop the guests of this host when its agent has lost the cloud.")
app.command("whimbrel.cli.storage:storage", help="Connect this host to volumes by os-brick, for its agent.")
app.command("whimbrel.cli.placement:app", name="placement", help="The Placement API by itself: start it, copy data.")
app.command("whimbrel.cli.demo:demo", help="Show a move that survives kill -9.")
app.command("whimbrel.cli.move:app", name="move", help="Moves: list, show, watch, retry, roll back, complete, export.")
app.command("whimbrel.cli.server:app", name="server", help="Servers: move them, and see what happened to them.")
app.command("whimbrel.cli.zone:app", name="zone", help="Availability zones: list, rename, delete.")
app.command("whimbrel.cli.cell:app", name="cell", help="Cells: list, add, remove, disable, enable, drain.")
app.command(
    "whimbrel.cli.host:app", name="host", help="Hosts: list, show, invite, enable, disable, fence, evacuate, forget."
)
app.command("whimbrel.cli.maintenance:app", name="maintenance", help="Empty, pack or balance hosts by a plan.")
app.command("whimbrel.cli.plan:app", name="plan", help="Show what a move would do, and why; nothing is moved.")
app.command("whimbrel.cli.prove:prove", help="Check every invariant of the cloud, with evidence.")
app.command("whimbrel.cli.repair:repair", help="Repair inconsistencies: show the plan, ask, apply it.")
app.command("whimbrel.cli.backup:app", name="backup", help="Make a consistent copy of a running cloud; check copies.")
app.command("whimbrel.cli.restore:app", name="restore", help="After a database was restored: compare, hold, go on.")
app.command("whimbrel.cli.upgrade:app", name="upgrade", help="Upgrades: see what holds one back.")
app.command("whimbrel.cli.sim:app", name="sim", help="Run the whole cloud under a simulated clock, with faults.")
app.command("whimbrel.cli.pki:app", name="pki", help="A small private CA: certificates for TLS.")
app.command("whimbrel.cli.completion:completion", help="Write the completion script of a shell.")
app.command("whimbrel.cli.heal:app", name="heal", help="Correct the allocations of servers for their ports.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process with its exit code."""
    try:
        code = _run(arguments)
        if sys.stdout:  # None: it was closed
            sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe
        _discard_output()
        code = 0
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):  # rich ends the process itself
            raise
        code = 0
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        code = _complain(f"the output cannot be written: {error.strerror}; make room", SAYS_NO)
        _discard_output()
    sys.exit(code or 0)


def _run(arguments: Sequence[str] | None) -> Any:
    """Run one command; return its exit code, or None."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name of a server may have letters that a locale has not
    try:
        _, commands, _ = app.parse_commands(arguments)
        for command in commands:
            show_whole_help(command)
        return app(arguments)
    except Invalid as error:
        return _complain(error.reason, IS_WRONG)
    except WorldError as error:
        return _complain(error.reason, SAYS_NO)
    except KeyboardInterrupt:
        return 130


def _discard_output() -> None:
    """Let the rest of the output go nowhere: Python writes it at its end, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def show_whole_help(command: App) -> None:
    """Let the help of an imported command be its docstring; that of its registration is for lists of commands."""
    if isinstance(command.default_command, FunctionType):
        command.help = None  # cyclopts takes the docstring then


def _complain(reason: str, code: int) -> int:
    from rich.text import Text

    from whimbrel.cli import terminal

    terminal.console(of_errors=True).print(Text.assemble(("whimbrel:", "red"), f" {reason}"))
    return code
