"""Services: the agent of each host. Operators list, disable and delete them, and declare them down.

Conductors are listed too, and have no settings: they lease their runs.

Source: reference of Nova 34, section 2.4.
"""

from collections.abc import Callable
from typing import Any

from whimbrel.api.hosts import internal_services, occupancy
from whimbrel.api.hosts.internal_services import InternalService
from whimbrel.api.http import times
from whimbrel.api.http.call import Call
from whimbrel.api.http.formats import FORMATS
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.views import locations
from whimbrel.api.views.unreachable_server import ABSENT_SINCE
from whimbrel.domain.errors import Conflict, Invalid, NotFound
from whimbrel.domain.host import ForcedDown, Host
from whimbrel.domain.ids import HostName
from whimbrel.hosts import admission, switching
from whimbrel.http.problem import Problem
from whimbrel.moves import evacuation_requests

BINARY = "nova-compute"


async def index(call: Call) -> Any:
    host, binary = call.value("host"), call.value("binary")
    zones, known = await _zones(call), await locations.known_hosts(call)
    shown = [_shown(call, one, zones) for one in known.by_name.values()]
    if call.minor >= ABSENT_SINCE:
        shown += [
            {"binary": BINARY, "host": name, "status": "UNKNOWN"} for name in await locations.absent_hosts(call, known)
        ]
    shown += internal_services.listed(await internal_services.of_cloud(call), call.minor, call.cloud.clock.now())
    found = [one for one in shown if not host or one["host"] == host]
    return {"services": [one for one in found if not binary or one["binary"] == binary]}


async def update(call: Call) -> Any:
    """Update a service. From 2.53 on: PUT /os-services/{uuid}."""
    wanted = call.body
    status, forced, why = wanted.get("status"), wanted.get("forced_down"), wanted.get("forced_down_reason")
    if status is None and forced is None:
        raise Invalid("No updates were requested. Fields 'status' or 'forced_down' should be specified.")
    if "disabled_reason" in wanted and status != "disabled":
        raise Invalid("Specifying 'disabled_reason' is valid only with status 'disabled'.")
    if why and not (forced is not None and truth(forced)):
        raise Invalid("Specifying 'forced_down_reason' is valid only with 'forced_down': true.")
    host = await _by_id(call)
    if isinstance(host, InternalService):
        raise _not_updated(host.binary)
    changed = await set_status(
        call,
        host,
        enabled=host.enabled if status is None else status == "enabled",
        reason=host.disabled_reason if status is None else wanted.get("disabled_reason"),
        forced_down=None if forced is None else truth(forced),
        why=why,
    )
    return {"service": _shown(call, changed, await _zones(call))}


# Below 2.53: PUT /os-services/enable and so on, with host and binary in the body.


async def enable(call: Call) -> Any:
    host = await _by_name(call)
    await set_status(call, host, enabled=True, reason=None, forced_down=None)
    return {"service": {"host": host.name, "binary": BINARY, "status": "enabled"}}


async def disable(call: Call) -> Any:
    host = await _by_name(call)
    await set_status(call, host, enabled=False, reason=None, forced_down=None)
    return {"service": {"host": host.name, "binary": BINARY, "status": "disabled"}}


async def disable_with_reason(call: Call) -> Any:
    reason = call.body.get("disabled_reason")
    if reason is None:
        raise Invalid("Missing disabled reason field")
    host = await _by_name(call)
    await set_status(call, host, enabled=False, reason=reason, forced_down=None)
    return {"service": {"host": host.name, "binary": BINARY, "status": "disabled", "disabled_reason": reason}}


async def force_down(call: Call) -> Any:
    if "forced_down" not in call.body:
        raise Invalid("Missing forced_down field")
    host, forced = await _by_name(call), truth(call.body["forced_down"])
    await set_status(call, host, enabled=host.enabled, reason=host.disabled_reason, forced_down=forced)
    return {"service": {"host": host.name, "binary": BINARY, "forced_down": forced}}


async def unknown_action(call: Call) -> Any:
    raise NotFound("Unknown action")


async def delete(call: Call) -> None:
    """Delete a host that has neither servers nor moves.

    Its provider is deleted first: if a server claimed resources of it meanwhile, that fails and nothing is deleted.
    """
    host = await _by_id(call)
    if isinstance(host, InternalService):
        await _forget(call, host)
        return
    if await occupancy.has_servers(call, host):
        raise Conflict(
            "Unable to delete compute service that is hosting instances. Migrate or delete the instances first."
        )
    if await occupancy.is_in_a_move(call, host):
        raise Conflict(
            "Unable to delete compute service that has in-progress migrations. Complete the migrations or delete the"
            " instances first."
        )
    await admission.remove(call.cloud, host)


async def _forget(call: Call, service: InternalService) -> None:
    """Remove the processes of a service. Raises: Conflict: one is live."""
    if service.is_up:
        raise Conflict(f"{service.binary} runs on {service.machine}. End its process first.")
    for process in service.processes:
        await call.cloud.processes.leave(process)


async def set_status(
    call: Call, host: Host, *, enabled: bool, reason: str | None, forced_down: bool | None, why: str | None = None
) -> Host:
    """Store the operator's settings of a host, and mirror them in Placement.

    forced_down: None: as it is. why: the host is forced down. Evacuations that wait for the administrator's word go on
    at once. Raises: NotFound.
    """
    hosts = call.cloud.cell(host.cell).hosts
    word = switching.word_of(host)
    if forced_down and (why or not host.forced_down):
        word = ForcedDown(by=call.principal.user_name, reason=why, at=call.cloud.clock.now())
    changed = await hosts.set_service(
        host.name, enabled=enabled, disabled_reason=reason, forced_down=forced_down, word=word
    )
    if enabled != host.enabled:
        await switching.mirror_in_placement(call.cloud, host, disabled=not enabled)
    if forced_down:
        await evacuation_requests.wake_waiting(call.cloud, call.engine, host.name)
    return changed


async def _by_name(call: Call) -> Host:
    name, binary = call.body["host"], call.body["binary"]
    if binary != BINARY:
        raise _not_updated(binary)
    known = await locations.known_hosts(call)
    if name not in known.by_name:
        raise known.not_found(f"Could not find binary {binary} on host {name}.")
    return known.by_name[HostName(name)]


def _not_updated(binary: str) -> Invalid:
    return Invalid(f"Updating a {binary} service is not supported. Only nova-compute services can be updated.")


async def _by_id(call: Call) -> Host | InternalService:
    """Return a service by its id: a uuid from 2.53 on, below it a number. Raises: Invalid; NotFound."""
    id = call.params["service_id"]
    known = await locations.known_hosts(call)
    hosts = known.by_name.values()
    if call.minor >= 53:
        if not FORMATS["any-uuid"](id):
            raise Invalid(f"Invalid uuid {id}")
        found = [host for host in hosts if host.service_id == id]
    else:
        if not (id.isascii() and id.isdigit()):
            raise Invalid("service_id must be an integer")
        found = [host for host in hosts if str(host.number) == id]
    if len(found) > 1:
        raise Problem(409, f"Several cells have a service {id}: ask for it by its uuid, which needs version 2.53.")
    if found:
        return found[0]
    for service in await internal_services.of_cloud(call):
        if id == (service.id if call.minor >= 53 else str(service.number)):
            return service
    raise known.not_found(f"Service {id} not found.")


async def _zones(call: Call) -> Callable[[Host], str]:
    """Return a lookup from host to the name of its zone."""
    aggregates, names = await call.cloud.aggregates.all(), await locations.zone_names(call)
    return lambda host: locations.zone_name(names, locations.zone_among(call, host.name, aggregates))


def _shown(call: Call, host: Host, zone: Callable[[Host], str]) -> dict[str, Any]:
    now = call.cloud.clock.now()
    shown: dict[str, Any] = {
        "id": host.service_id if call.minor >= 53 else host.number,
        "binary": BINARY,
        "host": host.name,
        "zone": zone(host),
        "status": "enabled" if host.enabled else "disabled",
        "state": "up" if host.is_up(now) else "down",
        "updated_at": times.with_fraction(min(host.seen_at, now)),
        "disabled_reason": host.disabled_reason,
    }
    if call.minor >= 11:
        shown["forced_down"] = host.forced_down
    return shown
