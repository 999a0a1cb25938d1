"""Moving a server to a zone or a host, with another flavor or its own.

This is Whimbrel's own part of the API: POST /v2.1/whimbrel/servers/{id}/move. Omitted fields are unchanged: without
a zone the server stays in the zone it is pinned to, and without a host the scheduler chooses one.
"""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.operator import moves
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.servers import action_states, flavor_and_image
from whimbrel.api.views import locations
from whimbrel.api.views.moves import MoveAnswer
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import HostName
from whimbrel.moves import requests
from whimbrel.moves.requests import Wanted


async def create(call: Call) -> MoveAnswer:
    """Begin a move, which awaits its verdict as every resize and migration does; the answer is the move."""
    requested, server = call.body["move"], call.server
    zone: str | None = requested.get("availability_zone")
    action_states.check_lock(call)
    action_states.check(server, "move", action_states.LIVING)
    wanted = Wanted(
        flavor=await _flavor(call, requested.get("flavor")),
        zone=None if zone is None else await locations.zone_id(call, zone),
        host=_host(call, requested.get("host")),
        leaves_zone=_leaves_zone(call, requested.get("leave_zone", False)),
        leaves_cell=action_states.may_leave_cell(call),
    )
    run = await requests.move(call.cloud, call.engine, call.requester, server, wanted)
    return await moves.answer(call, run)


async def _flavor(call: Call, ref: str | None) -> Flavor | None:
    if ref is None:
        return None
    call.check("os_compute_api:servers:resize", action_states.owner_of(call))
    flavor = await flavor_and_image.flavor(call, ref)
    if call.server.has_local_root:
        flavor_and_image.check_growth(call.server.flavor, flavor)
    return flavor


def _host(call: Call, name: str | None) -> HostName | None:
    if name is None:
        return None
    call.check("os_compute_api:os-migrate-server:migrate:host", action_states.owner_of(call))
    return HostName(name)


def _leaves_zone(call: Call, said: Any) -> bool:
    if not truth(said):
        return False
    call.check("compute:servers:migrate:other_zone", action_states.owner_of(call))
    return True
