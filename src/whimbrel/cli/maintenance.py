"""`whimbrel maintenance`: plan how hosts are emptied, balanced or packed, execute the plan, and follow it."""

import time
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import App, Parameter
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from whimbrel.api.views.maintenances import (
    MaintenanceAnswer,
    MaintenanceRow,
    MaintenanceRows,
    MaintenanceState,
)
from whimbrel.cli import SAYS_NO, terminal
from whimbrel.cli.assumed_rates import Assume
from whimbrel.cli.client import Api
from whimbrel.cli.listing import Column, Listing
from whimbrel.cli.move import POLL_S, Where
from whimbrel.cli.output_format import Json, Output, WatchedJson
from whimbrel.domain.errors import Invalid, NotFound, Refused

URL = "/whimbrel/maintenances"
AS_USUAL, AS_MEASURED = Where(), Assume()
Which = Annotated[str, Parameter(help="Id, name, or the beginning of the id.")]
Watch = Annotated[bool, Parameter(help="Show the progress until it is over or paused. It goes on without this.")]
STYLES = {"moved": "green", "failed": "bold red", "stays": "yellow", "moving": "cyan"}
ROWS = (
    Column("id", "id"),
    Column("name", "name"),
    Column("state"),
    Column("planned at"),
    Column("progress", "reason"),
)
SERVERS = (
    Column("server", "name"),
    Column("id", "id"),
    Column("from", "name"),
    Column("how"),
    Column("to", "name"),
    Column("state"),
    Column("move", "id"),
    Column("why", "reason"),
)
USE = (
    Column("host", "name"),
    *(Column(f"{name} %") for name in ("vcpus", "memory", "disk")),
    Column("servers"),
    Column("why", "reason"),
)

app = App(
    name="maintenance",
    help="Empty, balance or pack hosts by a plan: plan, simulate, start, show, list, pause, resume, abort.",
    default_parameter=Parameter(negative=()),
)


@app.command
def plan(
    *hosts: str,
    zone: str | None = None,
    aggregate: str | None = None,
    cell: str | None = None,
    name: str | None = None,
    goal: Literal["empty", "balance", "pack"] = "empty",
    spread: int | None = None,
    allow_downtime: bool = False,
    on_drift: Literal["replan", "pause"] = "replan",
    at_once: int | None = None,
    host_at_once: int | None = None,
    group_at_once: int | None = None,
    zone_at_once: int | None = None,
    aggregate_at_once: int | None = None,
    project_at_once: int | None = None,
    most_failed: int | None = None,
    window: list[str] | None = None,
    time_zone: str | None = None,
    simulate: bool = False,
    json: Json = False,
    assume: Assume = AS_MEASURED,
    where: Where = AS_USUAL,
) -> int:
    """Plan how the servers of hosts move away, and save the plan. Nothing is moved, and no host is disabled.

    A server moves live where it can. One that cannot moves cold: if it is stopped, or if --allow-downtime says so. For
    all others the plan says why they stay. Exit code 1: servers stay, or the hosts are not balanced.

    Parameters
    ----------
    hosts
        Names of the hosts.
    zone
        All hosts of this availability zone.
    aggregate
        All hosts of this aggregate: its name or id.
    cell
        All hosts of this cell. Servers leave it only if the policy rule compute:servers:resize:cross_cell allows it.
    name
        A name for the maintenance. Default: what it is of.
    goal
        What is done with the hosts. empty: all servers leave them. pack: servers move among them, so that as many as
        possible become empty. balance: servers move among them, until their used shares of vcpus, memory and disk
        differ by no more than --spread. For pack and balance no host is disabled.
    spread
        Of a balance: the largest difference between the used shares of two hosts, in per cent. Default: 10.
    allow_downtime
        Running servers that cannot move live are stopped, moved and started.
    on_drift
        If a server cannot move as planned when its turn comes: plan it anew, or pause.
    at_once
        How many servers move at once. Default: 8.
    host_at_once
        How many of these from or to one host. Default: 4.
    group_at_once
        How many of these are of one server group. Default: 1.
    zone_at_once
        How many of these from, to or within one availability zone. Default: no limit.
    aggregate_at_once
        How many of these from, to or within one aggregate without a zone, such as a rack. Default: no limit.
    project_at_once
        How many of these are of one project. Default: no limit.
    most_failed
        How many moves may fail; one more pauses the maintenance. Default: 3.
    window
        When moves may start: "22:00-04:00", "mon-fri 22:00-04:00". Several times: several windows. Default: always.
    time_zone
        The time zone of the windows, as Europe/Berlin. Default: UTC.
    simulate
        Simulate the plan, as `whimbrel maintenance simulate` does. The options below are for that.
    """
    if sum(map(bool, (hosts, zone, aggregate, cell))) != 1:
        raise Invalid("name the hosts, or give one of --zone, --aggregate and --cell")
    asked: dict[str, Any] = {
        "hosts": list(hosts) or None,
        "availability_zone": zone,
        "aggregate": aggregate,
        "cell": cell,
        "name": name,
        "goal": None if goal == "empty" else goal,
        "spread": spread,
        "at_once": at_once,
        "host_at_once": host_at_once,
        "group_at_once": group_at_once,
        "zone_at_once": zone_at_once,
        "aggregate_at_once": aggregate_at_once,
        "project_at_once": project_at_once,
        "most_failed": most_failed,
        "windows": window,
        "time_zone": time_zone,
    }
    body = {key: value for key, value in asked.items() if value is not None}
    body |= {"allow_downtime": allow_downtime, "on_drift": on_drift}
    with where.api() as api:
        found = _decoded(api.post("compute", URL, {"maintenance": body}))
        if simulate:
            return _simulate_plan(api, found, assume, json)
    _print(found, json)
    if not json:
        terminal.console().print(next_command(found), soft_wrap=True)
    return 0 if found.can_succeed else SAYS_NO


@app.command(name="simulate")
def simulate_plan(
    maintenance: Which, /, *, json: Json = False, assume: Assume = AS_MEASURED, where: Where = AS_USUAL
) -> int:
    """Execute a plan on a copy of the cloud, under a simulated clock, in this process. The cloud is only read.

    The moves and their order are those of the real code. Shown are the time that it takes, what each link carries,
    which servers do not leave and why, and which servers would have no place if one more host died afterwards.
    Of a maintenance that has begun, the rest is simulated. Exit code 1: servers do not leave.
    """
    from whimbrel.cli import maintenance_simulation as simulation

    with where.api() as api:
        found = simulation.simulated(api, f"{URL}/{_find(api, maintenance)}", assume, json=json)
    if json:
        terminal.write_json(simulation.SimulationAnswer(found))
    else:
        terminal.console().print(simulation.shown(found))
    return simulation.exit_code(found)


@app.command
def start(maintenance: Which, /, *, watch: Watch = False, json: WatchedJson = False, where: Where = AS_USUAL) -> int:
    """Execute a plan as it was saved. Hosts that it empties take no new servers from now on, also when it is done.

    Those that are balanced or packed go on to take some.
    """
    with where.api() as api:
        found = _act(api, maintenance, "start", None)
        return _watch(api, found, json) if watch else _print(found, json)


@app.command
def show(maintenance: Which, /, *, watch: Watch = False, output: Output = Output(), where: Where = AS_USUAL) -> int:
    """Show a maintenance: its progress, and what becomes of each server."""
    if watch:
        output.check_watchable()
    with where.api() as api:
        found = _read(api, _find(api, maintenance))
        if watch:
            return _watch(api, found, output.is_json)
    if not output.wrote({"maintenance": found}, "maintenance"):
        terminal.console().print(shown(found))
    return 0


@app.command(name="list")
def list_maintenances(*, output: Output = Output(), where: Where = AS_USUAL) -> None:
    """List maintenances, the newest first."""
    with where.api() as api:
        answer = api.get("compute", URL)
    if not output.wrote(answer, "maintenances"):
        terminal.console().print(listed(msgspec.convert(answer, MaintenanceRows).maintenances))


@app.command
def pause(maintenance: Which, /, *, json: Json = False, where: Where = AS_USUAL) -> int:
    """Start no more moves; those under way go on. Hosts that are disabled stay so."""
    with where.api() as api:
        return _print(_act(api, maintenance, "pause", None), json)


@app.command
def resume(
    maintenance: Which,
    /,
    *,
    retry_failed: bool = False,
    watch: Watch = False,
    json: WatchedJson = False,
    where: Where = AS_USUAL,
) -> int:
    """Go on with a paused maintenance. Moves that failed before do not count any more.

    Parameters
    ----------
    retry_failed
        Plan servers anew whose moves failed, and those that stay."""
    with where.api() as api:
        found = _act(api, maintenance, "resume", {"retry_failed": retry_failed})
        return _watch(api, found, json) if watch else _print(found, json)


@app.command
def abort(maintenance: Which, /, *, json: Json = False, where: Where = AS_USUAL) -> int:
    """Start no more moves, and return the hosts to their state before the start. Moves under way go on to their end."""
    with where.api() as api:
        return _print(_act(api, maintenance, "abort", None), json)


def _simulate_plan(api: Api, found: MaintenanceState, assume: Assume, json: bool) -> int:
    """Simulate a plan that was just made."""
    from whimbrel.cli import maintenance_simulation as simulation

    result = simulation.simulated(api, f"{URL}/{found.id}", assume, json=json)
    if json:
        terminal.write_json(simulation.SimulatedPlan(found, result))
    else:
        console = terminal.console()
        console.print(simulation.shown(result))
        console.print(next_command(found), soft_wrap=True)
    return simulation.exit_code(result)


def next_command(found: MaintenanceRow) -> str:
    words = f"\nNothing has begun. To execute this plan:\n  whimbrel maintenance start {found.id}"
    if found.progress.total or not found.hosts:
        return words
    if found.goal != "empty":
        return "\nThe plan has no moves: there is nothing to execute."
    return f"{words}\nIt only disables the hosts: no servers are on them. Which hosts have servers: whimbrel host list"


# Requests


def _act(api: Api, wanted: str, action: str, body: Any) -> MaintenanceState:
    return _decoded(api.post("compute", f"{URL}/{_find(api, wanted)}/action", {action: body}))


def _read(api: Api, maintenance_id: str) -> MaintenanceState:
    return _decoded(api.get("compute", f"{URL}/{maintenance_id}"))


def _decoded(answer: Any) -> MaintenanceState:
    return msgspec.convert(answer, MaintenanceAnswer).maintenance


def _find(api: Api, wanted: str) -> str:
    """Return the id of a maintenance. Raises: NotFound; Refused: several have this name or prefix."""
    return chosen(msgspec.convert(api.get("compute", URL), MaintenanceRows), wanted)


def chosen(rows: MaintenanceRows, wanted: str) -> str:
    """Return the id of the maintenance with this id, name or prefix. Raises: as `_find`."""
    found = rows.matching(wanted)
    if not found:
        raise NotFound(f"there is no maintenance {wanted}: whimbrel maintenance list shows those that there are")
    if len(found) > 1:
        candidates = ", ".join(f"{row.id} ({row.name}, {row.state})" for row in found)
        raise Refused(f"{len(found)} maintenances are called {wanted}: name one by its id: {candidates}")
    return found[0].id


# Output


def _print(found: MaintenanceState, json: bool) -> int:
    if json:
        terminal.write_json({"maintenance": found})
    else:
        terminal.console().print(shown(found))
    return 0


def _watch(api: Api, found: MaintenanceState, json: bool) -> int:
    """Show a maintenance until it is over or paused. Return 1 if servers are left."""
    console, states = terminal.console(), _changes(api, found)
    try:
        if json:
            for found in states:
                terminal.write_json({"maintenance": found})
        else:
            found = watch_live(console, states) if console.is_terminal else watch_lines(console, states)
    except KeyboardInterrupt:
        console.print("It goes on by itself.")
    return 0 if found.has_succeeded else SAYS_NO


def _changes(api: Api, found: MaintenanceState) -> Iterator[MaintenanceState]:
    """Yield the maintenance, and again every now and then, until it is over or paused."""
    yield found
    while not found.is_at_rest:
        time.sleep(POLL_S)
        found = _read(api, found.id)
        yield found


def watch_live(console: Console, states: Iterator[MaintenanceState]) -> MaintenanceState:
    """Show the headline as it changes, then everything; return the last state."""
    found = next(states)
    with Live(headline(found), console=console, auto_refresh=False, transient=True) as live:
        for found in states:
            live.update(headline(found), refresh=True)
    console.print(shown(found))
    return found


def watch_lines(console: Console, states: Iterator[MaintenanceState]) -> MaintenanceState:
    """Write what is new in the headline, but not each estimate of the remaining time; then everything."""
    told: set[str] = set()
    before = ""
    for found in states:
        now = str(headline(_unestimated(found)))
        if now != before:
            lines = str(headline(found)).splitlines()
            console.print(Text("\n".join(line for line in lines if line not in told)))
            told, before = set(lines), now
    console.print(shown(found))
    return found


def _unestimated(found: MaintenanceState) -> MaintenanceState:
    return msgspec.structs.replace(found, progress=msgspec.structs.replace(found.progress, remaining_s=None))


def listed(rows: list[MaintenanceRow]) -> RenderableType:
    cells = [(row.id, row.name, row.state, terminal.moment(row.created_at), row.progress.words) for row in rows]
    return Listing(ROWS, cells, none="no maintenances")


def shown(found: MaintenanceState) -> RenderableType:
    """Show the servers of a maintenance, the use of hosts that are balanced or packed, and the progress."""
    return Group(*_parts(found))


def _parts(found: MaintenanceState) -> Iterator[RenderableType]:
    rows = [
        (each.name, each.server_id, each.source, each.how, each.target, Text(each.state, STYLES.get(each.state, "")),
         each.move_id, each.why)
        for each in found.servers
    ]  # fmt: skip
    if rows:
        yield Listing(SERVERS, rows)
        yield Text()
    if found.use:
        yield Listing(USE, [(each.host, *each.words, each.reason) for each in found.use])
        yield Text()
        yield Text(goal_words(found))
    if not found.finished_at:
        yield Text(found.terms)
    yield headline(found)


def goal_words(found: MaintenanceState) -> str:
    """Return what the planned moves make of the hosts, as a sentence."""
    if found.goal == "pack":
        emptied = [
            each.host for each in found.use if each.takes_part and each.before.servers and not each.after.servers
        ]
        named = f": {', '.join(emptied)}" if emptied else ""
        return f"pack: {len(emptied)} of {terminal.counted(len(found.use), 'host')} become empty by the plan{named}"
    before, after = (found.widest(when) for when in ("before", "after"))
    return (
        f"balance: the used shares differ by {before:.0f} % at most, and by {after:.0f} % after the plan;"
        f" asked for: {found.spread} %"
    )


def headline(found: MaintenanceRow) -> Text:
    """Return the state of a maintenance as a sentence, and below it what keeps servers from their move."""
    words = f"{found.name}: {found.state}, {found.progress.words}"
    obstacles = found.obstacles if isinstance(found, MaintenanceState) else ()
    return Text("\n".join(filter(None, (words, *obstacles, window_words(found), found.message))))


def window_words(found: MaintenanceRow) -> str | None:
    """Return when moves may start, in words; None: at any time, or none does."""
    if found.state not in ("planned", "running") or not found.windows:
        return None
    windows = f"{', '.join(found.windows)} {found.time_zone}"
    if found.closes_at:
        return f"moves start until {terminal.moment(found.closes_at)} UTC: {windows}"
    if found.opens_at:
        return f"no move starts before {terminal.moment(found.opens_at)} UTC: {windows}"
    return f"windows: {windows}"
