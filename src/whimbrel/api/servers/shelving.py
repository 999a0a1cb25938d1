"""The actions shelve, shelveOffload and unshelve, with Nova's checks and words."""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.servers import action_states
from whimbrel.api.servers.creation import UNAVAILABLE
from whimbrel.api.views import locations
from whimbrel.domain.errors import Conflict, Invalid, NotFound, WrongState
from whimbrel.domain.ids import HostName
from whimbrel.moves import unshelve_requests
from whimbrel.moves.unshelve_requests import Destination
from whimbrel.servers.lifecycle import shelve as lifecycle

SHELVED = ("shelved", "shelved_offloaded")


async def shelve(call: Call) -> None:
    action_states.check_lock(call)
    action_states.check(call.server, "shelve", lifecycle.SHELVABLE)
    await lifecycle.shelve(call.cloud, call.engine, call.requester, call.server)


async def offload(call: Call) -> None:
    action_states.check_lock(call)
    action_states.check(call.server, "shelveOffload", ("shelved",))
    await lifecycle.offload(call.cloud, call.engine, call.requester, call.server)


async def unshelve(call: Call) -> None:
    action_states.check_lock(call)
    action_states.check(call.server, "unshelve", SHELVED)
    requested = call.body["unshelve"] if call.minor >= 77 and call.body["unshelve"] else {}
    if call.server.vm_state == "shelved":
        if requested:
            raise WrongState(
                "Specifying an availability zone or a host when unshelving instance"
                f' {call.server.id} with a state of "shelved" is not supported. The instance state must be'
                ' "shelved_offloaded".'
            )
        return await lifecycle.unshelve_in_place(call.cloud, call.engine, call.requester, call.server)
    wanted = await _destination(call, requested)
    return await unshelve_requests.unshelve(call.cloud, call.engine, call.requester, call.server, wanted)


async def _destination(call: Call, requested: dict[str, Any]) -> Destination:
    """Raises: Invalid: no such zone or host; Conflict: the host is in another zone; Forbidden: may not choose hosts."""
    zone, host = await _zone(call, requested.get("availability_zone")), requested.get("host")
    unpins = "availability_zone" in requested and zone is None
    if host is not None:
        call.check("os_compute_api:os-shelve:unshelve_to_host", action_states.owner_of(call))
        await _check_host(call, HostName(host), zone if zone or unpins else call.server.spec.zone_pin)
    return Destination(zone=zone, unpins=unpins, host=host, leaves_cell=action_states.may_leave_cell(call))


async def _zone(call: Call, name: str | None) -> str | None:
    """Return the id of the requested zone. Raises: Invalid: it has no host."""
    if name is None:
        return None
    zone = await locations.zone_named(call, name)
    if zone is None or not await locations.has_hosts(call, zone):
        raise Invalid(UNAVAILABLE)
    return zone


async def _check_host(call: Call, host: HostName, zone: str | None) -> None:
    """zone: that it must be in. Raises: Invalid: no such host; Conflict: it is in another zone."""
    try:
        is_in = await locations.zone_of_host(call, host)
    except NotFound as missing:
        raise Invalid(missing.reason) from None
    if zone not in (None, is_in):
        name = locations.zone_name(await locations.zone_names(call), zone or "")
        raise Conflict(f'Host "{host}" is not in the availability zone "{name}".')
