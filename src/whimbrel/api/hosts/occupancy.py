"""Check whether hosts have servers or moves, before an operator removes or changes the host."""

from collections.abc import Iterable

from whimbrel.api.http.call import Call
from whimbrel.domain.host import Host
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.stores.journal import RunFilter


async def has_servers(call: Call, host: Host) -> bool:
    return await call.cloud.cell(host.cell).servers.count(host.name) > 0


async def is_in_a_move(call: Call, host: Host) -> bool:
    """Check whether an unfinished move starts or ends at the host. A move that awaits confirmation does not count."""
    for run in await call.cloud.journal.find(RunFilter(only_open=True)):
        if isinstance(run.facts, MoveFacts):
            places = (run.facts.source, run.facts.target)
            if any(place is not None and place.host == host.name for place in places):
                return True
    return False


async def is_anything_on(call: Call, hosts: Iterable[Host]) -> bool:
    """Check whether there are servers on one of these hosts, or moves to them."""
    for host in hosts:
        if await has_servers(call, host) or await is_in_a_move(call, host):
            return True
    return False
