"""Rebind ports of servers that wait for a verdict and are active elsewhere, or cleared: a stale activation arrived.

They are checked while such a request can arrive: the first minutes after each move was parked. Invariant: nothing is
done unless the move still waits, and verdicts on it wait until that is over (`Journal.accept`, beside).
"""

from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.ids import ServerId
from whimbrel.domain.run import Run
from whimbrel.moves.facts import moves_of, moves_ports, target_of
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.reconcilers.late_effects_round import EARLIEST_S
from whimbrel.saga.engine import Engine
from whimbrel.servers.cleanup.late_effects import clean_up_waiting


async def rebind_misbound(cloud: Cloud, engine: Engine) -> int:
    """Read the ports of all of them at once; return for how many servers ports are rebound."""
    since = cloud.clock.now() - EARLIEST_S
    runs = await cloud.journal.find(RunFilter(sagas=tuple(MOVE_SAGAS), only_open=True, changed_since=since))
    waiting = {run.subject: run for run in moves_of(runs) if run.state == "parked" and moves_ports(run.facts)}
    ports = await cloud.network.ports_of(list(waiting), with_requests=False) if waiting else []
    moved = {port.nic.port_id for run in waiting.values() for port in run.facts.ports}
    found = {(ServerId(port.device_id), port.host if port.is_connected else "") for port in ports if port.id in moved}
    elsewhere = {server for server, host in found if host != target_of(waiting[server]).host}
    return sum([await _give_back(cloud, engine, waiting[server]) for server in sorted(elsewhere)])


async def _give_back(cloud: Cloud, engine: Engine, move: Run) -> int:
    try:
        return int(await clean_up_waiting(cloud, engine, cloud.on_behalf_of(move, is_admin=False), move))
    except (Conflict, NotFound, Refused, Unavailable):
        return 0  # its owner was faster, or a service is unreachable: retry in the next round
