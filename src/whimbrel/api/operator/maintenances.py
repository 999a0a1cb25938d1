"""Maintenances, for operators: hosts are emptied, balanced or packed by a plan that is shown before anything starts.

This is Whimbrel's own part of the API: /v2.1/whimbrel/maintenances.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.views import locations
from whimbrel.api.views.maintenances import (
    HostShare,
    MaintenanceAnswer,
    MaintenanceHostUse,
    MaintenanceRow,
    MaintenanceRows,
    MaintenanceServer,
    MaintenanceSnapshot,
    MaintenanceState,
)
from whimbrel.domain.errors import Invalid
from whimbrel.domain.host import Host
from whimbrel.domain.maintenance_goal import Goal, HostInGoal
from whimbrel.domain.maintenance_plan import Budgets, Maintenance, MaintenanceItem, MaintenanceOptions
from whimbrel.domain.time_windows import Windows
from whimbrel.maintenance import cloud_snapshot
from whimbrel.maintenance import operator_requests as requests
from whimbrel.maintenance.budget_use import ANYWHERE, locations_of
from whimbrel.maintenance.progress_estimate import progress_of

DEFAULT_SPREAD = 10
TARGETS = ("hosts", "availability_zone", "aggregate", "cell")


async def index(call: Call) -> MaintenanceRows:
    """List the maintenances, the newest first."""
    store = call.cloud.maintenances
    rows = []
    for each in await store.find():
        rows.append(msgspec.convert(await _fields(call, each, await store.items(each.id)), MaintenanceRow))
    return MaintenanceRows(rows)


async def show(call: Call) -> MaintenanceAnswer:
    return await _answer(call, await call.cloud.maintenances.get(call.params["maintenance_id"]))


async def snapshot(call: Call) -> MaintenanceSnapshot:
    """Return all that the plan depends on as one document, for `whimbrel maintenance simulate`."""
    taken = await cloud_snapshot.take(call.cloud, call.params["maintenance_id"])
    return MaintenanceSnapshot(msgspec.to_builtins(taken))


async def plan(call: Call) -> MaintenanceAnswer:
    """Plan how the servers of hosts move away, and save the plan. Nothing is moved, and no host is disabled."""
    asked = call.body["maintenance"]
    given = [name for name in TARGETS if name in asked]
    if len(given) != 1:
        raise Invalid("A maintenance is of 'hosts', of an 'availability_zone', of an 'aggregate' or of a 'cell'.")
    target, hosts = await _hosts(call, given[0], asked[given[0]])
    goal = _goal(asked)
    options = MaintenanceOptions(
        allow_downtime=truth(asked.get("allow_downtime", False)),
        on_drift=asked.get("on_drift", "replan") if goal is UNSET else "pause",  # see `Goal`
        leaves_cell=call.may("compute:servers:resize:cross_cell"),
        budgets=Budgets(**{name: asked[name] for name in Budgets.__struct_fields__ if name in asked}),
        windows=Windows(texts=tuple(asked.get("windows", ())), time_zone=asked.get("time_zone", "UTC")),
        goal=goal,
    )
    name = asked.get("name", target)
    return await _answer(call, await requests.plan(call.cloud, call.requester, name, target, hosts, options))


def _goal(asked: Any) -> Goal | UnsetType:
    """Return the goal that is asked for; UNSET: to empty the hosts. Raises: Invalid: a spread without a balance."""
    kind = asked.get("goal", "empty")
    if "spread" in asked and kind != "balance":
        raise Invalid("'spread' is of the goal 'balance' only.")
    if kind == "empty":
        return UNSET
    spread = asked.get("spread", DEFAULT_SPREAD) if kind == "balance" else 0
    return Goal(kind=kind, spread=spread, on_drift=asked.get("on_drift", "replan"))


async def start(call: Call) -> MaintenanceAnswer:
    """Execute a plan as it was saved. Hosts that are emptied take no new servers from now on."""
    return await _answer(call, await requests.start(call.cloud, call.params["maintenance_id"]))


async def pause(call: Call) -> MaintenanceAnswer:
    """Start no more moves. Those under way go on."""
    return await _answer(call, await requests.pause(call.cloud, call.params["maintenance_id"]))


async def resume(call: Call) -> MaintenanceAnswer:
    """Go on. retry_failed: servers whose moves failed, or that stay, are planned anew."""
    again = truth((call.body["resume"] or {}).get("retry_failed", False))
    return await _answer(call, await requests.resume(call.cloud, call.params["maintenance_id"], retries_failed=again))


async def abort(call: Call) -> MaintenanceAnswer:
    """Start no more moves, and return the hosts to their former state. Moves under way go on to their end."""
    return await _answer(call, await requests.abort(call.cloud, call.params["maintenance_id"]))


async def _hosts(call: Call, kind: str, given: Any) -> tuple[str, Sequence[Host]]:
    """Return the target of a maintenance in words, and its hosts. Raises: Invalid: there is none."""
    cloud = call.cloud
    if kind == "hosts":
        names = list(dict.fromkeys(given))
        return ("host " if len(names) == 1 else "hosts ") + ", ".join(names), await requests.hosts_named(cloud, names)
    if kind == "availability_zone":
        return f"zone {given}", await requests.hosts_of_zone(cloud, await locations.zone_id(call, given))
    if kind == "aggregate":
        return f"aggregate {given}", await requests.hosts_of_aggregate(cloud, given)
    return f"cell {given}", await requests.hosts_of_cell(cloud, given)


async def _answer(call: Call, found: Maintenance) -> MaintenanceAnswer:
    items = await call.cloud.maintenances.items(found.id)
    goal = found.options.goal
    fields = await _fields(call, found, items) | {"servers": [_server(item) for item in items]}
    fields |= {"use": [_use(host) for host in goal.hosts]} if goal else {}
    return MaintenanceAnswer(msgspec.convert(fields, MaintenanceState))


async def _fields(call: Call, found: Maintenance, items: Sequence[MaintenanceItem]) -> dict[str, Any]:
    options, windows = found.options, found.options.windows
    now = call.cloud.clock.now() if windows.is_known_here else None
    locations = ANYWHERE if found.finished_at else await locations_of(call.cloud, options.budgets)
    return asdict(found) | {
        "hosts": sorted(found.named),
        **({"goal": options.goal.kind, "is_reached": options.goal.is_reached} if options.goal else {}),
        **({"spread": options.goal.spread} if options.goal and options.goal.spread else {}),
        "allow_downtime": options.allow_downtime,
        "on_drift": options.drift,
        "leaves_cell": options.leaves_cell,
        "budgets": asdict(options.budgets),
        "windows": windows.texts,
        "time_zone": windows.time_zone,
        "progress": asdict(progress_of(found, items, locations, now)),
        **(_next_change(windows, now) if now and windows.texts and not found.finished_at else {}),
    }


def _next_change(windows: Windows, now: float) -> dict[str, float | None]:
    return {"closes_at" if windows.is_open(now) else "opens_at": windows.changes_at(now)}


def _use(host: HostInGoal) -> MaintenanceHostUse:
    return MaintenanceHostUse(
        host=host.name,
        before=HostShare(**asdict(host.before)),
        after=HostShare(**asdict(host.after)),
        takes_part=host.takes_part,
        reason=host.reason,
    )


def _server(item: MaintenanceItem) -> MaintenanceServer:
    more = {"name": item.server_name, "server_group_id": item.group_id, "move_id": item.run_id}
    return msgspec.convert(asdict(item) | more, MaintenanceServer)
