"""Evacuations of hosts, for operators. A request begins as many as may begin now, and is repeated to the end."""

import msgspec

from whimbrel.api.http.call import Call
from whimbrel.api.views.host_evacuations import HostEvacuationAnswer, HostEvacuationState
from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import HostName
from whimbrel.hosts import admission
from whimbrel.servers.host_evacuation import Pace, evacuate_host


async def go_on(call: Call) -> HostEvacuationAnswer:
    """Begin evacuations of a host's servers, and say how far they are. Repeatable."""
    requested, name = call.body["evacuation"], HostName(call.params["host"])
    host = await admission.find(call.cloud, name)
    if host is None:
        raise NotFound(f"Host {name} could not be found.")
    since = float(requested.get("since") or call.cloud.clock.now())
    rules = call.cloud.rules
    pace = Pace(
        at_once=int(requested.get("at_once", rules.evacuations_at_once)),
        per_minute=int(requested.get("per_minute", rules.evacuations_per_minute)),
    )
    leaves_cell = call.may("compute:servers:resize:cross_cell")
    done = await evacuate_host(call.cloud, call.engine, call.requester, host, pace, since, leaves_cell=leaves_cell)
    more = {"since": since, "is_over": done.is_over, "per_minute": pace.per_minute}
    shown = {"host": name, **more, **msgspec.to_builtins(done)}
    return HostEvacuationAnswer(msgspec.convert(shown, HostEvacuationState))
