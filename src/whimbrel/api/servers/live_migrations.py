"""Live migrations of one server: begun by an action; listed, with their progress, while they are in progress.

Source: reference of Nova 34, sections 1.2.1, 1.2.7 and 2.3.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from whimbrel.api.hosts import migrations
from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.servers import action_states
from whimbrel.api.views import locations
from whimbrel.domain.errors import Invalid, NotFound, Refused
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.server import Server
from whimbrel.domain.server_states import MIGRATING
from whimbrel.moves import live_requests
from whimbrel.moves.facts import Move, moves_of
from whimbrel.moves.live_progress import LiveProgress, percent, progress_of
from whimbrel.moves.migration_status import LIVE, is_live
from whimbrel.ports.stores.journal import RunFilter

CHECKED_LATER = 34
"""From this version on it is the migration that finds no host; below, the request is refused for it."""
ABORTABLE_EARLY = 65
"""From this version on a live migration can be aborted before its transfer has begun."""


async def begin(call: Call) -> None:
    requested: Mapping[str, Any] = call.body["os-migrateLive"]
    host = _host(call, requested)
    action_states.check_lock(call)
    action_states.check(call.server, "os-migrateLive", live_requests.LIVE_STATES)
    how: dict[str, Any] = {
        "forced": truth(requested.get("force", False)),
        "block_migration": _block_migration(requested["block_migration"]),
        "leaves_cell": action_states.may_leave_cell(call),
    }
    if call.minor < CHECKED_LATER:
        await _check_there_is_a_host(call, host, how)
    await live_requests.migrate_live(call.cloud, call.engine, call.requester, call.server, host, **how)


def _host(call: Call, requested: Mapping[str, Any]) -> HostName | None:
    """Return the requested host. Raises: Forbidden; Invalid: it is forced, and there is none."""
    host = requested["host"]
    if host is not None:
        call.check("os_compute_api:os-migrate-server:migrate_live:host", action_states.owner_of(call))
    elif truth(requested.get("force", False)):
        raise Invalid("Can't force to a non-provided destination")
    return None if host is None else HostName(host)


def _block_migration(requested: Any) -> bool | None:
    """Return whether local disks must be copied; None: if there are any."""
    return None if requested == "auto" else truth(requested)


async def _check_there_is_a_host(call: Call, host: HostName | None, how: Mapping[str, Any]) -> None:
    """Raises: Refused: the migration would find no host now, and why."""
    facts = await live_requests.live_facts(call.cloud, call.server, host, **how)
    found = await live_requests.plan_live(call.cloud, call.server, facts)
    if isinstance(found, str):
        raise Refused(found)
    if not found.chosen:
        raise Refused(found.summary())


# Those in progress


async def index(call: Call) -> Any:
    target = action_states.owner_of(call)
    hosts_shown = call.may("os_compute_api:servers:migrations:index:host", target)
    found = [run for run in await _of_server(call) if is_live(run)]
    return {"migrations": await _shown(call, found, hosts_shown=hosts_shown)}


async def show(call: Call) -> Any:
    run = await _in_path(call)
    if run.saga != LIVE:
        raise NotFound(f"Migration {run.number} for server {run.subject} is not live-migration.")
    if not is_live(run):
        raise NotFound(f"Migration {run.number} for server {run.subject} is not in progress.")
    [shown] = await _shown(call, [run], hosts_shown=True)
    return {"migration": shown}


async def abort(call: Call) -> None:
    """Cancel a live migration: the server stays where it is."""
    action_states.check_lock(call)
    action_states.check(call.server, "abort live migration", live_requests.LIVE_STATES, tasks=("migrating",))
    run = await _in_path(call)
    early = ("queued", "preparing") if call.minor >= ABORTABLE_EARLY else ()
    _check_status(run, "abort live migration", ("running", *early))
    await live_requests.abort(call.cloud, call.engine, call.requester, call.server, run)


async def force_complete(call: Call) -> None:
    """Force a live migration to complete, by post-copy or by pausing the guest."""
    action_states.check_lock(call)
    action_states.check(call.server, "force_complete", ("active",), tasks=("migrating",))
    try:
        run = await _in_path(call)
    except NotFound as missing:
        raise Invalid(missing.reason) from None
    _check_status(run, "force complete", ("running",))
    await live_requests.force_complete(call.cloud, call.engine, call.requester, call.server, run)


async def _of_server(call: Call) -> list[Move]:
    """Return all moves of the server in the path, the newest first."""
    return moves_of(await call.cloud.journal.find(RunFilter(subject=call.server.id)))


async def _in_path(call: Call) -> Move:
    """Return the migration in the path, by its number or its uuid. Raises: NotFound."""
    wanted = call.params["migration_id"]
    for run in await _of_server(call):
        if run.number and wanted in (str(run.number), run.id):
            return run
    raise NotFound(f"Migration {wanted} not found for instance {call.server.id}")


def _check_status(run: Move, action: str, allowed: Sequence[str]) -> None:
    """Raises: Invalid."""
    if run.saga != LIVE or run.is_over or run.status not in allowed:
        raise Invalid(
            f"Migration {run.number} state of instance {run.subject} is {run.status}. Cannot {action} while the"
            " migration is in this state."
        )


async def _shown(call: Call, runs: Sequence[Move], *, hosts_shown: bool) -> list[dict[str, Any]]:
    if not runs:
        return []
    hosts: Mapping[HostName, Host] = (await locations.known_hosts(call)).by_name if hosts_shown else {}
    noted = await progress_of(call.cloud, runs)
    return [
        migrations.described(call, run, hosts, hosts_shown=hosts_shown)
        | {"server_uuid": run.subject}
        | amounts(noted.get(run.id))
        for run in runs
    ]


async def progress_of_servers(call: Call, servers: Sequence[Server]) -> dict[ServerId, int]:
    """Return by how many percent the memory of those that are being migrated live has been copied."""
    moving = [server.id for server in servers if server.task_state == MIGRATING]
    if not moving:
        return {}
    subject = moving[0] if len(moving) == 1 else None
    runs = await call.cloud.journal.find(RunFilter(sagas=(LIVE,), subject=subject, only_open=True))
    noted = await progress_of(call.cloud, runs)
    return {run.subject: percent(noted[run.id]) for run in runs if run.id in noted}


def amounts(noted: LiveProgress | None) -> dict[str, int | None]:
    """Return the progress of a transfer in bytes; None: it has not begun."""
    names = [f"{what}_{kind}" for what in ("memory", "disk") for kind in ("total", "processed", "remaining")]
    return {f"{name}_bytes": getattr(noted.progress, name) if noted else None for name in names}
