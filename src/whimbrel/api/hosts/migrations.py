"""Moves as Nova's clients know them: migration records.

Source: reference of Nova 34, sections 1.0.3 and 2.3.
"""

from collections.abc import Callable, Mapping
from typing import Any

from whimbrel.api.http import paging, times
from whimbrel.api.http.call import Call
from whimbrel.api.views import locations
from whimbrel.domain.errors import Forbidden, NotFound
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName, ProjectId, RunId, ServerId, UserId
from whimbrel.moves.facts import Move, moves_of
from whimbrel.moves.migration_status import MIGRATION_TYPES, is_live, migration_type
from whimbrel.ports.stores.journal import RunFilter


async def index(call: Call) -> Any:
    """List migrations: all of the cloud, or those that the requester may see."""
    hosts_shown = call.may("os_compute_api:os-migrations:index:host")
    found = await _find(call, hosts_shown=hosts_shown)
    hosts = (await locations.known_hosts(call)).by_name if found and hosts_shown else {}
    body: dict[str, Any] = {"migrations": [_shown(call, run, hosts, hosts_shown=hosts_shown) for run in found]}
    if call.minor >= 59:
        links = paging.next_link(call, len(found), found[-1].id if found else None)
        body |= {"migrations_links": links} if links else {}
    return body


async def _find(call: Call, *, hosts_shown: bool) -> list[Move]:
    sagas = _sagas(call)
    if not sagas or call.value("hidden") not in (None, "", "0", "False", "false"):
        return []
    fits = _host_filters(call, hosts_shown=hosts_shown)
    paged = call.minor >= 59
    limit = paging.limit(call) if paged else call.context.max_limit
    since, before = times.span(call.value("changes-since"), call.value("changes-before")) if paged else (None, None)
    statuses, subject = call.query.get("status"), call.value("instance_uuid")
    which = RunFilter(
        sagas=sagas,
        subject=ServerId(subject) if subject else None,
        project_id=_project(call),
        user_id=UserId(user) if (user := call.value("user_id")) else None,
        statuses=statuses,
        changed_since=since,
        changed_before=before if call.minor >= 66 else None,
        after=await _marker(call) if paged else None,
        limit=None if fits else limit,
    )
    found = [run for run in moves_of(await call.cloud.journal.find(which)) if all(fit(run) for fit in fits)][:limit]
    return found if paged else found[::-1]


def _sagas(call: Call) -> list[str]:
    wanted = call.value("migration_type")
    return sorted(saga for saga, word in MIGRATION_TYPES.items() if wanted in (None, word))


def _project(call: Call) -> ProjectId | None:
    """Return the project whose requests are listed. Raises: Forbidden: another project."""
    wanted = call.value("project_id")
    if call.may("os_compute_api:os-migrations:index:all_projects"):
        return ProjectId(wanted) if wanted else None
    if wanted not in (None, call.principal.project_id):
        raise Forbidden("Policy doesn't allow os_compute_api:os-migrations:index:all_projects to be performed.")
    return call.principal.project_id


def _host_filters(call: Call, *, hosts_shown: bool) -> list[Callable[[Move], bool]]:
    """Raises: Forbidden: the requester may not see hosts, and therefore may not filter by them."""
    fits: list[Callable[[Move], bool]] = []
    host, source = call.value("host"), call.value("source_compute")
    if (host or source) and not hosts_shown:
        raise Forbidden("Policy doesn't allow os_compute_api:os-migrations:index:host to be performed.")
    if host:
        fits.append(lambda run: host in (source_host(run), target_host(run)))
    if source:
        fits.append(lambda run: source_host(run) == source)
    return fits


async def _marker(call: Call) -> RunId | None:
    marker = call.value("marker")
    if marker is None:
        return None
    try:
        return (await call.cloud.journal.get(RunId(marker))).id
    except NotFound:
        raise paging.no_marker(call) from None


def source_host(run: Move) -> HostName | None:
    facts = run.facts
    return facts.source.host if facts.source else None


def target_host(run: Move) -> HostName | None:
    facts = run.facts
    return facts.target.host if facts.target else None


def _shown(call: Call, run: Move, hosts: Mapping[HostName, Host], *, hosts_shown: bool) -> dict[str, Any]:
    facts = run.facts
    shown = described(call, run, hosts, hosts_shown=hosts_shown) | {
        "instance_uuid": run.subject,
        "old_instance_type_id": _number(facts.old_flavor),
        "new_instance_type_id": _number(facts.new_flavor),
    }
    if call.minor >= 23:
        shown["migration_type"] = migration_type(run)
        if is_live(run):
            shown["links"] = call.links(f"servers/{run.subject}/migrations", str(run.number))
    return shown


def described(call: Call, run: Move, hosts: Mapping[HostName, Host], *, hosts_shown: bool) -> dict[str, Any]:
    """Return the fields that every representation of a migration has."""
    source, target = (source_host(run), target_host(run)) if hosts_shown else (None, None)
    shown: dict[str, Any] = {
        "id": run.number,
        "status": run.status,
        "source_compute": source,
        "source_node": source,
        "dest_compute": target,
        "dest_node": target,
        "dest_host": hosts[target].host_ip if target and target in hosts else None,
        "created_at": times.with_fraction(run.created_at),
        "updated_at": times.with_fraction(run.updated_at),
    }
    if call.minor >= 59:
        shown["uuid"] = run.id
    if call.minor >= 80:
        shown |= {"user_id": run.user_id, "project_id": run.asker_project_id}
    return shown


def _number(flavor: Flavor | None) -> int | None:
    """Return a flavor's id if it is a number. Nova shows a row number here, which no API accepts."""
    return int(flavor.flavor_id) if flavor and flavor.flavor_id.isascii() and flavor.flavor_id.isdigit() else None
