"""The simulation of a maintenance: it runs in this process, on a snapshot of the cloud, and is shown on 80 columns."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from whimbrel.api.views.maintenances import MaintenanceState
from whimbrel.cli import SAYS_NO, log_setup, terminal
from whimbrel.cli.assumed_rates import DIRTY_MIB_S, LINK_MIB_S, Assume
from whimbrel.cli.client import Api
from whimbrel.cli.progress_bar import bar
from whimbrel.domain.errors import Refused
from whimbrel.domain.maintenance_plan import servers_by_state
from whimbrel.maintenance.cloud_snapshot import CloudSnapshot, MeasuredRates
from whimbrel.sim.maintenances.copied_cloud import Assumed
from whimbrel.sim.maintenances.plan_simulation import LostHost, SimulatedServer, Simulation, simulate

GIB = 1 << 30
SHOWN_LOSSES = 10
SHOWN_NAMES = 5


class SimulationAnswer(msgspec.Struct):
    simulation: Simulation


class SimulatedPlan(msgspec.Struct):
    maintenance: MaintenanceState
    simulation: Simulation


def simulated(api: Api, url: str, assume: Assume, *, json: bool) -> Simulation:
    """Simulate the maintenance at this URL. json: no progress is shown.

    Raises: NotFound; Refused: it is over, or the cloud is of another release that this one does not understand.
    """
    for name in ("link_mib_s", "dirty_mib_s", "start_s", "stop_s"):
        if (given := getattr(assume, name)) is not None and (given < 0 or (name == "link_mib_s" and not given)):
            raise Refused(f"--{name.replace('_', '-')} {given:g} is not possible.")
    log_setup.configure(verbose=False)  # what the simulated conductor logs
    with bar(None if json else terminal.console()) as shown:
        task = shown.add_task("reading the cloud", total=None)
        snapshot = _read(api, url)

        def show(what: str, done: int, total: int) -> None:
            shown.update(task, description=what, completed=done, total=total)

        return simulate(snapshot, assumed(snapshot.measured, assume), show)


def assumed(measured: MeasuredRates | None, assume: Assume) -> Assumed:
    """Return what is assumed: as given, else as measured."""
    link, dirty = (measured.link_mib_s, measured.dirty_mib_s) if measured else (LINK_MIB_S, DIRTY_MIB_S)
    return Assumed(
        link_mib_s=link if assume.link_mib_s is None else assume.link_mib_s,
        dirty_mib_s=dirty if assume.dirty_mib_s is None else assume.dirty_mib_s,
        start_s=assume.start_s,
        stop_s=assume.stop_s,
    )


def _read(api: Api, url: str) -> CloudSnapshot:
    answer: Any = api.get("compute", f"{url}/snapshot")["snapshot"]
    try:
        return msgspec.convert(answer, CloudSnapshot)
    except msgspec.ValidationError as error:
        release = answer.get("release", "unknown")
        raise Refused(f"This program does not understand the state of a cloud of release {release}: {error}") from None


def exit_code(found: Simulation) -> int:
    """Return 1 if servers stay on the hosts, or the maintenance would be paused."""
    return 0 if found.state == "done" and all(one.state in ("moved", "left") for one in found.servers) else SAYS_NO


# Output


def shown(found: Simulation) -> RenderableType:
    return Group(*_parts(found))


def _parts(found: Simulation) -> Iterator[RenderableType]:
    yield Text(f"Simulation of {found.name}, on the cloud as of {terminal.moment(found.snapshot_at)}", "bold")
    yield Text(_assumption(found))
    yield Text()
    begun = [one for one in found.servers if one.turn is not None]
    if begun:
        yield _order(begun)
        yield Text()
    others = [one for one in found.servers if one.state not in ("moved", "left")]
    if others:
        yield Text("These servers do not leave", "bold")
        for one in others:
            yield Text(f"  {one.name} ({one.server_id}) on {one.source}, {one.state}: {one.reason or 'not begun'}")
        yield Text()
    if found.links:
        yield Text("Copied by the links of hosts", "bold")
        yield _links(found)
        yield Text()
    yield from _losses(found.losses)
    yield Text()
    yield Text(summary(found))


def _assumption(found: Simulation) -> str:
    assumed, number = found.assumed, found.measured_transfers
    source = f"the medians of {terminal.counted(number, 'live migration')}" if number else "nothing was measured yet"
    return (
        f"Assumed ({source}): {assumed.link_mib_s:,.0f} MiB/s for the link of each host, in each direction; each"
        f" running guest writes {assumed.dirty_mib_s:,.0f} MiB/s to its memory, starts in {assumed.start_s:g} s and"
        f" stops in {assumed.stop_s:g} s; local disks are copied whole."
    )


def _order(begun: list[SimulatedServer]) -> RenderableType:
    table = terminal.plain_table("server", "from", "how", "to", "begins", "took", "copied")
    for one in begun:
        to = one.target or "-"
        if one.target != one.planned_target:
            to += f" (planned: {one.planned_target or '-'})"
        how = f"{one.kind}, off {span(one.down_s)}" if one.down_s else one.kind or "-"
        began = span(one.starts_s or 0.0)
        took = "-" if one.takes_s is None else span(one.takes_s)
        table.add_row(one.name, one.source, how, to, began, took, gib(one.copied_bytes))
    return table


def _links(found: Simulation) -> RenderableType:
    table = terminal.plain_table("host", "sent", "at most", "received", "at most")
    for one in found.links:
        sent, received = f"{one.sent_peak_mib_s:,.0f} MiB/s", f"{one.received_peak_mib_s:,.0f} MiB/s"
        table.add_row(one.host, gib(one.sent_bytes), sent, gib(one.received_bytes), received)
    for between in found.cell_links:
        peak = f"{between.peak_mib_s:,.0f} MiB/s"
        table.add_row(f"{between.source_cell} to {between.target_cell}", gib(between.copied_bytes), peak, "", "")
    return table


def _losses(losses: list[LostHost]) -> Iterator[Text]:
    """Yield which hosts could die after the plan, in words, the worst ones first."""
    bad = [one for one in losses if one.without_place]
    yield Text("If one more host dies afterwards", "bold")
    for one in bad[:SHOWN_LOSSES]:
        number, names = len(one.without_place), [each.name for each in one.without_place[:SHOWN_NAMES]]
        more = f" and {number - len(names)} more" if number > len(names) else ""
        yield Text(f"  {one.host}: {number} of {terminal.counted(one.servers, 'server')} have no place: "
                   f"{', '.join(names)}{more}")  # fmt: skip
        [(why, _)] = Counter(each.reason for each in one.without_place).most_common(1)
        yield Text(f"    {why}")
    if len(bad) > SHOWN_LOSSES:
        yield Text(f"  and {terminal.counted(len(bad) - SHOWN_LOSSES, 'more host')}: --json names all")
    good = len(losses) - len(bad)
    yield Text(f"  {good} of {terminal.counted(len(losses), 'remaining host')} can die: all their servers have a place")


def summary(found: Simulation) -> str:
    counts = servers_by_state((one.server_id, one.state) for one in found.servers)
    copied = gib(sum(one.copied_bytes for one in found.servers))
    words = f"{counts['moved']} of {counts.total()} servers leave in {span(found.duration_s)}"
    words = f"{words}, {copied} copied"
    ends = "" if found.state == "done" else f"; it ends {found.state}"
    return f"{words}{ends}" + (f"\n{found.message}" if found.message else "")


def span(seconds: float) -> str:
    """Return a duration in its two largest units: "2 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def gib(amount: int) -> str:
    return f"{amount / GIB:,.1f} GiB"
