"""`whimbrel doctor`: check the records of a running Nova and its Placement; nothing is written."""

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from rich.console import Console

from whimbrel.cli import SAYS_NO, doctor_output, doctor_watch, log_setup, terminal
from whimbrel.cli.doctor_sources import Sources, sources
from whimbrel.cli.oslo_files import read_connection, read_settings
from whimbrel.cli.progress_bar import bar
from whimbrel.doctor.diagnosis import Diagnosis, Look, diagnose
from whimbrel.doctor.stuck_limits import StuckLimits
from whimbrel.domain.errors import Invalid

if TYPE_CHECKING:
    from whimbrel.adapters.sql.nova_databases.opened_databases import NovaUrls

log = structlog.get_logger(__name__)


def doctor(
    *,
    nova_conf: Path = Path("/etc/nova/nova.conf"),
    placement_conf: Path = Path("/etc/placement/placement.conf"),
    cell_conf: tuple[str, ...] = (),
    os_cloud: str | None = None,
    libvirt: tuple[str, ...] = (),
    look_again: float = 30.0,
    settle: float = 60.0,
    stuck_after: float = 300.0,
    long_work: float = 3600.0,
    watch: float | None = None,
    metrics_port: int | None = None,
    metrics_host: str = "127.0.0.1",
    any_schema: bool = False,
    json: bool = False,
) -> int:
    """Check a running Nova (2023.1 to 34) and its Placement for what is broken. It reads the databases, never writes.

    What looks wrong is looked at again: only what both looks see, with unchanged rows, is a finding. What changed a
    moment ago or goes on is listed as in flight. Each finding has evidence, a probable cause, and the commands that
    correct it. Exit code 0: nothing is wrong; 1: there are findings, or a database cannot be read; 2: wrong use.

    Parameters
    ----------
    nova_conf
        nova.conf of an API or conductor above the cells: [api_database] connection. Cells are found in that database.
    placement_conf
        placement.conf: [placement_database] connection. A file with only the URL is fine, too, here and above.
    cell_conf
        CELL=FILE: another URL for the database of a cell than its mapping has, in a file.
    os_cloud
        Entry of clouds.yaml of an administrator, to ask Neutron and Cinder. Default: that of OS_CLOUD; without both
        they are not asked.
    libvirt
        HOST=URI: a host, by the name that Nova has, and its libvirt, to ask for its guests.
    look_again
        Seconds between the two looks.
    settle
        What was written less than so many seconds ago is in flight.
    stuck_after
        Seconds without a change after which a task state is stuck that lasts as long as a message.
    long_work
        The same for task states in which a host copies data.
    watch
        Look again after so many seconds, until Ctrl-C or SIGTERM; with --json one line for each look. A look that fails
        is logged. The exit code is that of the last complete look.
    metrics_port
        With --watch: port for Prometheus, which reads /metrics there; 0: any free one.
    metrics_host
        The address of that port.
    any_schema
        Read databases of unknown schema versions.
    json
        One JSON document instead of text.
    """
    log_setup.configure(verbose=False)
    urls = _urls(nova_conf, placement_conf, cell_conf, any_schema=any_schema)
    if min(look_again, settle, stuck_after, long_work) < 0:
        raise Invalid("a time is negative: give seconds")
    if watch is not None and watch <= 0:
        raise Invalid("--watch needs more than 0 seconds")
    if metrics_port is not None and watch is None:
        raise Invalid("--metrics-port is for --watch SECONDS")
    limits = StuckLimits(settle_s=settle, message_s=stuck_after, work_s=long_work)
    from whimbrel.adapters.sql.nova_databases.opened_databases import open_nova
    from whimbrel.adapters.sql.nova_databases.read_only import Engines

    with sources(os_cloud, libvirt) as services, Engines() as engines:

        def look() -> tuple[Diagnosis, Sequence[str]]:
            return _looked(lambda: open_nova(urls, engines), services, look_again, limits)

        show = _show_json if json else _show
        if watch is not None:
            from whimbrel.adapters.prometheus.doctor_metrics import DoctorFigures

            signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends as by Ctrl-C
            endpoint = None if metrics_port is None else (metrics_host, metrics_port)
            return doctor_watch.watch(look, show, watch, endpoint, time.sleep, DoctorFigures())
        found, not_checked = look()
        show(found, not_checked)
        return SAYS_NO if found.findings else 0


def _show(found: Diagnosis, not_checked: Sequence[str]) -> None:
    console = terminal.console()
    for line in doctor_output.lines(found, not_checked):
        console.print(line, soft_wrap=True)


def _show_json(found: Diagnosis, not_checked: Sequence[str]) -> None:
    terminal.write_json(doctor_output.document(found, not_checked))


def _looked(look: Look, services: Sources, look_again: float, limits: StuckLimits) -> tuple[Diagnosis, Sequence[str]]:
    """Look twice, with progress on standard error. Return what was found, and what was not checked."""
    from whimbrel.adapters.clock import SystemClock

    now = SystemClock().now
    with bar(Console(stderr=True)) as shown:
        checks, not_checked = services.checks(now())
        task = shown.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            shown.update(task, description=what, completed=done, total=total)

        return diagnose(look, now, time.sleep, look_again, limits, show, checks), not_checked


def _urls(nova_conf: Path, placement_conf: Path, cell_conf: tuple[str, ...], *, any_schema: bool) -> "NovaUrls":
    from whimbrel.adapters.sql.nova_databases.opened_databases import NovaUrls

    cells = {}
    for each in cell_conf:
        name, sign, file = each.partition("=")
        if not sign:
            raise Invalid(f"--cell-conf {each} has no file: give CELL=FILE")
        cells[name] = read_connection(Path(file), "database", "--cell-conf")
    nova = read_settings(nova_conf, "--nova-conf")
    return NovaUrls(
        api=read_connection(nova_conf, "api_database", "--nova-conf"),
        placement=read_connection(placement_conf, "placement_database", "--placement-conf"),
        main=nova.get("database", "connection", fallback=None),
        cells=cells,
        default_zone=nova.get("DEFAULT", "default_availability_zone", fallback="nova"),
        any_schema=any_schema,
    )
