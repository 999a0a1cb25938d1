"""Evacuations of hosts, for operators. A request begins as many as may be under way, and is repeated to the end."""

import msgspec

from whimbrel.api.http.call import Call
from whimbrel.api.views.host_evacuations import HostEvacuationAnswer, HostEvacuationState
from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import HostName
from whimbrel.hosts import admission
from whimbrel.servers.host_evacuation import evacuate_host


async def go_on(call: Call) -> HostEvacuationAnswer:
    """Begin evacuations of a host's servers, and say how far they are. Repeatable."""
    requested, name = call.body["evacuation"], HostName(call.params["host"])
    host = await admission.find(call.cloud, name)
    if host is None:
        raise NotFound(f"Host {name} could not be found.")
    since = float(requested.get("since") or call.cloud.clock.now())
    done = await evacuate_host(
        call.cloud,
        call.engine,
        call.requester,
        host,
        int(requested.get("at_once") or call.cloud.rules.evacuations_at_once),
        since,
        leaves_cell=call.may("compute:servers:resize:cross_cell"),
    )
    shown = {"host": name, "since": since, "is_over": done.is_over, **msgspec.to_builtins(done)}
    return HostEvacuationAnswer(msgspec.convert(shown, HostEvacuationState))
