"""The command: makes a cloud in a directory of its own, runs the story in it, and leaves nothing behind."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from whimbrel.adapters import file_modes
from whimbrel.cli import terminal
from whimbrel.cli.demo.cloud_processes import Processes
from whimbrel.cli.demo.output import JsonLines, Output, Terminal
from whimbrel.cli.demo.story import CRASH, tell

if TYPE_CHECKING:
    from whimbrel.adapters.libvirt.daemon import PrivateDaemon

RULES = """\
[rules]
lease_s = 2.0
shutdown_timeout_s = 5.0

# A copy takes its time here, so that there is a middle in which to be killed.
[simulated]
build_disk_s = 0.5
copy_disk_s = 2.0
start_s = 0.2
stop_s = 0.2

[[cell]]
name = "cell1"
"""

SIMULATED = (("n1", "north"), ("n2", "north"), ("n3", "north"), ("s1", "south"), ("s2", "south"), ("s3", "south"))
LIBVIRT = (("n1", "north"), ("n2", "north"), ("n3", "north"))  # servers stay in their zone, which needs free capacity

HOST = """
[[cell.host]]
name = "{name}"
zone = "{zone}"
vcpus = 8
memory_mib = 4096
disk_gib = 40
driver = "{driver}"
"""


def demo(
    *, driver: Literal["simulated", "libvirt"] = "simulated", json: bool = False, picture: Path | None = None
) -> int:
    """Show a move that survives kill -9, in a new cloud of three processes.

    Servers are booted; one is resized and confirmed, one reverted, one migrated while its conductor is killed. At the
    end records, guests and claims are compared. Exit code 1: they do not agree.

    Parameters
    ----------
    driver
        simulated: simulated hosts. libvirt: real guests under QEMU.
    json
        One line of JSON for each event.
    picture
        Write the crash and the accounting as an SVG file.
    """
    console = terminal.console(picture=picture is not None)
    output: Output = JsonLines() if json else Terminal(console, CRASH if picture else None)
    with _directory() as directory, ExitStack() as hosts:
        cloud_file = directory / "cloud.toml"
        cloud_file.write_text(_simulated() if driver == "simulated" else _libvirt(directory, hosts))
        with Processes(directory, cloud_file) as cloud:
            agree = tell(output, cloud)
    if picture:
        picture.write_text(console.export_svg(title="whimbrel demo"))
    return 0 if agree else 1


def _simulated() -> str:
    return RULES + "".join(HOST.format(name=name, zone=zone, driver="simulated") for name, zone in SIMULATED)


def _libvirt(directory: Path, hosts: ExitStack) -> str:
    """Start a libvirtd for each host, all of them on this machine and without privileges."""
    from whimbrel.adapters.libvirt.daemon import PrivateDaemon

    text = RULES
    hosts.callback(_end_exports, directory)
    for name, zone in LIBVIRT:
        daemon = PrivateDaemon(directory / name, directory / "probes")
        hosts.callback(_power_off, daemon)
        asyncio.run(daemon.start())
        text += HOST.format(name=name, zone=zone, driver="libvirt")
        text += f'uri = "{daemon.uri}"\nguests_dir = "{daemon.guests_dir}"\nguest_nics = "user"\n'
    return text


def _power_off(daemon: "PrivateDaemon") -> None:
    asyncio.run(daemon.power_off())


def _end_exports(directory: Path) -> None:
    """End the process that serves volumes to real guests: it outlives the cloud."""
    from whimbrel.adapters.qemu import own_processes
    from whimbrel.adapters.qemu.storage_daemon import PROGRAM

    async def end() -> None:
        await own_processes.end(await own_processes.at_work(PROGRAM, directory))

    asyncio.run(end())


@contextmanager
def _directory() -> Iterator[Path]:
    """Make a directory for the demo's cloud: short, because it contains sockets, and open to a rootless libvirtd."""
    directory = Path(tempfile.mkdtemp(prefix="whimbrel-"))
    directory.chmod(file_modes.SEARCHABLE)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
