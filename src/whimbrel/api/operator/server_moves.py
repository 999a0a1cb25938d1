"""Moving a server to a zone or a host, with another flavor or its own, or while it runs.

This is Whimbrel's own part of the API: POST /v2.1/whimbrel/servers/{id}/move. Omitted fields are unchanged: without
a zone the server stays in the zone it is pinned to, and without a host the scheduler chooses one.
"""

from collections.abc import Mapping
from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.operator import moves
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.servers import action_states, flavor_and_image
from whimbrel.api.views import locations
from whimbrel.api.views.moves import MoveAnswer
from whimbrel.domain.errors import Invalid
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import HostName
from whimbrel.moves import live_requests, requests
from whimbrel.moves.requests import Wanted


async def create(call: Call) -> MoveAnswer:
    """Begin a move, which awaits its verdict as every resize and migration does; the answer is the move.

    live: the server runs meanwhile, and there is no verdict. policy: of this live migration.
    """
    requested, server = call.body["move"], call.server
    if truth(requested.get("live", False)):
        return await _live(call, requested)
    if requested.get("policy"):
        raise Invalid("A 'policy' is for live migrations.")
    action_states.check_lock(call)
    action_states.check(server, "move", action_states.LIVING)
    wanted = Wanted(
        flavor=await _flavor(call, requested.get("flavor")),
        zone=await _zone(call, requested),
        host=_host(call, requested.get("host")),
        leaves_zone=_leaves_zone(call, requested.get("leave_zone", False)),
        leaves_cell=action_states.may_leave_cell(call),
    )
    run = await requests.move(call.cloud, call.engine, call.requester, server, wanted)
    return await moves.answer(call, run)


async def _live(call: Call, requested: Mapping[str, Any]) -> MoveAnswer:
    if requested.get("flavor") is not None:
        raise Invalid("A live migration keeps the flavor: 'flavor' is for moves that stop the server.")
    host = _host(call, requested.get("host"), "migrate_live")
    action_states.check_lock(call)
    action_states.check(call.server, "os-migrateLive", live_requests.LIVE_STATES)
    run = await live_requests.migrate_live(
        *(call.cloud, call.engine, call.requester, call.server, host),
        zone=await _zone(call, requested),
        leaves_zone=_leaves_zone(call, requested.get("leave_zone", False)),
        leaves_cell=action_states.may_leave_cell(call),
        policy=requested.get("policy"),
    )
    return await moves.answer(call, run)


async def _zone(call: Call, requested: Mapping[str, Any]) -> str | None:
    """Return the id of the requested zone. Raises: Invalid: there is none of that name."""
    name: str | None = requested.get("availability_zone")
    return None if name is None else await locations.zone_id(call, name)


async def _flavor(call: Call, ref: str | None) -> Flavor | None:
    if ref is None:
        return None
    call.check("os_compute_api:servers:resize", action_states.owner_of(call))
    flavor = await flavor_and_image.flavor(call, ref)
    if call.server.has_local_root:
        flavor_and_image.check_growth(call.server.flavor, flavor)
    return flavor


def _host(call: Call, name: str | None, kind: str = "migrate") -> HostName | None:
    if name is None:
        return None
    call.check(f"os_compute_api:os-migrate-server:{kind}:host", action_states.owner_of(call))
    return HostName(name)


def _leaves_zone(call: Call, said: Any) -> bool:
    if not truth(said):
        return False
    call.check("compute:servers:migrate:other_zone", action_states.owner_of(call))
    return True
