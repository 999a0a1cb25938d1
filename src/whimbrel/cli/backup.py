"""`whimbrel backup`: make a consistent copy of a cloud while it runs, and check such a copy."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from cyclopts import App, Parameter
from rich.console import Console
from rich.markup import escape

from whimbrel.cli import SAYS_NO, terminal
from whimbrel.cli.output_format import Json
from whimbrel.cli.progress_bar import bar
from whimbrel.settings.datadir import DataDir, default_path

if TYPE_CHECKING:
    from whimbrel.backup import Result
    from whimbrel.backup.progress import Show

MIB = 1 << 20
TIMEOUT_S = 30.0

app = App(
    name="backup",
    help="Make a consistent copy of a cloud while it runs, and check copies.",
    default_parameter=Parameter(negative=()),
)


@app.default
def create(
    to: Path,
    /,
    *,
    data_dir: Path | None = None,
    volumes: bool = False,
    files_only: bool = False,
    timeout: float = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Copy the databases at one moment, with images, secrets and settings; the cloud may run meanwhile.

    The copy is a data directory. `whimbrel backup verify` checks it.

    Parameters
    ----------
    to
        Directory of the copy: a new or an empty one, outside of the data directory.
    data_dir
        Directory of the cloud. Default: a directory of the user, by the conventions of the platform.
    volumes
        Copy the files of volumes and their snapshots too. Servers may write to a volume while it is copied; the
        names of such volumes are shown.
    files_only
        Leave the databases out, if they are in PostgreSQL: copy all images, the secrets and the settings.
    timeout
        Seconds to wait until all databases can be locked together, which takes milliseconds.
    """
    from whimbrel.adapters.clock import SystemClock
    from whimbrel.backup import Options, Progress, back_up

    home = DataDir(data_dir or default_path())
    options = Options(timeout_s=timeout, volumes=volumes, files_only=files_only)
    console = terminal.console()
    with _shown(None if json else console) as show:
        result = asyncio.run(back_up(home, to, options, SystemClock(), Progress(show)))
    if json:
        terminal.write_json({"backup": {"path": str(to.absolute()), "locked_s": result.locked_s, **_manifest(result)}})
    else:
        console.print("\n".join(_report(to, result)), soft_wrap=True)


@app.command
def verify(directory: Path, /, *, json: Json = False) -> int:
    """Check that a backup is complete and unchanged, and that this version of Whimbrel can use its databases.

    Exit code 0: the backup can be used; 1: it cannot.

    Parameters
    ----------
    directory
        The backup.
    """
    from whimbrel.backup import Progress
    from whimbrel.backup import verify as check

    console = terminal.console()
    with _shown(None if json else console) as show:
        manifest, faults = check(directory, Progress(show))
    if json:
        terminal.write_json({"backup": {"complete": not faults, "faults": faults, "manifest": manifest}})
    else:
        console.print("\n".join(f"[red]{escape(fault)}[/]" for fault in faults), end="\n" if faults else "")
        verdict = "[bold red]not to be used[/]" if faults else "[bold green]complete and unchanged[/]"
        files = terminal.counted(len(manifest.files), "file")
        console.print(f"{escape(str(directory))}: {verdict}, {files}, taken at {manifest.taken_at}", soft_wrap=True)
    return SAYS_NO if faults else 0


def _manifest(result: "Result") -> dict[str, Any]:
    return msgspec.structs.asdict(result.manifest)


def _report(to: Path, result: "Result") -> Iterator[str]:
    """Yield what was copied, and the limits of the copy."""
    manifest = result.manifest
    size = sum(entry.size_bytes for entry in manifest.files) / MIB
    files, name = terminal.counted(len(manifest.files), "file"), escape(str(to))
    yield f"[bold green]Backed up[/] to {name}: {files}, {size:,.1f} MiB, as of {manifest.taken_at}"
    if manifest.databases:
        yield f"The databases were locked for {terminal.seconds(result.locked_s)}."
    else:
        yield "[yellow]The databases are not in it: back up PostgreSQL itself (see docs/backup.md).[/]"
    for path in manifest.missing:
        yield f"[yellow]{path} is missing in the cloud itself, though a record names it.[/]"
    for volume in manifest.changing:
        yield f"[yellow]{volume}: a server may have written to it while it was copied.[/]"
    for entry in manifest.files:
        if entry.source:
            yield f"[yellow]{entry.path} is a copy of {escape(entry.source)}: before a start see docs/backup.md.[/]"
    yield f"To check it: whimbrel backup verify {name}"


@contextmanager
def _shown(console: Console | None) -> Iterator["Show"]:
    """Show progress in MiB on a terminal; None: show nothing."""
    with bar(console) as shown:
        task = shown.add_task("", total=None)

        def show(what: str, done: float, total: float) -> None:
            shown.update(task, description=what, completed=round(done / MIB), total=round(total / MIB))

        yield show
